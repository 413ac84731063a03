#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes .venv: Python 3.11 or newer, the packages of requirements-dev.txt, and this package in
# editable form (its libraries are linked into python/torch_neuronx by tools/setup/build.sh).
# Each step is skipped when the hash of what it reads equals the one kept in .venv.
set -euo pipefail
cd "$(dirname "$0")/../.."

die() {
  printf 'error: %s\n' "$@" >&2
  exit 1
}

# The chosen interpreter, or the first on PATH that can build extension modules.
usable() {
  "$1" -c '
import os, sys, sysconfig
if sys.version_info < (3, 11):
    sys.exit("it is Python %d.%d, but 3.11 or newer is needed" % sys.version_info[:2])
if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
    sys.exit("its C headers (Python.h) are missing; Debian: package python3-dev")
try:
    import ensurepip, venv
except ImportError:
    sys.exit("its module venv is missing; Debian: package python3-venv")
'
}

choose_python() {
  local candidate reasons=() reason
  for candidate in ${PYTHON:-python3.11 python3}; do
    if ! command -v "$candidate" >/dev/null; then
      reasons+=("$candidate: not found on PATH")
    elif reason=$(usable "$candidate" 2>&1); then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    else
      reasons+=("$candidate: ${reason##*$'\n'}")
    fi
  done
  die "no usable Python" "${reasons[@]}"
}

for tool in g++ sha256sum; do
  [[ $tool == g++ && -n ${CXX:-} ]] && tool=$CXX
  command -v "${tool%% *}" >/dev/null || die "$tool is not installed"
done

python=$(choose_python)
fresh() { [[ -f .venv/$1.sha256 && $(<".venv/$1.sha256") == "$2" ]]; }
hash_of() { sha256sum | cut -d' ' -f1; }

interpreter=$({ pwd; "$python" -VV; echo "$python"; } | hash_of)
if ! fresh interpreter "$interpreter"; then
  echo "Creating .venv with $("$python" -V)"
  rm -rf .venv
  "$python" -m venv .venv || die "$python cannot create a virtual environment (see above)"
  echo "$interpreter" >.venv/interpreter.sha256
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1
requirements=$(hash_of <requirements-dev.txt)
if ! fresh requirements "$requirements"; then
  echo "Installing the packages of requirements-dev.txt"
  .venv/bin/python -m pip install --quiet --requirement requirements-dev.txt ||
    die "the packages of requirements-dev.txt could not be installed (see above)"
  echo "$requirements" >.venv/requirements.sha256
fi

package=$(cat pyproject.toml <(find python -name '*.py' | sort) | hash_of)
if ! fresh package "$package"; then
  echo "Installing torchneuron in editable form"
  .venv/bin/python -m pip install --quiet --no-build-isolation --no-deps \
    --config-settings=wheel.cmake=false --editable . ||
    die "torchneuron could not be installed into .venv (see above)"
  echo "$package" >.venv/package.sha256
fi

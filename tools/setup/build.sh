#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# build.sh release|address|thread: configures build/FLAVOUR once and builds it.
#   release         everything, and links the libraries into python/torch_neuronx
#   address, thread the core and its tests under that sanitizer
set -euo pipefail
cd "$(dirname "$0")/../.."
flavour=$1
directory=build/$flavour
options=(-DCMAKE_BUILD_TYPE=Release "-DPython_EXECUTABLE=$PWD/.venv/bin/python")
[[ $flavour == release ]] || options+=("-DNEURON_SANITIZE=$flavour")

# One compiler needs up to 1.5 GB: memory limits the jobs as well as the processors do.
if [[ -z ${JOBS:-} ]]; then
  by_memory=$(awk '/MemAvailable/ {print int($2 / 1572864)}' /proc/meminfo)
  JOBS=$(nproc)
  ((by_memory < JOBS)) && JOBS=$((by_memory > 1 ? by_memory : 1))
fi

# An already installed torch_neuronx must not load while it is being replaced.
export TORCH_DEVICE_BACKEND_AUTOLOAD=0
export PATH=$PWD/.venv/bin:$PATH
configuration=$({ pwd; echo "${options[@]}" "${CXX:-}"; cat .venv/*.sha256; } | sha256sum)
if [[ ! -f $directory/build.ninja || ! -f $directory/configuration ||
  $(<"$directory/configuration") != "$configuration" ]]; then
  mkdir -p "$directory"
  cmake --fresh -S . -B "$directory" -G Ninja "${options[@]}" >"$directory/configure.log" 2>&1 || {
    cat "$directory/configure.log" >&2
    exit 1
  }
  echo "$configuration" >"$directory/configuration"
fi
quiet=()
if [[ ! -t 1 ]]; then
  quiet=(--quiet)
  ninja -C "$directory" -n --quiet | grep -q 'no work to do' || echo "Building $directory"
fi
ninja -C "$directory" -j "$JOBS" "${quiet[@]}"

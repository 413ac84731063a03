#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# lint.sh --check|--fix: formatting of C++ (clang-format) and Python (ruff), and ruff's checks.
set -uo pipefail
cd "$(dirname "$0")/../.."
bin=.venv/bin
mapfile -t sources < <(find csrc tests tools -name '*.cpp' -o -name '*.h' | sort)
status=0
if [[ $1 == --fix ]]; then
  $bin/clang-format -i "${sources[@]}" || status=1
  $bin/ruff format . || status=1
  $bin/ruff check --fix . || status=1
else
  $bin/clang-format --dry-run --Werror "${sources[@]}" || status=1
  $bin/ruff format --check . || status=1
  $bin/ruff check . || status=1
fi
exit $status

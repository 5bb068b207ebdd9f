#!/usr/bin/env bash
# Fails when a tracked C++ or BPF file is not formatted as .clang-format says. `--fix` formats them.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { echo "check-format: no clang-format (scripts/install-deps.sh --dev)" >&2; exit 1; }
mapfile -t files < <(git ls-files -- '*.c' '*.cc' '*.cpp' '*.h' ':!vmlinux')
[ ${#files[@]} -gt 0 ] || { echo "check-format: no files" >&2; exit 1; }
if [ "${1:-}" = --fix ]; then
  clang-format -i "${files[@]}"
else
  clang-format --dry-run --Werror --ferror-limit=3 "${files[@]}"
fi
echo "check-format: ${#files[@]} files"

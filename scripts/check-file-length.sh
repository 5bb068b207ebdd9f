#!/usr/bin/env bash
# Fails when a tracked source file is longer than 600 lines: look for the second idea in it.
set -euo pipefail
cd "$(dirname "$0")/.."
limit=600
mapfile -t files < <(git ls-files -- '*.c' '*.cc' '*.cpp' '*.h' '*.py' '*.sh' '*.js' '*.css' '*.html' ':!vmlinux' ':!tests/golden')
[ ${#files[@]} -gt 0 ] || { echo "check-file-length: no files" >&2; exit 1; }
long=$(wc -l "${files[@]}" | awk -v limit=$limit '$2 != "total" && $1 > limit { print $2 ": " $1 " lines" }')
if [ -n "$long" ]; then
  printf 'check-file-length: more than %s lines:\n%s\n' "$limit" "$long" >&2
  exit 1
fi
echo "check-file-length: ${#files[@]} files"

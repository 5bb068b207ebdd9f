#!/usr/bin/env bash
# Runs clang-tidy (.clang-tidy) over userspace, symbols and exporters: check-tidy.sh [FILE...]
# Needs a configured and built build/release (compile commands, generated headers). Slow: minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${PROFTRACE_BUILD:-build/release}
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) ||
  { echo "check-tidy: no clang-tidy (scripts/install-deps.sh --dev)" >&2; exit 1; }
[ -e "$build/compile_commands.json" ] || { echo "check-tidy: no $build/compile_commands.json; build first" >&2; exit 1; }
files=("$@")
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files -- 'userspace/*.cc' 'symbols/*.cc' 'exporters/*.cc')
# What GCC was told and clang does not know is no finding.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tidy" -p "$build" --quiet \
  --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument 2> >(grep -v 'warnings\? generated' >&2)
echo "check-tidy: ${#files[@]} files"

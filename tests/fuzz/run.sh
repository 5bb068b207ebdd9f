#!/usr/bin/env bash
# Runs one fuzz target over its inputs, then over changes of them: run.sh TARGET SEEDS_PROGRAM KEPT_INPUTS SECONDS LIBFUZZER
# The inputs that are found are not kept; an input that fails is left in the current directory as crash-*.
set -euo pipefail
target=$1 seeds_program=$2 kept=$3 seconds=$4 libfuzzer=${5:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
target=$(realpath "$target") here=$PWD
"$seeds_program" "$work"
# UBSan only prints otherwise.
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:abort_on_error=1:print_stacktrace=1}
mkdir -p "$work/$(basename "$target")"
cd "$work/$(basename "$target")"
[ ! -d "$kept" ] || cp -r "$kept/." .
if [ -n "$libfuzzer" ]; then
  crashes=${PROFTRACE_FUZZ_CRASHES:-$here/}
  "$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="$crashes" .
else
  [ -n "$(ls)" ] || printf '\0\0\0\0' > empty
  "$target" "$((seconds * 10))" 1 ./*
fi

#!/bin/sh
# check_recorder.sh NM OBJDUMP FILE: fails if the code that runs in jobs needs anything but itself.
set -eu
if "$1" --undefined-only "$3" | grep . >&2; then
  echo "the recorder calls what is not in it" >&2
  exit 1
fi
outside=$("$1" --defined-only "$3" | awk '$2 ~ /[bBdDcC]/ { print $3 }')
for name in .bss .data $outside; do
  if "$2" --reloc "$3" | grep -F " $name-" >&2; then
    echo "the recorder has data of its own: $name" >&2
    exit 1
  fi
done

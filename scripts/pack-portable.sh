#!/usr/bin/env bash
# Puts a built proftrace with the libraries that it needs into a folder that runs on another x86-64 Linux machine with the same
# or a newer glibc, whatever else is installed there: pack-portable.sh FOLDER [BUILD_FOLDER]. FOLDER/proftrace starts it.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:?the folder to make}
build=${2:-build/release}

rm -rf "$folder"
mkdir -p "$folder/lib"
cp "$build/bin/proftrace" "$build/bin/libproftrace_agent.so" "$folder/lib/"
strip --strip-debug "$folder/lib/proftrace"
# "name => path (address)"; glibc's own stay the other machine's.
ldd "$build/bin/proftrace" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | grep -vE '/lib(c|m|dl|rt|pthread)\.so' |
  while read -r library; do cp -L "$library" "$folder/lib/"; done
cat >"$folder/proftrace" <<'END'
#!/bin/sh
lib=$(dirname "$(readlink -f "$0")")/lib
LD_LIBRARY_PATH=$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$lib/proftrace" "$@"
END
chmod +x "$folder/proftrace"
du -sh "$folder" | cut -f1

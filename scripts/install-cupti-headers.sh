#!/usr/bin/env bash
# Puts the headers and the library of one CUPTI from PyPI into the cache folder, where CMake finds them, and prints the folder:
# install-cupti-headers.sh [VERSION]. The tests of the GPU agent are made with the headers of 13.5; those of older versions
# are compared with the agent's own declarations. Nothing that is built needs them. Does nothing where they are there already.
set -euo pipefail
version=${1:-13.5.25}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/proftrace/cupti-$version

say() { printf 'install-cupti-headers: %s\n' "$*" >&2; }

if [ ! -e "$folder/.complete" ]; then
  case $version in
    11.*) package=nvidia-cuda-cupti-cu11 ;;
    12.*) package=nvidia-cuda-cupti-cu12 ;;
    *) package=nvidia-cuda-cupti ;;
  esac
  say "putting CUPTI $version into $folder"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  rm -rf "$folder"
  mkdir -p "$folder"
  "${PROFTRACE_BASE_PYTHON:-/usr/bin/python3}" -m venv "$work" >&2
  "$work/bin/python" -m pip install --quiet --disable-pip-version-check --no-input --no-cache-dir --no-deps \
    --target "$folder" "$package==$version" >&2
  # Tests load only CUPTI itself of the libraries.
  find "$folder" -name '*.so*' ! -name 'libcupti.so*' -delete
  touch "$folder/.complete"
fi
echo "$folder"

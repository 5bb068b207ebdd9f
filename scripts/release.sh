#!/usr/bin/env bash
# Makes what users install, from a clean tree: release.sh [OUT [cmake options...]] (OUT: dist). The files are listed in scripts/pack-release.py.
# The same commit gives the same bytes on the same distribution; releases are made on Debian 12. `--any-tree` takes a tree with changes.
set -euo pipefail
cd "$(dirname "$0")/.."
any_tree=no
if [ "${1:-}" = --any-tree ]; then any_tree=yes; shift; fi
out=${1:-dist}
shift || true
build=build/package
stage=$build/stage

if [ "$any_tree" = no ] && [ -n "$(git status --porcelain)" ]; then
  echo "release: the tree has changes that no commit has: commit them, or give --any-tree" >&2
  exit 1
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C PATH="/usr/local/sbin:$PATH:/usr/sbin:/sbin"
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

# No file of it may depend on where the tree lies.
map="-ffile-prefix-map=$PWD/="
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 $map" -DCMAKE_C_FLAGS_RELEASE="-O2 $map" \
  -DCMAKE_ASM_FLAGS="$map" -DPROFTRACE_TESTS=OFF -DPROFTRACE_UNITY=ON -DPROFTRACE_STATIC=ON "$@" >/dev/null
cmake --build "$build" --target proftrace_static proftrace_manual
rm -rf "$stage"
cmake --install "$build" --prefix "$stage" --strip >/dev/null
version=$("$stage/bin/proftrace" --version | sed 's/.* //')
python3 scripts/pack-release.py "$stage" "$out" --contents "$build/static_contents.txt" --version "$version"

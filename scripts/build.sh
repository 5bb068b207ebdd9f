#!/usr/bin/env bash
# Configures and builds one preset, with GCC 12 or later and ccache where they are: build.sh [PRESET] [cmake options...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
shift || true

if [ -z "${CXX:-}" ] && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ] && command -v g++-12 >/dev/null; then
  export CC=gcc-12 CXX=g++-12
fi
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi
# bpftool and friends are where a user's PATH often does not look.
export PATH="/usr/local/sbin:$PATH:/usr/sbin:/sbin"

cmake --preset "$preset" "$@"
cmake --build --preset "$preset"

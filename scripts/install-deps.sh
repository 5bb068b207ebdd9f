#!/usr/bin/env bash
# Installs what proftrace needs from the distribution's packages: Debian 12 and 13, Ubuntu 22.04 and 24.04.
# Installs only what is missing, as root or with sudo, and may be run any number of times.
#   install-deps.sh              to build, run and test; with the headers of CUPTI (install-cupti-headers.sh)
#   install-deps.sh --run-only   only the shared libraries that a built proftrace loads
#   install-deps.sh --dev        also what changes to the code need: clang-format, clang-tidy, the browser test's driver
#   install-deps.sh --fleet      only DuckDB, which answers the questions of `proftrace fleet` (install-fleet-engine.sh)
#   install-deps.sh --torch      only a PyTorch for /usr/bin/python3, where the distribution has one (exit 3 where not)
set -euo pipefail

build_packages=(
  build-essential cmake ninja-build ccache pkg-config clang llvm libbpf-dev libelf-dev libdw-dev libcapstone-dev libseccomp-dev
  libabsl-dev libzstd-dev libxxhash-dev zlib1g-dev liblzma-dev libbz2-dev libsqlite3-dev libcli11-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev libbenchmark-dev git python3 python3-numpy python3-venv python3-yaml python3-jsonschema procps kmod strace sudo tmux crun)
# Better where they exist, done without where not.
optional_packages=(libisal-dev libunicorn-dev clang-format chromium)
dev_packages=(clang-format clang-tidy chromium-driver python3-selenium gdb)
# Packages of headers whose libraries a built proftrace loads.
library_packages=(libbpf-dev libelf-dev libdw-dev libcapstone-dev libseccomp-dev libabsl-dev libzstd-dev libxxhash-dev zlib1g-dev
  libisal-dev libsqlite3-dev)

say() { printf 'install-deps: %s\n' "$*" >&2; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    DEBIAN_FRONTEND=noninteractive "$@"
  elif command -v sudo >/dev/null; then
    sudo DEBIAN_FRONTEND=noninteractive "$@"
  else
    say "needs root for: $* (become root, or install sudo)"
    return 1
  fi
}

installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

available() { [ -n "$(apt-cache show "$1" 2>/dev/null)" ]; }

updated=no
update_lists() {
  [ "$updated" = yes ] && return 0
  as_root apt-get update -qq
  updated=yes
}

install_missing() {
  local package missing=()
  for package in "$@"; do
    installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  update_lists
  say "installing ${missing[*]}"
  as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

install_available() {
  local package wanted=()
  for package in "$@"; do
    installed "$package" && continue
    update_lists
    if available "$package"; then wanted+=("$package"); else say "this distribution has no $package: done without"; fi
  done
  [ ${#wanted[@]} -eq 0 ] || install_missing "${wanted[@]}"
}

# The shared libraries behind -dev packages, whose names change with their versions.
libraries_of() {
  apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances "$@" 2>/dev/null |
    sed -n 's/^ *Depends: \(lib[^<>]*\)$/\1/p' | grep -v -- '-dev$' | sort -u
}

# Ubuntu's bpftool is a wrapper that refuses every kernel but its own; making a skeleton needs no kernel at all.
install_bpftool() {
  if bpftool_works; then return 0; fi
  update_lists
  if available bpftool; then
    install_missing bpftool
  else
    install_missing linux-tools-common linux-tools-generic
  fi
  if bpftool_works; then return 0; fi
  local real
  real=$(find /usr/lib/linux-tools /usr/lib/linux-tools-* -name bpftool -type f 2>/dev/null | sort -V | tail -n 1)
  [ -n "$real" ] || real=$(find -L /usr/lib/linux-tools -name bpftool -type f 2>/dev/null | sort -V | tail -n 1)
  [ -n "$real" ] || { say "no working bpftool was found in linux-tools-generic"; return 1; }
  as_root ln -sf "$real" /usr/local/sbin/bpftool
}

bpftool_works() {
  PATH="/usr/local/sbin:/usr/sbin:/sbin:$PATH" bpftool version >/dev/null 2>&1
}

install_compiler() {
  local major
  major=$(g++ -dumpversion | cut -d. -f1)
  [ "$major" -ge 12 ] || install_missing gcc-12 g++-12
}

main() {
  command -v apt-get >/dev/null || {
    say "knows Debian and Ubuntu only; elsewhere install the equivalents of: ${build_packages[*]} bpftool"
    exit 1
  }
  case "${1:-}" in
    --run-only)
      apt-cache show libbpf-dev >/dev/null 2>&1 || update_lists
      mapfile -t libraries < <(libraries_of "${library_packages[@]}")
      install_missing "${libraries[@]}" ;;
    --fleet)
      install_missing python3 python3-venv
      "$(dirname "$0")/install-fleet-engine.sh" ;;
    --torch)
      local version
      if installed python3-torch; then
        version=$(dpkg-query -W -f '${Version}' python3-torch)
      else
        update_lists
        version=$(apt-cache policy python3-torch | sed -n 's/^ *Candidate: //p')
        case $version in "" | "(none)") say "this distribution has no python3-torch"; exit 3 ;; esac
      fi
      # The oldest that is tried.
      dpkg --compare-versions "$version" ge 1.13 || { say "this distribution's PyTorch is older than 1.13: $version"; exit 3; }
      install_missing python3-torch python3-numpy ;;
    --dev|"")
      install_missing "${build_packages[@]}"
      # clang's sanitizers and libFuzzer; some releases have them in clang itself.
      install_available "${optional_packages[@]}" "libclang-rt-$(clang -dumpversion | cut -d. -f1)-dev"
      install_bpftool
      install_compiler
      "$(dirname "$0")/install-cupti-headers.sh" >/dev/null || say "no headers of CUPTI: the GPU agent's tests are done without"
      if [ "${1:-}" = --dev ]; then install_available "${dev_packages[@]}"; fi ;;
    *)
      sed -n '2,8p' "$0" | sed 's/^# \{0,1\}//'
      exit 2 ;;
  esac
}

main "$@"

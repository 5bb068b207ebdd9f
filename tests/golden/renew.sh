#!/usr/bin/env bash
# Renews golden files on purpose; say in the commit why they changed. Read the diff before it.
#   renew.sh outputs [CASE...]   the expected outputs, from the captures that are kept (no root, no torch)
#   renew.sh record CASE...      records the captures anew, then their outputs (root, BPF, the torch of the case's why.md)
# PROFTRACE = the binary (default: build/release/bin/proftrace). For cases that need a wheel: PROFTRACE_WHEEL_PACKAGES =
# the site-packages folder of torch 2.11.0 for the same version as /usr/bin/python3.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proftrace=${PROFTRACE:-$here/../../build/release/bin/proftrace}
made=${PROFTRACE_MADE:-$here/../../build/release/bin/write_gpu_capture}
all=(mlp exceptions forced_loss workers killed_tracer names gpu)

work=$(mktemp -d /tmp/golden.XXXXXX)
job=
stop() {
  [ -z "$job" ] || kill -KILL -- "-$job" 2>/dev/null || true
  rm -rf "$work"
}
trap stop EXIT

outputs() {
  python3 "$here/golden_test.py" "$proftrace" "$here/$1" --renew
}

# start_job wheel|debian NAME ARGUMENTS...: runs jobs/NAME.py by /usr/bin/python3 and waits until it works. Its path is
# relative: the capture holds the command line.
start_job() {
  local packages=
  [ "$1" = debian ] || packages=${PROFTRACE_WHEEL_PACKAGES:?the site-packages folder of torch 2.11.0}
  cp "$here/jobs/$2.py" "$work/$2.py"
  cd "$work"
  OMP_NUM_THREADS=1 PYTHONPATH=$packages PYTHONDONTWRITEBYTECODE=1 setsid /usr/bin/python3 "$2.py" "${@:3}" >/dev/null 2>&1 &
  job=$!
  until grep -q libtorch_cpu "/proc/$job/maps" 2>/dev/null; do sleep 0.1; done
  sleep 4
}

# record_job ARGUMENTS...: records the job into result/, without a fact of this machine.
record_job() {
  cc -shared -fPIC -o host_shim.so "$here/host_shim.c"
  # The plan is cached by a first run, so that the second attaches as fast as it can.
  PROFTRACE_CACHE_DIR=$work/cache "$proftrace" -p "$job" -d 10ms --format none -o warm_up >/dev/null 2>&1
  LD_PRELOAD=$work/host_shim.so PROFTRACE_CACHE_DIR=$work/cache exec "$proftrace" record -p "$job" "$@" -o result >/dev/null
}

record() {
  if [ "$1" = gpu ]; then  # made up: no GPU is needed
    "$made" "$here/gpu/capture.ptrec"
    return
  fi
  case "$1" in
    mlp) start_job wheel mlp 0.015; (record_job -d 40ms --format none --metadata "owner=example" --trace-name golden) ;;
    exceptions) start_job wheel exceptions; (record_job -d 50ms --format none) ;;
    forced_loss) start_job wheel busy; (record_job -d 60ms --format none --buffer-size 16K) ;;
    workers) start_job debian workers; (record_job -d 250ms --format none) ;;
    killed_tracer)
      start_job wheel mlp 0.08
      touch messages
      (record_job --format none --no-progress) 2>messages &
      tracer=$!
      until grep -q 'recording PID' messages; do sleep 0.02; done
      sleep 0.25  # the first block is written after 0.2 s
      kill -KILL "$tracer"
      wait "$tracer" || true ;;
    names) start_job debian names; (record_job -d 40ms --format none) ;;
    *) echo "renew: no case $1" >&2; exit 2 ;;
  esac
  mkdir -p "$here/$1"
  mv result/capture.ptrec "$here/$1/capture.ptrec"
  cd "$here"
  kill -KILL -- "-$job"
  wait "$job" 2>/dev/null || true
  job=
}

mode=${1:-}
shift || true
cases=("$@")
case "$mode" in
  outputs) [ ${#cases[@]} -gt 0 ] || cases=("${all[@]}") ;;
  record) [ ${#cases[@]} -gt 0 ] || { echo "renew: name the cases to record: ${all[*]}" >&2; exit 2; } ;;
  *) sed -n '2,7p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
for case in "${cases[@]}"; do
  [ "$mode" = outputs ] || record "$case"
  outputs "$case"
done

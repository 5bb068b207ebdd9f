#!/usr/bin/env python3
"""Jumps put into a busy job and taken out again, thousands of times (issue: is it safe?): patch_cycles.py --threads 8 --cycles 2500.

The job (tests/live/patch_job.py) trains on so many threads, with exceptions, forks, execs, collections, short threads and SIGPROF every 3 ms. It runs
once by itself; then again and again, while jumps come and go, until there were so many cycles. Each run must end with 0 and the same results, and
what is mapped, open and written in it must be as before. Times for which all threads stand still, at attach and detach, are printed as percentiles."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "live"))

import live  # noqa: E402
from patch_test import TOOL, PatchJob, files, patch_regions  # noqa: E402

CYCLE = re.compile(r"attach ([\d.]+) ms \(held ([\d.]+), stop ([\d.]+)\), detach ([\d.]+) ms \(stop ([\d.]+)\); .*; (\w+)")


def percentiles(values: list[float]) -> str:
    values = sorted(values)
    return "  ".join(f"p{p} {values[min(len(values) - 1, len(values) * p // 100)]:8.2f}" for p in (50, 90, 99)) + f"  max {values[-1]:8.2f} ms"


def left_behind(pid: int, fds: int) -> str:
    found = live.changed_text_bytes(pid), patch_regions(pid), files(pid) - fds
    return "" if found == (0, [], 0) else f"left behind in {pid}: {found}"


def cycles_of(job: PatchJob, most: int) -> tuple[list[tuple[float, ...]], str]:
    """The times of the cycles until the job ends, and what went wrong."""
    fds = files(job.pid)
    times: list[tuple[float, ...]] = []
    while len(times) < most and job.process.poll() is None:
        # Not longer than a few: between them what is left behind is looked at.
        done = subprocess.run([TOOL, str(job.pid), "0.02", "25"], capture_output=True, text=True)
        for match in CYCLE.finditer(done.stdout):
            times.append(tuple(float(text) for text in match.groups()[:5]))
            if match[6] != "OK":
                return times, match[0]
        try:
            os.stat(f"/proc/{job.pid}/exe")
            if Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                break
            if wrong := left_behind(job.pid, fds):
                return times, wrong
        except OSError:
            break
    return times, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--cycles", type=int, default=2500)
    parser.add_argument("--iterations", type=int, default=4000, help="of each thread in a run")
    options = parser.parse_args()
    live.LiveTest.python = os.environ.get("PROFTRACE_ORACLE_PYTHON", "/usr/bin/python3")
    with PatchJob(options.threads, options.iterations) as job:
        expected = job.result()
    times: list[tuple[float, ...]] = []
    runs = 0
    begin = time.monotonic()
    while len(times) < options.cycles:
        with PatchJob(options.threads, options.iterations) as job:
            more, wrong = cycles_of(job, options.cycles - len(times))
            result = job.result()
        times += more
        runs += 1
        if wrong or result != expected:
            print(f"run {runs}, after {len(times)} cycles: {wrong or f'{result}, not {expected}'}")
            return 1
        print(f"run {runs}: {len(times)} cycles, {time.monotonic() - begin:.0f} s, results equal", file=sys.stderr, flush=True)
    print(f"{options.threads} threads: {len(times)} cycles in {runs} runs, exit 0 and results equal in each, nothing left behind")
    for name, index in (("one thread held", 1), ("all stop, attach", 2), ("all stop, detach", 4), ("whole attach", 0), ("whole detach", 3)):
        print(f"  {name:18} {percentiles([entry[index] for entry in times])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

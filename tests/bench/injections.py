#!/usr/bin/env python3
"""Injects a library into a Transformer training job on the CPU again and again, and shows that nothing happens to it.

    sudo python3 tests/bench/injections.py --python PY [--count 500] [--threads 1] [--torch-profiler]

The job runs once alone and once with injections; both must end with the same weights and losses, bit for bit.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).resolve().parent / "injection_job.py"


def start(arguments: argparse.Namespace, steps: int) -> subprocess.Popen:
    job = subprocess.Popen([arguments.python, JOB, str(steps), str(arguments.threads)], stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "ready\n"
    return job


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--tools", type=Path, default=ROOT / "build/release/tests/support/injection")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=400)
    arguments = parser.parse_args()
    begin = time.monotonic()
    expected = start(arguments, arguments.steps).communicate()[0]
    alone_s = time.monotonic() - begin
    done, runs, stops, totals, failures, differ = 0, 0, [], [], [], 0
    begin = time.monotonic()
    while done < arguments.count:
        job = start(arguments, arguments.steps)
        runs += 1
        while job.poll() is None and done < arguments.count:
            answer = dict(line.split(maxsplit=1) for line in subprocess.run(
                [arguments.tools / "inject", arguments.tools / "libinjected.so", "injected", str(job.pid)],
                capture_output=True, text=True).stdout.splitlines())
            if "result" in answer:
                done += 1
                stops.append(float(answer["stop_us"]) / 1e3)
                totals.append(float(answer["total_ms"]))
            elif job.poll() is None and Path(f"/proc/{job.pid}/maps").read_text():
                failures.append(answer.get("error", "?"))
        differ += job.communicate()[0] != expected or job.returncode != 0
    took_s = time.monotonic() - begin
    print(f"{done} injections into {runs} runs of {arguments.steps} steps, {arguments.threads} threads; a run alone {alone_s:.1f} s, with {took_s / runs:.1f} s")
    print(f"runs whose result differs: {differ}; injections refused: {len(failures)} {set(failures) or ''}")
    for name, values in (("all threads stopped, ms", stops), ("whole injection, ms", totals)):
        print(f"{name}: median {statistics.median(values):.2f}, p90 {quantile(values, 0.9):.2f}, p99 {quantile(values, 0.99):.2f}, "
              f"max {max(values):.2f}")
    return 1 if differ or failures else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What `fleet report` takes for many ranks: fleet_scale.py PROFTRACE [--ranks 1000 --steps 100 --collectives 20 --rounds 3]. Needs what
tests/fleet needs (scripts/install-fleet-engine.sh --tests), and PROFTRACE_DUCKDB or a DuckDB that proftrace finds."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fleet"))
from simulate import Cause, Fleet, write_fleet  # noqa: E402


def family(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += family(int(child))
    except OSError:
        pass  # it has ended
    return found


def resident_kb(pid: int) -> int:
    try:
        return next((int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")), 0)
    except OSError:
        return 0


def measure(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and the most MB that the program and its engine had at one time."""
    before, begin, most, ended = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), 0, threading.Event()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def look() -> None:
        nonlocal most
        while not ended.wait(0.02):
            most = max(most, sum(map(resident_kb, family(child.pid))))
    watcher = threading.Thread(target=look)
    watcher.start()
    code = child.wait()
    seconds = time.monotonic() - begin
    ended.set()
    watcher.join()
    if code != 0:
        raise SystemExit(f"{command} ended with {code}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, most * 1024 / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    for name, value in (("ranks", 1000), ("steps", 100), ("collectives", 20), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        causes = (Cause(13, "data", 15.0, every=2), Cause(arguments.ranks // 2, "gpu", 20.0, begin=30))
        write_fleet(Path(folder), Fleet(ranks=arguments.ranks, steps=arguments.steps, collectives=arguments.collectives, causes=causes))
        for _ in range(arguments.rounds):
            seconds, cpu_s, megabytes = measure([arguments.program, "fleet", "report", folder])
            load = os.getloadavg()[0]
            print(f"report: {seconds:.1f} s, {cpu_s:.1f} s of processor time, {megabytes:.0f} MB; load {load:.1f}", flush=True)


if __name__ == "__main__":
    main()

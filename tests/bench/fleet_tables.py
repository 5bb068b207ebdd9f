#!/usr/bin/env python3
"""How fast `proftrace fleet ingest` and `fleet align` are, and how much memory they take, by the number of ranks and events.

    fleet_tables.py PROFTRACE FOLDER [--ranks 8,64] [--steps 100] [--operators 50] [--capture CAPTURE]

Makes traces of torch.profiler in FOLDER: in each step of a rank as many operators, and twenty all-reduces. --capture: also the
rate at which that recording is ingested.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

STEP_US, ALL_REDUCES = 100_000, 20
BASE_NS = 1_764_000_000_000_000_000


def write_rank(path: Path, rank: int, ranks: int, steps: int, operators: int) -> int:
    jitter = random.Random(1)
    group = {"pg_name": "0", "backend_config": "cpu:gloo", "pg_size": ranks, "ranks": list(range(ranks))}
    head = {"schemaVersion": 1, "host_name": f"node{rank // 8}", "baseTimeNanoseconds": BASE_NS + rank // 8 * 3_000_000,
            "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": ranks, "pg_count": 1, "pg_config": [group]}}
    row = '{"ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d, "ts": %.3f, "dur": %.3f, "args": {"External id": %d%s}}'
    events = 0
    with path.open("w") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        for step in range(steps):
            begin = step * STEP_US + jitter.randrange(20_000)
            lines = [row % ("user_annotation", f"ProfilerStep#{step}", rank, rank, begin, 70_000, 0, "")]
            for number in range(operators):
                lines.append(row % ("cpu_op", f"aten::op{number % 60}", rank, rank, begin + 10 + number * 60_000 / operators,
                                    40_000 / operators, events + number, ', "Input Dims": [[64, 64]], "Input type": ["float"]'))
            for number in range(ALL_REDUCES):
                entered = begin + 2_000 * number + (rank * 7 + number) % 13 * 20
                lines.append(row % ("cpu_op", "gloo:all_reduce", rank, 100_000 + number % 2, entered,
                                    begin + 2_000 * number + 1_000 + rank % 5 - entered, number,
                                    ', "Input Dims": [[4096]], "Input type": ["float"]'))
            events += len(lines)
            file.write(",\n".join(lines) + (",\n" if step + 1 < steps else "\n]}"))
    return events


def run(*command: object) -> tuple[float, float, float]:
    """Seconds, seconds of processors and MB of the largest process."""
    before, began = os.times(), time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command}: {status}")
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - began, cpu, usage.ru_maxrss / 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("proftrace")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", default="8,64")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--operators", type=int, default=50)
    parser.add_argument("--capture")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("ranks events MB | ingest s, events/s of a core, MB | align s, core s, MB")
    for ranks in map(int, arguments.ranks.split(",")):
        files = [arguments.folder / f"rank{rank}.json" for rank in range(ranks)]
        events = sum(write_rank(file, rank, ranks, arguments.steps, arguments.operators) for rank, file in enumerate(files))
        megabytes = sum(file.stat().st_size for file in files) / 1e6
        fleet = arguments.folder / "fleet"
        shutil.rmtree(fleet, ignore_errors=True)
        ingest_s, ingest_cpu_s, ingest_mb = run(arguments.proftrace, "fleet", "ingest", *files, "-o", fleet)
        align_s, align_cpu_s, align_mb = run(arguments.proftrace, "fleet", "align", fleet)
        print(f"{ranks} {events} {megabytes:.0f} | {ingest_s:.2f} {events / ingest_cpu_s:.0f} {ingest_mb:.0f} | "
              f"{align_s:.2f} {align_cpu_s:.2f} {align_mb:.0f}", flush=True)
        for file in files:
            file.unlink()
    if arguments.capture:
        fleet = arguments.folder / "capture"
        shutil.rmtree(fleet, ignore_errors=True)
        seconds, cpu_s, megabytes = run(arguments.proftrace, "fleet", "ingest", arguments.capture, "-o", fleet)
        print(f"capture: {seconds:.2f} s, {cpu_s:.2f} s of a core, {megabytes:.0f} MB")


if __name__ == "__main__":
    main()

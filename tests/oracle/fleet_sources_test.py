#!/usr/bin/env python3
"""What a merge reads of traces that torch.profiler and DFTracer wrote, against Python's json.

    fleet_sources_test.py PRINT_SOURCE PYTHON          traces of two ranks that PYTHON's torch writes
    fleet_sources_test.py PRINT_SOURCE --files FILE…   files that are there

Each event must have its name, times to the nanosecond, ids and args. Exit code: 0, 1 (something differs), 77 (cannot run).
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

SKIP = 77
PHASES = {1: "X", 2: "C", 3: "C", 4: "M"}  # DFTracer 2.2
KNOWN = ("ph", "name", "cat", "pid", "tid", "ts", "dur", "args")


def parse(text: str) -> object:
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def nanoseconds(microseconds: Decimal | int) -> int:
    return int((Decimal(microseconds) * 1000).quantize(Decimal(1), ROUND_HALF_UP))


def events_of(path: Path) -> tuple[list[dict], int]:
    """Its events, and its base time."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()
    if path.name.rstrip(".gz").endswith(".pfw"):
        return [parse(line.rstrip(",")) for line in text.splitlines() if line.startswith("{")], 0
    trace = parse(text)
    if isinstance(trace, list):
        return trace, 0
    return trace["traceEvents"], int(trace.get("baseTimeNanoseconds", 0))


def expected(event: dict, base: int) -> dict:
    wanted = {"ph": PHASES.get(event["ph"], event["ph"]), "name": event["name"], "cat": event.get("cat", ""),
              "pid": event["pid"], "tid": event["tid"], "duration_ns": nanoseconds(event.get("dur", 0)),
              "others": {key: value for key, value in event.items() if key not in KNOWN}}
    if "ts" in event:
        wanted["begin_ns"] = base + nanoseconds(event["ts"])
    if "args" in event:
        wanted["args"] = event["args"]
    return wanted


def found(line: str) -> dict:
    event = parse(line)
    if "id" in event:
        event["others"]["id"] = event.pop("id")
    return event


def compare(print_source: str, path: Path) -> int:
    """How many events differ."""
    events, base = events_of(path)
    printed = subprocess.run([print_source, path], capture_output=True, text=True, check=True, timeout=120).stdout
    lines = printed.splitlines()
    wrong = [(mine, theirs) for mine, theirs in zip(map(found, lines), (expected(event, base) for event in events))
             if mine != theirs]
    for mine, theirs in wrong[:3]:
        print(f"{path.name}: read {mine}, wanted {theirs}")
    print(f"{path.name}: {len(events)} events, {len(lines)} read, {len(wrong)} differ")
    return len(wrong) + abs(len(lines) - len(events))


def main() -> int:
    print_source, python, *files = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        if python != "--files":
            job = Path(__file__).parent / "jobs" / "gloo_trace.py"
            made = subprocess.run([python, job, f"{folder}/trace"], capture_output=True, text=True, timeout=200, check=False)
            if made.returncode != 0:
                print(f"no traces of two ranks could be made: {made.stderr[-500:]}")
                return SKIP
            files = sorted(Path(folder).iterdir())
        return 1 if sum(compare(print_source, Path(file)) for file in files) else 0


if __name__ == "__main__":
    sys.exit(main())

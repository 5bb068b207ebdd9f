#!/usr/bin/env python3
"""Captures that were recorded on a GPU, beside what torch.profiler said of the same job in a run of its own: h100_test.py PROFTRACE. h100/why.md
says how they were made; tests/gpu/check_gpu.py, what is compared."""

from __future__ import annotations

import collections
import csv
import gzip
import json
import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "gpu"))
import check_gpu  # noqa: E402

DEVICE_ROWS = {"copies": 501, "ddp": 1301, "graphs": 251, "mlp": 1351, "reduced": 1701}


# Calls that wait and ask: how many there are is chance.
POLLS = {"cudaDeviceSynchronize", "cudaThreadExchangeStreamCaptureMode", "cudaEventElapsedTime", "cudaEventQuery", "INVALID"}


def calls(trace: list[dict]) -> collections.Counter:
    """By name, and whether an operator is around them: else Kineto gives them no "External id"."""
    return collections.Counter((event["name"], "External id" in event["args"]) for event in trace
                               if event.get("cat") in check_gpu.CALLS and event["ph"] == "X" and event["name"] not in POLLS)


def check(proftrace: str, name: str, out: Path) -> list[str]:
    subprocess.run([proftrace, "export", HERE / f"h100/{name}.ptrec", "--format", "table,csv,events-csv,summary,chrome", "-o", out], check=True,
                   stderr=subprocess.DEVNULL)
    with lzma.open(HERE / f"h100/{name}.torch.json.xz", "rt", encoding="utf-8") as file:
        reference = json.load(file)
    faults = check_gpu.compare(reference["traceEvents"], out)
    if len(check_gpu.of_device(reference["traceEvents"])) != DEVICE_ROWS[name]:
        faults.append("the reference is not whole")
    with gzip.open(out / "trace.json.gz", "rt", encoding="utf-8") as file:
        ours, theirs = calls(json.load(file)["traceEvents"]), calls(reference["traceEvents"])
    if ours != theirs:
        faults.append(f"calls that are not torch's: {ours - theirs}, that are missing: {theirs - ours}")
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    ledger = summary["gpu"]["ledger"]
    if ledger["records"] != ledger["merged"] + ledger["outside_window"] or summary["ledger"]["unnamed"]:
        faults.append(f"not all records are rows: {ledger}")
    with open(out / "events.csv", encoding="utf-8", newline="") as file:
        ends = collections.Counter(row["end"] for row in csv.DictReader(file))
    if set(ends) - {"", "return"}:
        faults.append(f"ends of rows: {ends}")
    return faults


def main() -> int:
    status = 0
    for name in DEVICE_ROWS:
        with tempfile.TemporaryDirectory() as folder:
            print(name)
            for fault in check(sys.argv[1], name, Path(folder)):
                print(f"  WRONG {name}: {fault}")
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Device time in the table, against torch's own code: the events of a capture with GPU records are given to torch's EventList, and its
table must be ours.

    device_table_test.py PROFTRACE CAPTURE      with an interpreter that has torch
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77
try:
    from torch.autograd import DeviceType
    from torch.autograd.profiler_util import EventList, FunctionEvent, _rewrite_name
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(SKIP)

HOST = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "overhead")
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
SORT_KEYS = ("self_cuda_time_total", "cuda_time_total", "cuda_time", "self_cpu_time_total", "count")


def read_events(path: Path) -> EventList:
    """As torch's _parse_kineto_results makes them."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["category"] in (*HOST, *WORK, "gpu_user_annotation")]
    first_ns = min(int(row["start_ns"]) for row in rows)
    events = []
    operators = {}
    for row in rows:
        is_device = row["category"] not in HOST
        start_ns = int(row["start_ns"]) - first_ns
        event = FunctionEvent(
            id=int(row["id"]), name=_rewrite_name(row["name"], with_wildcard=True), thread=int(row["tid"] or 0),
            start_us=start_ns / 1000, end_us=(start_ns + int(row["duration_ns"])) / 1000, use_device="cuda",
            is_async=row["is_async"] == "1", device_type=DeviceType.CUDA if is_device else DeviceType.CPU,
            is_user_annotation=row["category"] in ("user_annotation", "gpu_user_annotation"), overload_name="", input_shapes=[], stack=[],
            flops=0)
        events.append(event)
        if row["category"] == "cpu_op":
            operators[row["external_id"]] = event
        elif row["category"] in WORK and row["external_id"] in operators and not operators[row["external_id"]].is_async:
            operators[row["external_id"]].append_kernel(event.name, 0, event.time_range.elapsed_us())
    events.sort(key=lambda event: [event.time_range.start, -event.time_range.end])
    listed = EventList(events, use_device="cuda", profile_memory=False, with_flops=False)
    listed._build_tree()
    return listed


def main() -> int:
    proftrace, capture = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        subprocess.run([proftrace, "export", capture, "--format", "events-csv", "-o", str(directory)], check=True,
                       stderr=subprocess.DEVNULL)
        averages = read_events(directory / "events.csv").key_averages()
        failed = 0
        for key in SORT_KEYS:
            ours = subprocess.run([proftrace, "report", capture, "--sort-by", key, "--row-limit", "-1"], check=True, capture_output=True,
                                  text=True).stdout
            theirs = averages.table(sort_by=key, row_limit=-1)
            # Rows of equal keys may come in another order; the text below the table is ours alone.
            left, right = sorted(ours.split("\n\n")[0].splitlines()), sorted(theirs.splitlines())
            if left == right:
                print(f"ok   {key}: {len(right)} lines")
                continue
            failed += 1
            print(f"FAIL {key}")
            for line in sorted(set(left) ^ set(right)):
                print(("  ours   " if line in left else "  torch's") + line)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

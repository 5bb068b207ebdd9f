#!/usr/bin/env python3
"""Flops of each operator against torch.profiler's in the same run: `sudo flops_test.py --python PYTHON`

Exit code: 0 all the same, 1 something differs, 77 it cannot run here.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from pathlib import Path

import one_job


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compare(out: Path) -> list[str]:
    theirs = json.loads((out / "torch.json").read_text(encoding="utf-8"))
    expected = {name: flops for name, flops in theirs["flops"].items() if flops}
    averages = {row["name"]: int(row["flops"]) for row in rows(out / "result/key_averages.csv") if int(row["flops"])}
    # An only child of its parent's name is no row of key_averages(): a multiplication by a scalar calls another one.
    events: Counter[str] = Counter()
    for row in rows(out / "result/events.csv"):
        events[row["name"]] += int(row["flops"] or 0)
    problems = []
    if len(expected) < 7:
        problems.append(f"torch has flops of {sorted(expected)} only")
    if averages != expected:
        problems.append(f"key_averages.csv: {averages}, torch {expected}")
    if dict(+events) != theirs["rows"]:
        problems.append(f"events.csv: {dict(+events)}, torch {theirs['rows']}")
    if f"  {theirs['column']}  " not in (out / "result/key_averages.txt").read_text(encoding="utf-8").splitlines()[1]:
        problems.append(f"the table has no column {theirs['column']!r}")
    print(f"flops: {sum(expected.values())} of {len(expected)} operators")
    return problems


def check(options: argparse.Namespace, out: Path) -> list[str]:
    one_job.record(options, "flops_job.py", ["--with-flops"], "table,csv,events-csv", out)
    return compare(out)


if __name__ == "__main__":
    sys.exit(one_job.main(__doc__, check))

#!/usr/bin/env python3
"""Flops of each operator against torch.profiler's in the same run: `sudo flops_test.py --python PYTHON`

Exit code: 0 all the same, 1 something differs, 77 it cannot run here.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from process import LineReader

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIP = 77
WAIT_S = 120.0


def record(options: argparse.Namespace, out: Path) -> None:
    command = [options.python, str(HERE / "jobs/flops_job.py"), str(out / "torch.json")]
    record_it = [str(options.proftrace), "record", "--with-flops", "--format", "table,csv,events-csv", "-o", str(out / "result"), "-p"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None and job.stdout is not None
        lines = LineReader(job.stdout)
        pid = lines.wait(r"READY (\d+)", WAIT_S).group(1)
        with subprocess.Popen([*record_it, pid], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            LineReader(tracer.stderr).wait("proftrace: recording", WAIT_S)
            job.stdin.write(b"go\n")
            job.stdin.flush()
            lines.wait(r"DONE", WAIT_S)
            tracer.send_signal(signal.SIGINT)
            if tracer.wait(WAIT_S) != 0:
                raise RuntimeError(f"proftrace ended with {tracer.returncode}")
        job.stdin.close()
        job.wait(WAIT_S)


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
        events[row["name"]] += int(row["flops"] or 0) if row["name"] != "aten::mul" else 0
    problems = []
    if len(expected) < 7:
        problems.append(f"torch has flops of {sorted(expected)} only")
    if averages != expected:
        problems.append(f"key_averages.csv: {averages}, torch {expected}")
    if dict(+events) != {name: flops for name, flops in expected.items() if name != "aten::mul"}:
        problems.append(f"events.csv: {dict(+events)}, torch {expected}")
    if f"  {theirs['column']}  " not in (out / "result/key_averages.txt").read_text(encoding="utf-8").splitlines()[1]:
        problems.append(f"the table has no column {theirs['column']!r}")
    print(f"flops: {sum(expected.values())} of {len(expected)} operators")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that imports torch")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    options = parser.parse_args()
    if os.geteuid() != 0 or not options.proftrace.is_file():
        print("SKIPPED: needs root and a built proftrace")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="proftrace-flops-") as directory:
        record(options, Path(directory))
        problems = compare(Path(directory))
    for problem in problems:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

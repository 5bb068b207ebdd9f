#!/usr/bin/env python3
"""The memory timeline and snapshot against torch's own: `sudo timeline_test.py --python PYTHON`

Every change of torch's export_memory_timeline in the same run must be in ours, in order, by its size; and torch's reader of
memory snapshots (torch.cuda._memory_viz; before 2.1 it reads another form) must open ours. Exit code: 0 all the same, 1 something differs, 77 it cannot run here.
"""

from __future__ import annotations

import argparse
import difflib
import json
import subprocess
import sys
from pathlib import Path

import one_job


def changes(path: Path, first: int | None) -> list[str]:
    """How the sum over all categories goes up and down. `first`: what it was before the first point; None = as at it."""
    totals = [int(sum(sizes)) for sizes in json.loads(path.read_text(encoding="utf-8"))[1]]
    before = [totals[0] if first is None else first, *totals]
    return [f"{now - then:+}" for then, now in zip(before, totals) if now != then]


def compare_timelines(out: Path) -> list[str]:
    # Torch's begins with what was there before.
    theirs, ours = changes(out / "torch.json", None), changes(out / "result/memory_timeline.json", 0)
    if not theirs:
        return ["torch's timeline has no change"]
    differences = [line for line in difflib.unified_diff(theirs, ours, "torch", "proftrace", lineterm="", n=1)]
    print(f"timeline: {len(ours)} changes, torch has {len(theirs)}")
    return differences


def read_snapshot(python: str, snapshot: Path) -> list[str]:
    problems = []
    for command in ("stats", "trace"):
        done = subprocess.run([python, "-m", "torch.cuda._memory_viz", command, str(snapshot)], capture_output=True, text=True)
        if done.returncode or not done.stdout.strip():
            problems.append(f"torch.cuda._memory_viz {command}: {done.stderr.strip()[-500:]}")
    # The pages that it makes without network carry the whole snapshot.
    for plot in ("trace_plot", "segment_plot"):
        page = snapshot.with_name(f"{plot}.html")
        done = subprocess.run([python, "-m", "torch.cuda._memory_viz", plot, str(snapshot), "-o", str(page)], capture_output=True, text=True)
        if done.returncode or not page.is_file() or page.stat().st_size <= snapshot.stat().st_size:
            problems.append(f"torch.cuda._memory_viz {plot}: {done.stderr.strip()[-500:]}")
    return problems


def check(options: argparse.Namespace, out: Path) -> list[str]:
    answer = one_job.record(options, "timeline_job.py", ["--profile-memory", "--format", "memory-timeline,memory-viz"], out)
    if answer == "NONE":
        print("timeline: this torch has none")
        return []
    return compare_timelines(out) + read_snapshot(options.python, out / "result/memory_viz.pickle")


if __name__ == "__main__":
    sys.exit(one_job.main(__doc__, check))

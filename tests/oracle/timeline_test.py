#!/usr/bin/env python3
"""The memory timeline and snapshot against torch's own: `sudo timeline_test.py --python PYTHON`

Every total of torch's export_memory_timeline in the same run must be among those of our memory events, in order, and our
timeline must have these; and torch's reader of
memory snapshots (torch.cuda._memory_viz; before 2.1 it reads another form) must open ours. Exit code: 0 all the same, 1 something differs, 77 it cannot run here.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import subprocess
import sys
from pathlib import Path

import one_job
from process import ENDS_BY_STACKS, Stopped, ends_by_stacks

MOST_AT_ONCE = 6  # events in a microsecond


def totals(path: Path, first: int | None) -> list[int]:
    """The sums over all categories where they change. `first`: what it was before the first point; None = as at it."""
    sums = [int(sum(sizes)) for sizes in json.loads(path.read_text(encoding="utf-8"))[1]]
    before = [sums[0] if first is None else first, *sums]
    return [now - before[0] for then, now in zip(before, sums) if now != then]


def events(path: Path) -> list[tuple[int, int]]:
    """When our memory events were, in ns, and what was allocated then."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == "[memory]"]
    sums = itertools.accumulate(int(row["cpu_memory_bytes"]) for row in rows)
    return [(int(row["start_ns"]), total) for row, total in zip(rows, sums)]


def at_microseconds(ours: list[tuple[int, int]]) -> list[int]:
    """The totals of a timeline of these events: torch's has one point for each microsecond, and so has ours."""
    last = [total for (time_ns, total), after in zip(ours, [*ours[1:], (0, 0)]) if time_ns // 1000 != after[0] // 1000]
    return [total for total, before in zip(last, [0, *last]) if total != before]


def compare_timelines(out: Path) -> list[str]:
    # Torch's begins with what was there before.
    theirs, ours = totals(out / "torch.json", None), events(out / "result/events.csv")
    if not theirs:
        return ["torch's timeline has no change"]
    problems = []
    if totals(out / "result/memory_timeline.json", 0) != at_microseconds(ours):
        problems.append("our timeline is not that of our memory events")
    # Which of our events are in one microsecond of torch's times is not known: of these it has the last total.
    at = 0
    for number, total in enumerate(theirs):
        found = next((index for index in range(at, min(at + MOST_AT_ONCE, len(ours))) if ours[index][1] == total), None)
        if found is None:
            near = [total for _, total in ours[max(0, at - 2):at + MOST_AT_ONCE]]
            return [*problems, f"torch's change {number} of {len(theirs)}, to {total}, is not among our next ones: {near}"]
        at = found + 1
    if at + MOST_AT_ONCE < len(ours):
        problems.append(f"we have {len(ours) - at} events behind torch's last change")
    print(f"timeline: {len(ours)} events, torch has {len(theirs)} changes")
    return problems


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
    try:
        answer = one_job.record(options, "timeline_job.py", ["--profile-memory"], "memory-timeline,memory-viz,events-csv", out)
    except Stopped:
        if not ends_by_stacks(options.python):  # which a timeline needs
            raise
        print(ENDS_BY_STACKS)
        sys.exit(one_job.SKIP)
    if answer == "NONE":
        print("timeline: this torch has none")
        return []
    return compare_timelines(out) + read_snapshot(options.python, out / "result/memory_viz.pickle")


if __name__ == "__main__":
    sys.exit(one_job.main(__doc__, check))

"""Lays "Call stack" of the chrome trace beside torch.profiler's own: operators, annotations and memory events, thread by thread.

torch has the functions of C in it, which cannot be known from outside: they are left out. Of calls that were open when it began, and
of coroutines and generators, it has the line that they went on at, where it has a function's first one else: in job.py and flows.py lines
are left out. Which instance a module is, compare_stacks.py compares.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import model

SHOWN = 3
GOES_ON = re.compile(r"^((?:job|flows)\.py)\(\d+\): ")
MODULE = "nn.Module: "
CATEGORIES = ("cpu_op", "user_annotation")


def frames(row: dict[str, Any]) -> list[str]:
    """Without functions of C, whose names are their reprs."""
    names = row["args"].get("Call stack", "").split(";")
    names = [name for name in names if name and not (name.startswith("<") and name.endswith(">"))]
    return [MODULE if name.startswith(MODULE) else GOES_ON.sub(r"\1: ", name) for name in names]


def rows_of(path: Path) -> dict[int, list[dict[str, Any]]]:
    with model.open_text(path) as file:
        events = json.load(file)["traceEvents"]
    threads: dict[int, list[dict[str, Any]]] = {}
    for event in events:
        if event["ph"] in "Xib" and (event.get("cat") in CATEGORIES or event["name"] == "[memory]"):
            threads.setdefault(event["tid"], []).append(event)
    return threads


def in_window(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    bounds = {row["name"]: row for row in rows if row["name"] in (model.BEGIN, model.END)}
    if len(bounds) < 2:
        return []
    begin, end = bounds[model.BEGIN]["ts"] + bounds[model.BEGIN]["dur"], bounds[model.END]["ts"]
    return sorted((row for row in rows if begin <= row["ts"] < end), key=lambda row: float(row["ts"]))


class Answer:
    def __init__(self) -> None:
        self.rows = self.right = self.of_memory = self.frames = 0
        self.examples: list[str] = []

    def line(self) -> str:
        return f"call stacks in the trace: {self.right} of {self.rows} right, {self.of_memory} of memory, {self.frames} frames"

    def problems(self) -> list[str]:
        return self.examples[:SHOWN]


def compare_call_stacks(job: Path, result: Path) -> Answer:
    answer = Answer()
    our_threads = rows_of(result / "trace.json.gz")
    for path in sorted(job.glob("trace-*.json")):
        for tid, rows in rows_of(path).items():
            if not any("Call stack" in row["args"] for row in rows):
                continue
            for names in (CATEGORIES, ("cpu_instant_event",)):
                theirs = [row for row in in_window(rows) if row["cat"] in names]
                ours = [row for row in in_window(our_threads.get(tid, [])) if row["cat"] in names]
                if [row["name"] for row in theirs] != [row["name"] for row in ours]:
                    answer.examples.append(f"thread {tid}: {len(theirs)} rows, we {len(ours)}, or in another order")
                    continue
                for left, right in zip(theirs, ours):
                    their, our = frames(left), frames(right)
                    answer.rows += 1
                    answer.of_memory += left["name"] == "[memory]"
                    answer.frames += len(our)
                    if their == our:
                        answer.right += 1
                    else:
                        answer.examples.append(f"call stack of {left['name']}: {their}, we {our}")
    return answer

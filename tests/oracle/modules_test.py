#!/usr/bin/env python3
"""Module Hierarchy of TorchScript's operators against torch's own in the same run: `sudo modules_test.py --python PYTHON`

Row for row of each thread: the same text, and none where torch has none. Exit code: 0 all the same, 1 something differs, 77 it cannot
run here.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import model
import one_job

ARG = "Module Hierarchy"
CATEGORIES = ("cpu_op", "user_annotation")
FEWEST = 40  # different texts in the job
MOST_BETWEEN = 900  # rows between two that were noted: a backward pass


def in_window(path: Path) -> dict[int, list[dict[str, Any]]]:
    """The rows between the markers, by thread, in order of their starts, with `is_open`: the row ends after the window."""
    with model.open_text(path) as file:
        rows = [event for event in json.load(file)["traceEvents"] if event.get("cat") in CATEGORIES and event["ph"] in "Xb"]
    bounds = {row["name"]: row for row in rows if row["name"] in (model.BEGIN, model.END)}
    begin, end = float(bounds[model.BEGIN]["ts"]), float(bounds[model.END]["ts"])
    threads: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (float(row["ts"]), -float(row.get("dur", 0)))):
        if begin < float(row["ts"]) < end:
            row["is_open"] = float(row["ts"]) + float(row.get("dur", 0)) > end
            threads.setdefault(row["tid"], []).append(row)
    return threads


def compare_traces(theirs: dict[int, list[dict[str, Any]]], ours: dict[int, list[dict[str, Any]]], backward: set[str]) -> list[str]:
    """`backward`: names of rows for which torch keeps no text. It gives the texts to its rows one after the other, these rows too: from the
    first one on a row has the text of an earlier one (torch/csrc/profiler/collection.cpp, jit_modules_). The n-th text is that of the n-th row
    which is none of them. A row that was open when torch's profile ended has no text there: a forked function may go on. Older versions give
    it no length then, newer ones say `finished`. Older versions write times in whole microseconds, by which rows cannot be ordered, but their
    numbers are in order of the starts."""
    problems, right, texts = [], 0, set()
    for tid, rows in theirs.items():
        found = ours.get(tid, [])
        rows = sorted(rows, key=lambda row: int(row["args"]["Ev Idx"]))
        if [row["name"] for row in rows] != [row["name"] for row in found]:
            problems.append(f"thread {tid}: {len(rows)} rows, we {len(found)}, or in another order")
            continue
        forward = [row for row in found if row["name"] not in backward]
        problems += [f"thread {tid}: {row['name']} has {row['args'][ARG]!r}" for row in found if row["name"] in backward and ARG in row["args"]]
        for number, (told, row) in enumerate(zip(rows, forward)):
            if told["args"].get("finished") is False or (row["is_open"] and float(told["dur"]) == 0):
                continue
            text = told["args"].get(ARG, "")
            texts.add(text)
            right += text == row["args"].get(ARG, "")
            if text != row["args"].get(ARG, ""):
                problems.append(f"thread {tid}: row {number}, {row['name']}: {text!r}, we {row['args'].get(ARG, '')!r}")
    print(f"{ARG}: {right} rows right on {len(theirs)} threads, {len(texts)} different texts")
    return problems + [f"torch has {len(texts)} different texts only"] * (len(texts) < FEWEST)


def compare_noted(noted: list[list[str]], ours: dict[int, list[dict[str, Any]]]) -> list[str]:
    """In order, each operator that was noted in TorchScript is one of our next rows, and we have no text that was not noted. What is around
    is not noted: rows that come before the mode."""
    rows = [(row["name"], row["args"].get(ARG, "")) for row in max(ours.values(), key=len)]
    expected = [(name, text) for name, text in noted if text]
    problems, at, texts = [], 0, {text for _, text in expected}
    for number, pair in enumerate(expected):
        try:
            at = rows.index(pair, at, at + MOST_BETWEEN) + 1
        except ValueError:
            problems.append(f"operator {number}, {pair[0]}, in {pair[1]!r}: none of our next rows")
    problems += [f"torch does not say {text!r}" for text in {text for _, text in rows if text} - texts]
    print(f"{ARG}: {len(expected) - len(problems)} of {len(expected)} noted operators right, {len(texts)} different texts")
    return problems + [f"torch has {len(texts)} different texts only"] * (len(texts) < FEWEST)


def backward_names(path: Path) -> set[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return {row["name"] for row in csv.DictReader(file) if row["scope"] == "BACKWARD_FUNCTION"}


def compare_tables(ours: dict[int, list[dict[str, Any]]], path: Path) -> list[str]:
    """events.csv has the trace's texts in `args`."""
    with path.open(newline="", encoding="utf-8") as file:
        cells = Counter(json.loads(row["args"])[ARG] for row in csv.DictReader(file)
                        if row["category"] in CATEGORIES and ARG in row["args"])
    texts = Counter(row["args"][ARG] for rows in ours.values() for row in rows if ARG in row["args"])
    missing = texts - cells
    return [f"events.csv lacks {sum(missing.values())} of {sum(texts.values())} texts: {list(missing)[:2]}"] * bool(missing)


def check(options: argparse.Namespace, out: Path) -> list[str]:
    one_job.record(options, "modules_job.py", ["--with-modules"], "chrome,events-csv", out)
    summary = json.loads((out / "result/summary.json").read_text(encoding="utf-8"))
    problems = [f"unsupported: {gap}" for gap in summary["unsupported"] if gap["feature"].startswith(ARG)]
    ours = in_window(out / "result/trace.json.gz" if (out / "result/trace.json.gz").exists() else out / "result/trace.json")
    answer = json.loads((out / "torch.json").read_text(encoding="utf-8"))
    if isinstance(answer, list):
        problems += compare_noted(answer, ours)
    else:
        problems += compare_traces(in_window(out / "torch.json"), ours, backward_names(out / "result/events.csv"))
    return problems + compare_tables(ours, out / "result/events.csv")


if __name__ == "__main__":
    sys.exit(one_job.main(__doc__, check))

#!/usr/bin/env python3
"""Recordings whose names never repeat: what is told of names beyond the limits, and stacks that are written once.

    unique_names_test.py PROFTRACE UNIQUE_NAMES
"""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Iterator

PROFTRACE, UNIQUE_NAMES = sys.argv[1:3]
MOST_NAMES = 1 << 17  # userspace/model/name_limits.h
STEPS = MOST_NAMES + 5000
OPERATORS = 3  # a step
csv.field_size_limit(1 << 30)


class UniqueNamesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        self.capture = self.out / "capture.ptrec"

    def make(self, steps: int, kinds: str) -> None:
        subprocess.run([UNIQUE_NAMES, str(self.capture), str(steps), kinds], check=True)

    def export(self, form: str, name: str) -> Path:
        subprocess.run([PROFTRACE, "export", str(self.capture), "--format", form, "-o", str(self.out / name)], check=True,
                       capture_output=True)
        return self.out / name

    def events(self, *columns: str) -> Iterator[tuple[str, ...]]:
        with open(self.export("events-csv", "events.csv"), newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader)
            places = [header.index(column) for column in columns]
            for row in reader:
                yield tuple(row[place] for place in places)

    def reasons(self) -> dict[str, str]:
        summary = json.loads(self.export("summary", "summary.json").read_text(encoding="utf-8"))
        self.assertEqual(summary["ledger"]["malformed"], 0)
        return {entry["feature"]: entry["reason"] for entry in summary["unsupported"]}

    def test_annotations_with_numbers_are_a_group(self) -> None:
        self.make(STEPS, "annotations")
        names: dict[str, int] = {}
        operators = 0
        for category, name, path in self.events("category", "name", "path"):
            if category == "user_annotation":
                names[name] = names.get(name, 0) + 1
                last = name
            else:
                operators += path == f"{last}/{name}"
        grouped = names.pop("step *")
        self.assertEqual(operators, STEPS * OPERATORS, "each operator lies in its step's annotation, or in the group")
        self.assertEqual(names, {f"step {i}": 1 for i in range(STEPS - grouped)}, "below the limit names are exact")
        self.assertLess(abs(len(names) - MOST_NAMES), 100)
        self.assertIn(f"{grouped} rows have a name beyond", self.reasons()["names"])
        self.assertIn(f"{grouped} of them are told as a group", self.reasons()["names"])
        with open(self.export("csv", "key_averages.csv"), newline="", encoding="utf-8") as file:
            group = [row for row in csv.DictReader(file) if row["name"] == "step *"]
        self.assertEqual([row["count"] for row in group], [str(grouped)])

    def test_functions_and_their_files_are_a_group(self) -> None:
        self.make(STEPS, "functions")
        grouped = 0
        for number, (stack,) in enumerate(self.events("stack")):
            outer, inner = stack.split(";")
            if not outer.startswith("/job/train.py("):
                self.fail(outer)
            if inner == "/made/file_*.py(0): made_*":
                grouped += 1
            elif not inner.endswith(f": made_{number // OPERATORS}"):
                self.fail(f"{inner} in step {number // OPERATORS}")
        self.assertEqual(grouped, (STEPS - MOST_NAMES + 1) * OPERATORS)  # the loop's function is one of those that are kept
        self.assertIn("are told as a group", self.reasons()["names of Python functions"])

    def test_stacks_are_written_once(self) -> None:
        self.make(2000, "functions,annotations")
        with open(self.export("events-csv", "events.csv"), newline="", encoding="utf-8") as file:
            joined = list(csv.DictReader(file))
        folder = self.export("events-stacks", "events")
        self.assertEqual(sorted(file.name for file in folder.iterdir()), ["events.csv.gz", "stacks.csv.gz"])
        with gzip.open(folder / "stacks.csv.gz", "rt", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        stacks = {row["stack_id"]: row["stack"] for row in rows}
        self.assertEqual(len(stacks), len(rows))
        self.assertEqual(set(stacks.values()), {row["stack"] for row in joined if row["stack"]})
        with gzip.open(folder / "events.csv.gz", "rt", newline="", encoding="utf-8") as file:
            numbered = list(csv.DictReader(file))
        self.assertEqual([name if name != "stack_id" else "stack" for name in numbered[0]], list(joined[0]))
        for row in numbered:
            number = row.pop("stack_id")
            row["stack"] = stacks[number] if number else ""
        self.assertEqual([sorted(row.items()) for row in numbered], [sorted(row.items()) for row in joined])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

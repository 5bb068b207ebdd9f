#!/usr/bin/env python3
"""Unpacks report.html of kept captures as its page does, and compares its steps with events.csv: another way to the numbers.

    report_test.py PROFTRACE GOLDEN_FOLDER
"""

from __future__ import annotations

import base64
import csv
import gzip
import json
import re
import subprocess
import sys
import tempfile
import unittest
from collections import defaultdict
from pathlib import Path
from typing import Any


class Page:
    """The facts and columns of a page."""

    def __init__(self, path: Path) -> None:
        html = path.read_text(encoding="utf-8")
        self.facts: dict[str, Any] = json.loads(self.inside(html, "facts"))
        self.bytes = gzip.decompress(base64.b64decode(self.inside(html, "columns")))
        first, count = self.facts["columns"]["texts"]
        self.texts = self.bytes[first:].decode("utf-8").split("\0")[:count]

    @staticmethod
    def inside(html: str, element: str) -> str:
        found = re.search(rf'<script id="{element}" type="[a-z/]+">(.*?)</script>', html, re.DOTALL)
        assert found is not None, element
        return found[1]

    def column(self, name: str) -> list[int]:
        if name not in self.facts["columns"]:
            return []
        at, count, has_deltas = self.facts["columns"][name]
        values: list[int] = []
        while len(values) < count:
            value = shift = 0
            while True:
                byte = self.bytes[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            value = (value >> 1) ^ -(value & 1)
            values.append(value + values[-1] if has_deltas and values else value)
        return values


class ReportTest(unittest.TestCase):
    proftrace = ""
    golden = Path()

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def enterContext(self, context: Any) -> Any:  # of Python 3.11 on
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def export(self, case: str, form: str, *options: str) -> Path:
        out = self.folder / f"{case}.{form}"
        subprocess.run([self.proftrace, "export", str(self.golden / case), "--format", form, "-o", str(out), *options],
                       check=True, capture_output=True)
        return out

    def events(self, case: str) -> list[dict[str, str]]:
        with self.export(case, "events-csv", "--csv-exact").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def check_steps(self, case: str, steps: int) -> None:
        page = Page(self.export(case, "report"))
        rows = [row for row in self.events(case) if row["category"] in ("cpu_op", "user_annotation", "cuda_runtime")]
        begin_ns = page.facts["summary"]["window"]["start_unix_ns"]
        names = [page.texts[text] for text in page.column("ops.name")]
        kinds = page.column("ops.kind")
        counts: dict[tuple[int, str], int] = defaultdict(int)
        for window, row, calls in zip(page.column("ops.share.window"), page.column("ops.share.row"), page.column("ops.share.a")):
            if kinds[row] != 1:
                counts[window, names[row]] += calls
        starts, ends = page.column("windows.start"), page.column("windows.end")
        self.assertEqual(len(starts), steps)
        is_parent = {(row["parent_id"], row["name"]) for row in rows}
        compared = 0
        for window, (start_ns, end_ns) in enumerate(zip(starts, ends)):
            expected: dict[str, int] = defaultdict(int)
            for row in rows:
                if start_ns <= int(row["start_ns"]) - begin_ns < end_ns and row["end"] in ("return", "exception"):
                    expected[row["name"]] += 1
            for name, calls in expected.items():
                if any((row["id"], name) in is_parent for row in rows if row["name"] == name):
                    continue  # one of its name in it may be folded into it
                if (window, name) not in counts:
                    continue  # none of torch's rows
                self.assertEqual(counts[window, name], calls, (case, window, name))
                compared += 1
        self.assertGreater(compared, 5 * len(starts))

    def test_calls_of_each_step_are_those_of_the_events(self) -> None:
        for case, steps in (("mlp", 1), ("workers", 7)):
            with self.subTest(case):
                self.check_steps(case, steps)

    def test_rows_of_the_timeline_are_the_events(self) -> None:
        page = Page(self.export("mlp", "report"))
        begin_ns = page.facts["summary"]["window"]["start_unix_ns"]
        texts = page.column("labels.text")
        shown = set()
        at = 0
        starts, durations, labels = (page.column("rows." + name) for name in ("start", "duration", "label"))
        for lane in page.facts["lanes"]:
            for i in range(at, at + lane["rows"]):
                if lane["kind"] == "rows":
                    shown.add((page.texts[texts[labels[i]]], starts[i], durations[i]))
            at += lane["rows"]
        events = {(row["name"], int(row["start_ns"]) - begin_ns, int(row["duration_ns"])) for row in self.events("mlp")
                  if row["is_async"] == "0" and row["device_type"] == "CPU" and row["name"] != "[memory]"}
        self.assertTrue(shown)
        self.assertEqual(shown - events, set())


if __name__ == "__main__":
    ReportTest.proftrace, ReportTest.golden = sys.argv[1], Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1], verbosity=2)

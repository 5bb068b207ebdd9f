#!/usr/bin/env python3
"""Rows of Python's garbage collections, beside gc.callbacks and torch.profiler in the same run."""

from __future__ import annotations

import gzip
import json
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

SCRIPT = Path(__file__).with_name("python_gc_job.py")
# What torch's clock may be off by, and what lies between its callback and the collector.
TOLERANCE_NS = 5_000_000


class PythonGcTest(LiveTest):
    tier = "bpf"

    def record_line(self, line: str, *options: str) -> tuple[Result, dict[str, list[list[int]]]]:
        with Job(script=SCRIPT, fresh=True) as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,chrome,table", "--tier", self.tier, *options) as tracer:
                tracer.wait_until_recording()
                job.tell(line)
                answer = json.loads(job.lines.wait(r"^(\{.*\})$", live.WORK_S).group(1))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(job.end(), 0)
        result = Result(self.out)
        self.assert_lossless(result)
        return result, answer

    def rows(self, result: Result) -> list[dict[str, str]]:
        return [row for row in result.events() if row["name"] == "Python GC"]

    def assert_same(self, rows: list[dict[str, str]], seen: list[list[int]]) -> None:
        """Each of `seen` has one row, which lies in it."""
        ours = [(int(row["pid"]), int(row["tid"]), int(row["start_ns"]), int(row["start_ns"]) + int(row["duration_ns"])) for row in rows]
        for pid, tid, begin_ns, end_ns in seen:
            inside = [row for row in ours if row[:2] == (pid, tid) and row[2] >= begin_ns - TOLERANCE_NS and row[3] <= end_ns + TOLERANCE_NS]
            nearest = min(inside, key=lambda row: abs(row[2] - begin_ns), default=None)
            self.assertIsNotNone(nearest, f"no row of {pid, tid, begin_ns, end_ns} among {ours}")
            ours.remove(nearest)
            self.assertLessEqual((end_ns - begin_ns) - (nearest[3] - nearest[2]), TOLERANCE_NS)

    def test_rows_are_as_torchs_and_as_the_callbacks_saw(self) -> None:
        result, answer = self.record_line("round", "--python-gc")
        rows = self.rows(result)
        seen, theirs = answer["seen"], answer["torch"]
        self.assertGreater(len(seen), 10)
        self.assertEqual({(row["category"], row["scope"], row["end"]) for row in rows}, {("python_function", "FUNCTION", "return")})
        # As the callbacks, from when the round began.
        begin_ns = min(row[2] for row in seen)
        in_round = [row for row in rows if int(row["start_ns"]) >= begin_ns]
        self.assertEqual(len(in_round), len(seen))
        self.assert_same(in_round, seen)
        if theirs is not None:
            first, last = min(row[2] for row in theirs), max(row[3] for row in theirs)
            self.assertEqual(sum(first - TOLERANCE_NS <= int(row["start_ns"]) <= last + TOLERANCE_NS for row in rows), len(theirs))
            self.assert_same(rows, theirs)
        parents = {row["path"].rpartition("/")[0] for row in rows}
        self.assertLessEqual({"", "range"}, parents)
        self.assertEqual(result.summary["events"]["collections"], len(rows))
        trace = json.loads(gzip.decompress((self.out / "trace.json.gz").read_bytes()))
        drawn = [event for event in trace["traceEvents"] if event.get("name") == "Python GC"]
        self.assertEqual({event["cat"] for event in drawn}, {"python_function"})
        self.assertEqual(len(drawn), len(rows))

    def test_a_forked_child_has_its_own(self) -> None:
        result, answer = self.record_line("fork", "--python-gc")
        rows = [row for row in self.rows(result) if int(row["pid"]) == answer["seen"][0][0]]
        self.assertEqual(len(rows), len(answer["seen"]))
        self.assert_same(rows, answer["seen"])

    def test_there_are_none_where_none_are_asked_for(self) -> None:
        result, _ = self.record_line("round")
        self.assertEqual(self.rows(result), [])


class PythonGcByJumpsTest(PythonGcTest):
    tier = "patch"


if __name__ == "__main__":
    live.run()

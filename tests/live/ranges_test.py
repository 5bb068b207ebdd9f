#!/usr/bin/env python3
"""Ranges that a job marks by ITT and NVTX: annotations, though nobody else listens."""

from __future__ import annotations

import collections
import unittest

import children_test
import live
from live import Job, LiveTest

COUNT = 5


class RangesTest(LiveTest):
    record = children_test.ChildrenTest.record

    def check(self, kind: str) -> None:
        with Job() as job:
            first = job.do(f"ranges {kind} 1")
            if "missing" in first:
                self.skipTest(f"this PyTorch has none: {first['missing']}")
            result, (answer,) = self.record(job, f"ranges {kind} {COUNT}")
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        rows = list(result.events())
        for row in rows:
            counts[row["tid"]][row["path"]] += 1
        for tid in answer["tids"].split(","):
            starts = ["range_start: long"] * (kind == "nvtx")
            once = [path for number in range(COUNT) for path in (
                *(f"outer {number}/between/inner/{start}" for start in starts), f"outer {number}", f"outer {number}/aten::add", f"outer {number}/between", f"outer {number}/between/inner",
                f"outer {number}/between/inner/here", f"outer {number}/between/inner/aten::mul")]
            self.assertEqual({path: counts[tid][path] for path in once}, dict.fromkeys(once, 1))
            outer = {path for path in counts[tid] if path.startswith("outer")}
            self.assertEqual({path for path in outer if path.rpartition("/")[2][:4] != "aten"} - set(once), set())
            for path in ("aten::sub", "failing", "failing/aten::mm", "aten::neg"):
                self.assertEqual(counts[tid][path], COUNT, counts[tid])
        marks = [row for row in rows if row["name"] in ("here", "inner", "is there")]
        self.assertEqual({row["category"] for row in marks}, {"user_annotation"})
        self.assertEqual(len(marks), 2 * 2 * COUNT + 1)
        self.assertEqual({row["end"] for row in rows if row["name"] == "failing"}, {"return"})
        self.assertLessEqual(result.ledger["unmatched_end"], 2)  # the pop of nothing
        if answer["emitted"] == "0":
            return
        emitted = [row["path"] for row in rows if row["tid"] == str(job.pid) and "aten::exp" in row["path"]]
        self.assertEqual(emitted[0], "aten::exp")
        self.assertEqual(len(emitted), 2, emitted)
        self.assertTrue(emitted[1].startswith("aten::exp/"), emitted)

    def test_itt(self) -> None:
        self.check("itt")

    def test_nvtx(self) -> None:
        self.check("nvtx")


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""Keyword values and scopes of torch._C._profiler._RecordFunctionFast, beside torch.profiler's in the same run."""

from __future__ import annotations

import json
import unittest
from pathlib import Path

import live
from keyword_rows import keyword_rows
from live import Job, LiveTest, Tracer

KEYWORDS_JOB = Path(__file__).resolve().parent / "keywords_job.py"


class KeywordsTest(LiveTest):
    """Needs an interpreter whose torch has them (2.4 or later)."""

    def record_round(self, *options: str) -> tuple[list[dict[str, object]], list[dict[str, object]], dict[str, object]]:
        """What torch says of each row, and we; and the summary."""
        with Job(script=KEYWORDS_JOB, fresh=True) as job:
            with Tracer("-p", str(job.pid), "-o", self.out, "--format", "chrome,summary", *options) as tracer:
                tracer.wait_until_recording()
                job.tell("round")
                line = job.lines.wait(r"^(\[.*\]|missing)$", live.WORK_S).group(1)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            if line == "missing":
                self.skipTest("this PyTorch has no _RecordFunctionFast")
        theirs = json.loads(line)
        names = {row["name"] for row in theirs}
        ours = keyword_rows(self.out / "trace.json.gz", names.__contains__)
        return theirs, ours, json.loads((self.out / "summary.json").read_text(encoding="utf-8"))

    def check(self, *options: str) -> None:
        theirs, ours, summary = self.record_round("--record-shapes", *options)
        self.assertEqual(len(ours), len(theirs))
        for their, our in zip(theirs, ours):
            words, our_words = their.pop("keywords"), our.pop("keywords")
            self.assertEqual(our, their)
            wrong = {key: (our_words.get(key), words.get(key)) for key in {*words, *our_words} if our_words.get(key) != words.get(key)}
            self.assertEqual(wrong, {}, f"{their['name']}: ours, torch's")
        self.assertEqual(summary["ledger"]["inputs_unread"], 0)
        self.assertGreater(sum(row["category"] == "user_annotation" for row in ours), 10)

    def test_rows_are_as_torchs_by_probes(self) -> None:
        self.check("--tier", "bpf")

    def test_rows_are_as_torchs_by_jumps(self) -> None:
        self.check("--tier", "patch")

    def test_without_inputs_rows_are_as_torchs_without_inputs(self) -> None:
        _, ours, _ = self.record_round()
        self.assertGreater(len(ours), 0)
        self.assertEqual({row["category"] for row in ours}, {"cpu_op"})
        self.assertEqual({json.dumps(row["keywords"]) for row in ours}, {"{}"})


if __name__ == "__main__":
    live.run()

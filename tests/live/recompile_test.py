#!/usr/bin/env python3
"""`report --why` of jobs whose model is compiled by torch.compile: one that compiles in the loop, and one that only runs several versions."""

from __future__ import annotations

import live
import why_test
from live import Job, LiveTest


class RecompileTest(LiveTest):
    recordings = 0
    duration = "3s"
    verdict = why_test.WhyTest.verdict
    assert_adds_up = why_test.WhyTest.assert_adds_up

    def test_compiling_in_the_loop_is_named_first(self) -> None:
        with Job(script=why_test.JOB) as job:
            verdict = self.verdict(job, "recompiles")  # type: ignore[misc]
        named = [finding for finding in verdict["findings"] if finding["kind"] not in why_test.OF_ANY_JOB]
        self.assertEqual(named[0]["kind"], "recompilation", verdict)
        self.assertIn("Torch-Compiled Region: 0/", named[0]["evidence"][0])

    def test_versions_that_are_there_are_no_compilations(self) -> None:
        with Job(script=why_test.JOB) as job:
            verdict = self.verdict(job, "compiled_before")  # type: ignore[misc]
        self.assertNotIn("recompilation", [finding["kind"] for finding in verdict["findings"]], verdict)


if __name__ == "__main__":
    live.run()

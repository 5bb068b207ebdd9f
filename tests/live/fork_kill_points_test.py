#!/usr/bin/env python3
"""A tracer that is killed at each step of giving a forked child, which has its parent's jumps, a ring of its own and of taking them out of it: parent and child
go on, and `clean` makes both as they were. Where a step fails, the child has none of the jumps any more, or the tracer says so.

PROFTRACE_KILL_POINTS=all: at every step; else a sample of them."""

from __future__ import annotations

import collections
import os
import random
import subprocess
import unittest

import live
from patch_test import TOOL, PatchJob, files, patch_regions

JOB = live.HERE / "forking_job.py"
SAMPLES = 6
IS_ALL = os.environ.get("PROFTRACE_KILL_POINTS") == "all"
LEFT = 4  # patch_tool: it could not take everything out, and has said so
LONG = 1_000_000


class ForkKillPointsTest(live.LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.calls: collections.Counter[str] = collections.Counter()
        self.results: collections.Counter[int] = collections.Counter()

    def ask(self, job: PatchJob, line: str) -> int:
        job.process.stdin.write(f"{line}\n")
        job.process.stdin.flush()
        return int(job.process.stdout.readline())

    def check_unchanged(self, pid: int, open_files: int, what: str) -> None:
        self.assertEqual((live.changed_text_bytes(pid), patch_regions(pid), files(pid)), (0, [], open_files), what)

    def disturb(self, job: PatchJob, how: str, point: int, step: int) -> int:
        """At these points of a fresh child each. How many points there are."""
        own_files = files(job.pid)
        tool = subprocess.Popen([TOOL, f"{how}-fork", str(job.pid), str(point), str(step)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, bufsize=1)
        try:
            while True:
                self.assertEqual(tool.stdout.readline(), "attached\n", f"{how} before point {point}")
                child = self.ask(job, "fork")
                child_files = files(child)
                tool.stdin.write(f"{child}\n")
                tool.stdin.flush()
                words = tool.stdout.readline().split()
                what = f"{how}: {words}"
                self.assertIn(words[0], ("killed", "failed", "whole"), what)
                result = int(words[-1]) if words[0] != "killed" else LEFT
                if result < LEFT:
                    # The parent still has its jumps, and nobody's tracer.
                    self.check_unchanged(child, child_files, what)
                done = self.run_proftrace("clean", "-p", job.pid)
                self.assertEqual((done.returncode, done.stderr), (0, ""), what)
                self.check_unchanged(child, child_files, what)
                self.check_unchanged(job.pid, own_files, what)
                self.assertEqual(self.ask(job, "end"), 0, what)
                if words[0] == "whole":
                    self.assertEqual(result, 0)
                    return int(words[1])
                self.calls[words[2]] += 1
                self.results[result] += 1
                tool.stdin.write("\n")
                tool.stdin.flush()
        finally:
            tool.kill()
            tool.communicate()

    def disturb_at_each_step(self, how: str) -> None:
        with PatchJob(script=JOB) as job:
            points = self.disturb(job, how, LONG, 1)
            self.assertGreater(points, 10)
            step = 1 if IS_ALL else max(1, points // SAMPLES)
            self.disturb(job, how, 1 if IS_ALL else random.randint(1, step), step)
            self.assertEqual(job.result(), (0, ""))
        print(f"{points} points, {how} at {sum(self.calls.values())}: {dict(self.calls)}; results {dict(self.results)}", flush=True)

    def test_a_tracer_killed_at_each_step(self) -> None:
        self.disturb_at_each_step("killed")

    def test_a_step_that_fails(self) -> None:
        self.disturb_at_each_step("failing")


if __name__ == "__main__":
    live.run()

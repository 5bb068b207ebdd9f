#!/usr/bin/env python3
"""The GPU agent in a process of torch with the CUPTI that torch brings, on a machine that need not have a GPU."""

from __future__ import annotations

import os
import subprocess
import unittest
from pathlib import Path

import live
from live import LiveTest

DOUBLE = Path(os.environ.get("PROFTRACE_CUDA_DOUBLE", live.BINARY.parents[1] / "tests/support/cuda_double"))
AGENT = live.BINARY.parent / "libproftrace_agent.so"
FAILED = 3
NO_CUPTI, TAKEN, CUPTI_ERROR = 1, 3, 5


class AgentTest(LiveTest):
    def in_torch(self, what: str) -> tuple[int, str, list[str]]:
        """What the agent fails with, its message, and what the job says after that."""
        major = subprocess.run([self.python, "-c", "import torch; print((torch.version.cuda or '12').split('.')[0])"],
                               check=True, capture_output=True, text=True).stdout.strip()
        done = subprocess.run([self.python, str(live.HERE / "agent_job.py"), str(DOUBLE), str(AGENT), what], capture_output=True,
                              text=True, env=dict(os.environ, CUDA_DOUBLE_VERSION=f"{major}000"), timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *rest = done.stdout.splitlines()
        result, state, failure, message = first.split(" ", maxsplit=3)
        self.assertEqual((result, int(state)), ("0", FAILED), first)
        return int(failure), message, rest

    def test_cupti_without_a_gpu_is_no_harm(self) -> None:
        failure, message, rest = self.in_torch("start")
        self.assertIn(failure, (NO_CUPTI, CUPTI_ERROR))
        self.assertRegex(message, "CUPTI|cupti")
        self.assertEqual(rest, ["6.0"])

    def test_a_torch_profiler_that_records_is_left_alone(self) -> None:
        failure, message, rest = self.in_torch("profile")
        if failure == NO_CUPTI:
            self.skipTest("this torch brings no CUPTI")
        self.assertEqual((failure, message), (TAKEN, "torch.profiler is recording in this process"))
        self.assertEqual(rest, ["1", "6.0"])


if __name__ == "__main__":
    live.run()

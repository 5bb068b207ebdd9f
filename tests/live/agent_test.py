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
RUNNING, FAILED = 1, 3
NO_CUPTI, TAKEN = 1, 3


class AgentTest(LiveTest):
    def in_torch(self, what: str, state: int, **environment: str) -> tuple[int, str, list[str]]:
        """What the agent fails with, its message, and what the job says after that."""
        variables = dict(os.environ, CUDA_DOUBLE_VERSION=f"{live.cuda_of_torch() or 12}000", **environment)
        done = subprocess.run([self.python, str(live.HERE / "agent_job.py"), str(DOUBLE), str(AGENT), what], capture_output=True,
                              text=True, env=variables, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        first, *rest = done.stdout.splitlines()
        result, found, failure, message = first.split(" ", maxsplit=3)
        self.assertEqual((result, int(found)), ("0", state), first)
        return int(failure), message, rest

    def test_a_driver_without_a_gpu_is_no_harm(self) -> None:
        """CUPTI 13.2 is not even called then: it would not come back (torch 2.15 brings it)."""
        failure, message, rest = self.in_torch("start", FAILED, CUDA_DOUBLE_DEVICES="0")
        self.assertEqual((failure, message), (NO_CUPTI, "the CUDA driver has no device for this process"))
        self.assertEqual(rest, ["6.0"])

    def test_a_torch_profiler_that_records_is_left_alone(self) -> None:
        failure, message, rest = self.in_torch("profile", FAILED)
        if failure == NO_CUPTI:
            self.skipTest("this torch brings no CUPTI")
        self.assertEqual((failure, message), (TAKEN, "torch.profiler is recording in this process"))
        self.assertEqual(rest, ["1", "6.0"])

    def test_records_where_cupti_works(self) -> None:
        major = live.cuda_of_torch()
        double = live.cupti_double(major)
        if not double.exists():
            self.skipTest(f"no stand-in for the CUPTI of CUDA {major}")
        self.assertEqual(self.in_torch("start", RUNNING, LD_PRELOAD=str(double)), (0, "", ["6.0"]))


if __name__ == "__main__":
    live.run()

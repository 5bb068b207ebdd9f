#!/usr/bin/env python3
"""What a recording says that it costs, beside what the job's own clock says: CPU time a step, recorded and left alone in turns.

A host that others use changes its speed between two turns: the median of some rounds has to be right within a factor. Figures of
quiet hosts: tests/bench/told_cost.py."""

from __future__ import annotations

import statistics

import live
from live import LiveTest, Result
from told_cost import CostJob

ROUNDS, SECONDS = 3, 1.2


class ToldCostTest(LiveTest):
    def assert_told(self, kind: str, factor: float, *options: str) -> None:
        ratios = []
        with CostJob(str(self.python), kind, self.directory) as job:
            before = job.quiet(SECONDS)
            for number in range(ROUNDS):
                out = self.directory / f"result{number}"
                done = self.run_proftrace("-p", job.pid, "-d", f"{SECONDS}s", "--format", "none", "-o", out, *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(", about ", done.stderr)
                window = Result(out).summary["window"]
                cost = Result(out).summary["cost"]
                begin = window["start_unix_ns"] / 1e9
                recorded, _ = job.cpu_us_a_step(begin + 0.1, begin + window["duration_ns"] / 1e9 - 0.05)
                after = job.quiet(SECONDS)
                real = 100 * (recorded / ((before + after) / 2) - 1)
                ratios.append(cost["estimated_overhead_percent"] / max(real, 0.1))
                print(f"{kind}{options}: told {cost['estimated_overhead_percent']:.1f} %, real {real:.1f} %", flush=True)
                before = after
        middle = statistics.median(ratios)
        self.assertTrue(1 / factor < middle < factor, ratios)

    def test_of_probes(self) -> None:
        self.assert_told("mlp", 1.75, "--tier", "bpf")

    def test_of_jumps(self) -> None:
        self.assert_told("mlp", 3, "--tier", "patch")


if __name__ == "__main__":
    live.run()

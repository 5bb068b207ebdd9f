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

    def assert_budget(self, kind: str, percent: float, *options: str, is_kept: bool) -> None:
        """The job's own clock says the same of the time before the first change, and of the time after the last one. A host that others
        use changes its speed within the window: one of some recordings has to be right."""
        said = []
        with CostJob(str(self.python), kind, self.directory) as job:
            before = job.quiet(SECONDS)
            for number in range(ROUNDS):
                out = self.directory / f"result{number}"
                done = self.run_proftrace("-p", job.pid, "-d", "4s", "--format", "none", "-o", out, "--max-overhead", f"{percent}%", *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                window = Result(out).summary["window"]
                cost = Result(out).summary["cost"]
                begin = window["start_unix_ns"] / 1e9
                changes = [row[name] for row in cost["demoted"] for name in ("since_s", "counted_until_s") if row[name] is not None]
                self.assertTrue(changes, cost)
                first, _ = job.cpu_us_a_step(begin, begin + min(changes))
                last, _ = job.cpu_us_a_step(begin + max(changes) + 0.3, begin + window["duration_ns"] / 1e9)
                after = job.quiet(SECONDS)
                quiet, before = (before + after) / 2, after
                real_before, real_after = 100 * (first / quiet - 1), 100 * (last / quiet - 1)
                said.append(f"{kind}{options}: before {cost['overhead_before_percent']:.1f} %, real {real_before:.1f} %; after "
                            f"{cost['overhead_after_percent']:.1f} %, real {real_after:.1f} %, kept {cost['max_overhead_kept']}")
                print(said[-1], flush=True)
                self.assertEqual("was not kept" in done.stderr, not cost["max_overhead_kept"], done.stderr)
                is_before_right = 1 / 1.6 < cost["overhead_before_percent"] / max(real_before, 0.1) < 1.6
                is_after_right = real_after < percent + 5 if is_kept else real_after > percent
                if is_before_right and is_after_right and cost["max_overhead_kept"] == is_kept:
                    return
        self.fail("\n".join(said))

    def test_a_budget_is_kept_by_the_jobs_own_clock(self) -> None:
        self.assert_budget("hot", 10, "--tier", "bpf", is_kept=True)

    def test_a_budget_that_cannot_be_kept_is_not_by_the_jobs_own_clock(self) -> None:
        self.assert_budget("tiny", 5, "--tier", "bpf", is_kept=False)

    def test_of_probes(self) -> None:
        self.assert_told("mlp", 1.75, "--tier", "bpf")

    def test_of_jumps(self) -> None:
        self.assert_told("mlp", 3, "--tier", "patch")


if __name__ == "__main__":
    live.run()

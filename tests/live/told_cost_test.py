#!/usr/bin/env python3
"""What a recording says that it costs, beside what the job's own clock says: CPU time a step, recorded and left alone in turns.

A host that others use changes its speed between two turns. How much is seen by the turns in which the job is left alone: what is said may
be wrong by a factor, and by as much as these differ. Figures of quiet hosts: tests/bench/told_cost.py."""

from __future__ import annotations

import statistics

import live
from live import LiveTest, Result
from told_cost import CostJob

ROUNDS, SECONDS = 3, 1.2


def added_percent(recorded_us: float, quiet_us: list[float]) -> float:
    """What recording adds to a step, beside the turns before and after it."""
    return 100 * (recorded_us / statistics.mean(quiet_us) - 1)


def noise_percent(quiet_us: list[float]) -> float:
    """How much turns in which nobody recorded differ: the slowest beside the fastest."""
    return 100 * (max(quiet_us) / min(quiet_us) - 1)


def is_right(told: float, real: float, factor: float, noise: float) -> bool:
    real = max(0.0, real)  # no recording makes a job faster: below that it is the noise
    return real / factor - noise < told < factor * real + noise


class ToldCostTest(LiveTest):
    def assert_told(self, kind: str, factor: float, *options: str) -> None:
        """What most of the recordings say is right within `factor`."""
        rounds = []
        with CostJob(str(self.python), kind, self.directory) as job:
            quiet = [job.quiet(SECONDS)]
            for number in range(ROUNDS):
                out = self.directory / f"result{number}"
                done = self.run_proftrace("-p", job.pid, "-d", f"{SECONDS}s", "--format", "none", "-o", out, *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(", about ", done.stderr)
                window = Result(out).summary["window"]
                begin = window["start_unix_ns"] / 1e9
                recorded, _ = job.cpu_us_a_step(begin + 0.1, begin + window["duration_ns"] / 1e9 - 0.05)
                quiet.append(job.quiet(SECONDS))
                rounds.append((Result(out).summary["cost"]["estimated_overhead_percent"], added_percent(recorded, quiet[-2:])))
        noise = noise_percent(quiet)
        said = [f"told {told:.1f} %, real {real:.1f} %" for told, real in rounds]
        print(f"{kind}{options}: {'; '.join(said)}; noise {noise:.1f} %", flush=True)
        right = sum(is_right(told, real, factor, noise) for told, real in rounds)
        self.assertGreater(2 * right, ROUNDS, f"{said}, noise {noise:.1f} %")

    def assert_budget(self, kind: str, percent: float, *options: str) -> bool:
        """What is said of the time before the first change, of the time after the last one, and of the budget is what the job's own clock
        says, in one of some recordings. Whether the budget was kept in that one."""
        said = []
        with CostJob(str(self.python), kind, self.directory) as job:
            quiet = [job.quiet(SECONDS)]
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
                quiet.append(job.quiet(SECONDS))
                noise = noise_percent(quiet)
                real_before, real_after = added_percent(first, quiet[-2:]), added_percent(last, quiet[-2:])
                told_before, is_kept = cost["overhead_before_percent"], cost["max_overhead_kept"]
                said.append(f"{kind}{options}: before {told_before:.1f} %, real {real_before:.1f} %; after "
                            f"{cost['overhead_after_percent']:.1f} %, real {real_after:.1f} %, kept {is_kept}; noise {noise:.1f} %")
                print(said[-1], flush=True)
                self.assertEqual("was not kept" in done.stderr, not is_kept, done.stderr)
                is_budget_right = real_after < 1.5 * percent + noise if is_kept else real_after > percent / 1.5 - noise
                if is_right(told_before, real_before, 3, noise) and is_budget_right and real_after < real_before + noise:
                    return is_kept
        self.fail("\n".join(said))

    def test_a_budget_that_can_be_kept_by_the_jobs_own_clock(self) -> None:
        """What is left of the job's probes may be too much for a host where each costs more than elsewhere: it says so then."""
        self.assert_budget("hot", 10, "--tier", "bpf")

    def test_a_budget_that_cannot_be_kept_is_not_by_the_jobs_own_clock(self) -> None:
        self.assertFalse(self.assert_budget("tiny", 5, "--tier", "bpf"))

    def test_of_probes(self) -> None:
        self.assert_told("mlp", 1.75, "--tier", "bpf")

    def test_of_jumps(self) -> None:
        self.assert_told("mlp", 3, "--tier", "patch")


if __name__ == "__main__":
    live.run()

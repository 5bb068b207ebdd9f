#!/usr/bin/env python3
"""`report NEW --compare OLD`: a job whose loop got one thing more, which has to be what is named; and the same loop again.

A host that others use takes the processor away, and lends a slower one: what every operator has alike is not the job's."""

from __future__ import annotations

import json

import live
from live import Job, LiveTest

JOB = live.HERE / "compare_job.py"
OPTIONS = ("--activities", "cpu,sched", "--with-modules")
# What of a step takes longer, and the operator that does.
ADDED = {
    "matmul": ("operators", "aten::mm"),
    "sigmoids": (None, "aten::sigmoid"),  # Python's loop around them takes as long
    "sleep": ("other", None),
    "python": ("python", None),
}
OF_THE_HOST = {"run_queue", "faults"}
ATTEMPTS = 3


class CompareTest(LiveTest):
    def record(self, job: Job, kind: str, name: str, duration: str = "1.5s") -> str:
        job.do(f"start {kind}")
        out = self.directory / name
        done = self.run_proftrace("-p", job.pid, "-d", duration, "--format", "none", "-o", out, *OPTIONS)
        self.assertEqual(done.returncode, 0, done.stderr)
        return str(out)

    def compare(self, after: str, before: str) -> dict:  # type: ignore[type-arg]
        told = self.run_proftrace("report", after, "--compare", before, "--json")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        comparison = json.loads(told.stdout)
        step = comparison["step"]
        # The parts are those of the steps, and all that is told is more than noise.
        for side in ("before_ms", "after_ms"):
            self.assertAlmostEqual(sum(part[side] for part in comparison["parts"]), step[side], delta=1e-6 * step[side])
        for row in comparison["operators"] + comparison["modules"]:
            self.assertTrue(row["is_real"], row)
        return comparison  # type: ignore[no-any-return]

    def assert_added_first(self, comparison: dict, part: str | None, operator: str | None) -> None:  # type: ignore[type-arg]
        parts = [one for one in comparison["parts"] if one["name"] not in OF_THE_HOST]
        if part is not None:
            most = max(parts, key=lambda one: one["change_ms"])
            self.assertEqual((most["name"], most["is_real"]), (part, True), comparison)
        if operator is not None:
            self.assertEqual(comparison["operators"][0]["name"], operator, comparison)

    def test_what_was_added_is_named_first(self) -> None:
        """A host that becomes slower between the two adds more to each operator than the job adds: then both are recorded again."""
        with Job(script=JOB) as job:
            for kind, (part, operator) in ADDED.items():
                with self.subTest(kind=kind):
                    for attempt in range(ATTEMPTS):
                        usual = self.record(job, "usual", f"usual-{kind}-{attempt}")
                        comparison = self.compare(self.record(job, kind, f"{kind}-{attempt}"), usual)
                        try:
                            self.assert_added_first(comparison, part, operator)
                            break
                        except AssertionError:
                            if attempt + 1 == ATTEMPTS:
                                raise

    def test_a_module_that_does_more(self) -> None:
        with Job(script=JOB) as job:
            usual = self.record(job, "usual", "usual")
            comparison = self.compare(self.record(job, "decoder", "decoder"), usual)
            back = self.compare(usual, str(self.directory / "decoder"))
        self.assertEqual(comparison["modules"][0]["name"], "decoder (Linear)", comparison)
        self.assertAlmostEqual(comparison["modules"][0]["calls_after"], 5 * comparison["modules"][0]["calls_before"], delta=0.5)
        # The other way round it is the same, with the other sign.
        self.assertEqual(back["modules"][0]["change_ms"], -comparison["modules"][0]["change_ms"])
        self.assertEqual(back["step"]["change_ms"], -comparison["step"]["change_ms"])

    def test_the_same_again_accuses_nothing(self) -> None:
        """Of recordings this long, the steps in which proftrace itself starts are left out."""
        with Job(script=JOB) as job:
            first = self.record(job, "usual", "first", "3s")
            comparison = self.compare(self.record(job, "usual", "second", "3s"), first)
            text = self.run_proftrace("report", self.directory / "second", "--compare", first).stdout
        # Twice the same has twice the same calls; times may have changed with the host.
        for row in comparison["operators"] + comparison["modules"]:
            self.assertAlmostEqual(row["calls_before"], row["calls_after"], delta=0.2)
        self.assertEqual([change for change in comparison["findings"] if change["change"] == "new" and change["kind"] in ("sleep", "io", "lock")], [])
        self.assertIn("Steps take ", text)
        same = self.compare(first, first)
        self.assertEqual((same["step"]["change_ms"], same["operators"], same["modules"], same["findings"]), (0, [], [], []))


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""`report --why`: jobs with one planted cause, which has to be the first one named, and jobs that only look as if they had it.

A host that others use takes the processor away: that, what recording costs, and that steps differ may be said of any job here."""

from __future__ import annotations

import json
import os
import unittest

import control_groups
import live
from live import Job, LiveTest

JOB = live.HERE / "why_job.py"
EVERYTHING = ("--activities", "cpu,sched,syscalls,faults")
OF_ANY_JOB = {"run_queue", "recording", "uneven_steps"}
# What has to be the first one of all others, and words of its evidence.
PLANTED = {
    "loader_sleeps": ("dataloader", "blocked otherwise"),
    "loader_reads": ("dataloader", "shard-17.bin"),
    "loader_computes": ("dataloader", "the rest computing"),
    "loader_inline": ("dataloader", "makes the next batch itself"),
    "sleep": ("sleep", "at the longest"),
    "lock": ("lock", "what ended"),
    "socket": ("io", "unix:"),
    "poll": ("poll", "at the longest"),
    "child": ("child", "sleep"),
    "pool": ("other_thread", "what ended"),
    "queue": ("other_thread", "what ended"),
    "python": ("python", ""),
    "one_operator": ("one_operator", "aten::mm"),
    "small_operators": ("small_operators", "operators a step"),
    "late_rank": ("collectives", "rank 1, had not entered the collective"),
    "gil": ("gil", "held it for"),
}
# Causes that are there on other threads, or not at all.
LOOK_ALIKES = {
    "fast_loader": {"sleep", "io", "lock"},
    "sleeper_beside": {"sleep", "other_thread", "lock"},
    "writer_beside": {"io", "system"},
    "locks_beside": {"lock", "sleep", "other_thread"},
    "kept": {"allocator", "faults"},
    "even_steps": {"dataloader", "io", "faults", "collection"},
    "timed_condition": {"gil", "lock", "sleep"},
    "native_beside": {"gil", "lock", "other_thread"},
}
# Others show much of the same: these run with PROFTRACE_ALL alone.
if os.environ.get("PROFTRACE_ALL"):
    LOOK_ALIKES |= {
        "collected_before": {"collection", "faults", "allocator"},
        "child_beside": {"child", "sleep"},
    }


class WhyTest(LiveTest):
    recordings = 0
    duration = "1.2s"

    def verdict(self, job: Job, kind: str, *options: str) -> dict[str, object]:
        self.recordings += 1
        out = self.directory / str(self.recordings)
        job.do(f"start {kind}")
        done = self.run_proftrace("-p", job.pid, "-d", self.duration, "--format", "none", "-o", out, *(options or EVERYTHING))
        self.assertEqual(done.returncode, 0, done.stderr)
        job.do("stop")
        told = self.run_proftrace("report", out, "--why", "--json")
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        verdict = json.loads(told.stdout)
        self.assert_adds_up(verdict)
        return verdict

    def assert_adds_up(self, verdict: dict) -> None:  # type: ignore[type-arg]
        """Largest first; parts of the steps are no more than the whole."""
        findings = verdict["findings"]
        self.assertLessEqual(len(findings), 5)
        parts = [finding["share"] for finding in findings if finding["kind"] not in ("recording", "uneven_steps")]
        self.assertEqual(parts, sorted(parts, reverse=True))
        self.assertLess(sum(parts), 1.0001)

    def assert_named(self, job: Job, kind: str, cause: str, words: str) -> None:
        verdict = self.verdict(job, kind)
        named = [finding for finding in verdict["findings"] if finding["kind"] not in OF_ANY_JOB]  # type: ignore[attr-defined]
        self.assertTrue(named, verdict)
        self.assertEqual(named[0]["kind"], cause, verdict)
        self.assertIn(words, " ".join([named[0]["what"], *named[0]["evidence"]]), verdict)

    def test_planted_causes_are_named_first(self) -> None:
        with Job(script=JOB) as job:
            for kind, (cause, words) in PLANTED.items():
                with self.subTest(kind=kind):
                    self.assert_named(job, kind, cause, words)

    def test_look_alikes_are_not_named(self) -> None:
        with Job(script=JOB) as job:
            for kind, forbidden in LOOK_ALIKES.items():
                with self.subTest(kind=kind):
                    verdict = self.verdict(job, kind)
                    kinds = {finding["kind"] for finding in verdict["findings"]}  # type: ignore[attr-defined]
                    self.assertFalse(kinds & forbidden, verdict)

    def test_a_processor_that_others_have(self) -> None:
        with Job(script=JOB) as job:
            verdict = self.verdict(job, "run_queue")
        kinds = [finding["kind"] for finding in verdict["findings"] if finding["kind"] != "uneven_steps"]  # type: ignore[attr-defined]
        self.assertEqual(kinds[0], "run_queue", verdict)

    def test_a_quota_of_cpu_time(self) -> None:
        with control_groups.cpu_group(self) as group, Job(script=JOB) as job:
            group.allow(0.06)  # less than a busy machine leaves it
            group.take(job.pid)
            verdict = self.verdict(job, "python")
            self.assertGreater(group.throttled_periods(), 5)
            kinds = [finding["kind"] for finding in verdict["findings"] if finding["kind"] != "uneven_steps"]  # type: ignore[attr-defined]
            self.assertEqual(kinds[0], "throttling", verdict)
            self.assertRegex(verdict["findings"][0]["evidence"][0],  # type: ignore[index]
                             rf"^The quota of control group {group.name}, 0\.06 CPUs, was used up in \d+ of \d+ periods of 100 ms")
            summary = live.Result(self.directory / str(self.recordings)).summary
            quotas = {quota["group"]: quota for quota in summary["target"][0]["cpu_quotas"]}
            self.assertEqual(set(quotas), {group.name})
            self.assertEqual(quotas[group.name]["cpus"], 0.06)
            self.assertGreater(quotas[group.name]["throttled_periods"], 5)

    def test_a_quota_that_is_not_used_up(self) -> None:
        with control_groups.cpu_group(self) as group, Job(script=JOB) as job:
            group.allow(50)
            group.take(job.pid)
            verdict = self.verdict(job, "run_queue")
            kinds = [finding["kind"] for finding in verdict["findings"] if finding["kind"] != "uneven_steps"]  # type: ignore[attr-defined]
            self.assertEqual(kinds[0], "run_queue", verdict)
            self.assertNotIn("throttling", kinds)
            self.assertIn("used up in 0 of", " ".join(verdict["findings"][0]["evidence"]))  # type: ignore[index]

    def test_who_holds_the_interpreters_lock(self) -> None:
        with Job(script=JOB) as job:
            verdict = self.verdict(job, "gil", *EVERYTHING, "--sample", "199Hz")
        gil = [finding for finding in verdict["findings"] if finding["kind"] == "gil"]  # type: ignore[attr-defined]
        self.assertEqual(len(gil), 1, verdict)
        self.assertRegex(" ".join(gil[0]["evidence"]), r"held it for \d+ % of that time.*That thread was in .*python_work", verdict)

    def test_page_faults(self) -> None:
        """The operator in which the faults are has neither the time of their records nor that of the way into the kernel."""
        with Job(script=JOB) as job:
            verdict = self.verdict(job, "faults")
        named = [finding["kind"] for finding in verdict["findings"] if finding["kind"] not in OF_ANY_JOB]  # type: ignore[attr-defined]
        self.assertEqual(named[0], "faults", verdict)
        faults = [finding for finding in verdict["findings"] if finding["kind"] == "faults"]  # type: ignore[attr-defined]
        self.assertEqual(len(faults), 1, verdict)
        self.assertIn("aten::fill_", faults[0]["evidence"][0])

    def test_memory_that_is_given_back_and_taken_again(self) -> None:
        with Job(script=JOB) as job:
            verdict = self.verdict(job, "churn")
        churn = [finding for finding in verdict["findings"] if finding["kind"] == "allocator"]  # type: ignore[attr-defined]
        self.assertEqual(len(churn), 1, verdict)
        self.assertRegex(" ".join(churn[0]["evidence"]), r"munmap (\d\.\d times a step|\d+ times in \d+ steps), mostly for 50\.3 MB")
        kinds = [finding["kind"] for finding in verdict["findings"] if finding["kind"] not in OF_ANY_JOB]  # type: ignore[attr-defined]
        self.assertEqual(kinds[0], "allocator", verdict)

    def test_checkpoints_are_between_steps(self) -> None:
        with Job(script=JOB) as job:
            verdict = self.verdict(job, "checkpoint")
        named = [finding for finding in verdict["findings"] if finding["kind"] not in OF_ANY_JOB]  # type: ignore[attr-defined]
        self.assertEqual(named[0]["kind"], "between_steps", verdict)
        self.assertIn("save_checkpoint", " ".join(named[0]["evidence"]), verdict)

    def test_garbage_collection(self) -> None:
        with Job(script=JOB) as job:
            verdict = self.verdict(job, "collection", *EVERYTHING, "--python-gc")
        kinds = [finding["kind"] for finding in verdict["findings"] if finding["kind"] not in OF_ANY_JOB]  # type: ignore[attr-defined]
        self.assertEqual(kinds[0], "collection", verdict)

    def test_the_function_of_python_by_samples_and_by_stacks(self) -> None:
        with Job(script=JOB) as job:
            for kind, options, words in (("python", ("--sample", "199Hz"), "python_work"), ("python", ("--with-stack",), "why_job.py"),
                                         ("lock", ("--with-stack",), "why_job.py")):
                with self.subTest(kind=kind, options=options):
                    verdict = self.verdict(job, kind, *EVERYTHING, *options)
                    found = [finding for finding in verdict["findings"] if finding["kind"] == kind]  # type: ignore[attr-defined]
                    self.assertIn(words, " ".join(found[0]["evidence"]), verdict)

    def test_without_the_scheduler_waits_are_not_told_apart(self) -> None:
        with Job(script=JOB) as job:
            job.do("start sleep")
            done = self.run_proftrace("-p", job.pid, "-d", "1s", "-o", self.out)
            job.do("stop")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\ASteps take [0-9.]+ ms( \(median of \d+\)\.| on average, and differ: the median of \d+ is [0-9.]+ ms\.)\n  1\. ")
        self.assertRegex(done.stdout, r"it runs Python, or waits")
        self.assertIn("record with --activities cpu,sched,syscalls", " ".join(done.stdout.split()))
        table = (self.out / "key_averages.txt").read_text(encoding="utf-8")
        self.assertTrue(done.stdout.endswith("\n" + table), "the table follows")


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""--max-overhead: hot small operators are only counted where recording them would take more, in both tiers.

The job counts its calls itself. It begins when all probes are live and ends before they go, so what was recorded and what was
only counted are exactly its calls. What a call costs is the machine's: budgets are far below or far above what the loop takes.
With the switch keep-counting no operator loses its last probe, however small the budget is.
"""

from __future__ import annotations

import collections
import csv
import os
import re

import live
from live import Job, LiveTest, Result, Tracer

JOB = live.HERE / "budget_job.py"
STEPS_JOB = live.HERE.parent / "oracle" / "jobs" / "steps_job.py"
FORMATS = "table,csv,events-csv"
# It is said when nothing more is going to change.
SETTLED = r"estimated overhead now"


def counted(result: Result) -> dict[str, int]:
    calls: dict[str, int] = {}
    for row in result.summary["cost"]["demoted"]:
        calls[row["name"]] = calls.get(row["name"], 0) + row["calls"]
    return calls


def recorded(result: Result) -> dict[str, int]:
    calls: dict[str, int] = {}
    for row in result.events():
        calls[row["name"]] = calls.get(row["name"], 0) + 1
    return calls


class BudgetTest(LiveTest):
    def record(self, percent: str, *arguments: object, until: str, threads: int = 1, folder: str = "."
               ) -> tuple[Result, dict[str, str], str]:
        """Runs the job's loop until proftrace says `until`; what was recorded (in `folder`), the job's counts, proftrace's
        words."""
        with Job(script=JOB) as job:
            with Tracer("-p", job.pid, "-v", "-o", self.out, "--format", FORMATS, "--max-overhead", percent, *arguments) as tracer:
                tracer.wait_until_recording()
                job.do(f"start {threads}")
                tracer.lines.wait(until, live.WORK_S)
                counts = job.do("stop")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(live.changed_text_bytes(job.pid), 0)
            self.assertEqual(job.end(), 0)
        return Result(self.out / folder), counts, tracer.text()

    def assert_all_calls(self, result: Result, counts: dict[str, str]) -> None:
        """Each call was recorded or counted, and none both."""
        self.assert_identities(result.ledger)
        for name in ("ring_lost", "malformed", "end_lost", "truncated", "unmatched_end", "unnamed"):
            self.assertEqual(result.ledger[name], 0, name)
        rows, only_counted = recorded(result), counted(result)
        for name, calls in counts.items():
            self.assertEqual(rows[f"aten::{name}"] + only_counted.get(f"aten::{name}", 0), int(calls), name)
        self.assertEqual(result.ledger["demoted"], sum(only_counted.values()))

    def assert_named(self, result: Result) -> None:
        """Demoted operators are named with their counts, and their rows hold what was recorded before."""
        cost = result.summary["cost"]
        features = [entry["feature"] for entry in result.summary["unsupported"]]
        for row in cost["demoted"]:
            self.assertTrue(any(f"{row['name']}, {row['calls']} calls" in feature for feature in features), row)
        table = (self.out / "key_averages.txt").read_text(encoding="utf-8")
        self.assertRegex(table, r"Budget: --max-overhead ")
        rows = recorded(result)
        with (self.out / "key_averages.csv").open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                if row["name"].startswith("aten::"):
                    self.assertEqual(int(row["count"]), rows[row["name"]], row["name"])

    def test_hot_small_operators_are_demoted_and_all_calls_counted(self) -> None:
        result, counts, _ = self.record("0.05%", live.Switch("keep-counting"), until=SETTLED)
        self.assert_all_calls(result, counts)
        self.assert_named(result)
        cost = result.summary["cost"]
        demoted = counted(result)
        for name in ("aten::add", "aten::mul"):
            self.assertGreater(demoted[name], 0, name)
        self.assertNotIn("aten::linear", demoted, "it has children")
        self.assertGreater(cost["overhead_before_percent"], cost["max_overhead_percent"])
        self.assertGreater(cost["overhead_after_percent"], 0)

    def test_a_generous_budget_demotes_nothing(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", FORMATS, "--max-overhead", "99%",
                        "--tier", "patch") as tracer:
                tracer.wait_until_recording()
                answer = job.do("steps 100")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_same_results(answer)
        result = Result(self.out)
        self.assert_lossless(result)
        cost = result.summary["cost"]
        self.assertTrue(cost["max_overhead_kept"])
        self.assertEqual((cost["demoted"], result.ledger["demoted"]), ([], 0))
        self.assertNotIn("warning", tracer.text())

    def test_what_cannot_be_kept_is_said(self) -> None:
        """Operators with children stay: with so small a budget they are too much already. In tier bpf the others lose all of
        their probes in the end."""
        result, counts, text = self.record("0.01%", until=SETTLED)
        self.assertFalse(result.summary["cost"]["max_overhead_kept"])
        self.assertRegex(text, r"(?m)^proftrace: warning: --max-overhead 0.01% was not kept")
        self.assertRegex((self.out / "key_averages.txt").read_text(encoding="utf-8"), r"Budget: --max-overhead 0.01%, NOT KEPT")
        self.assert_lossless(result)
        rows, only_counted = recorded(result), counted(result)
        self.assertEqual(rows["aten::linear"], int(counts["linear"]))
        self.assertLessEqual(rows["aten::add"] + only_counted["aten::add"], int(counts["add"]))
        if not live.by_jumps():
            removed = [row for row in result.summary["cost"]["demoted"] if row["counted_until_s"] is not None]
            self.assertTrue(all(row["counted_until_s"] > row["since_s"] for row in removed))
            self.assertIn("aten::add", {row["name"] for row in removed})
            self.assertLess(rows["aten::add"] + only_counted["aten::add"], int(counts["add"]))

    def test_calls_of_many_threads_are_counted(self) -> None:
        result, counts, _ = self.record("0.05%", live.Switch("keep-counting"), until=SETTLED, threads=4)
        self.assert_all_calls(result, counts)
        self.assertIn("aten::add", counted(result))

    def test_two_processes_have_a_budget_each(self) -> None:
        budget = "0.1%" if live.by_jumps() else "3%"
        with Job(script=JOB) as busy, Job() as other:
            with Tracer("-p", busy.pid, "-p", other.pid, "-o", self.out, "--format", FORMATS, "--max-overhead", budget,
                        live.Switch("keep-counting")) as tracer:
                tracer.wait_until_recording()
                busy.do("start")
                tracer.lines.wait(r"only counted: ", live.WORK_S)
                answer = other.do("steps 5")
                counts = busy.do("stop")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_same_results(answer)
        result = Result(self.out)
        self.assertEqual({row["pid"] for row in result.summary["cost"]["demoted"]}, {busy.pid})
        self.assert_lossless(result)
        rows = [row for row in result.events() if row["pid"] == str(busy.pid)]
        only_counted = counted(result)
        for name, calls in counts.items():
            of_name = sum(row["name"] == f"aten::{name}" for row in rows)
            self.assertEqual(of_name + only_counted.get(f"aten::{name}", 0), int(calls), name)
        self.assertEqual(sum(row["name"] == "step" for row in result.events()), 5)

    def test_a_forked_child_has_its_own(self) -> None:
        """The child forks off while its parent's operators are only counted, and both go on."""
        with Job(script=JOB) as job:
            with Tracer("-p", job.pid, "-v", "-o", self.out, "--format", FORMATS, "--max-overhead", "0.05%", live.Switch("keep-counting")) as tracer:
                tracer.wait_until_recording()
                job.do("start")
                tracer.lines.wait(SETTLED, live.WORK_S)
                child = job.do("fork")["pid"]
                tracer.lines.wait(rf"PID {child}.*only counted: ", live.WORK_S)
                counts = {child: job.do("join"), str(job.pid): job.do("stop")}
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(job.end(), 0)
        result = Result(self.out)
        self.assert_lossless(result)
        calls = collections.Counter((row["pid"], row["name"]) for row in result.events())
        for row in result.summary["cost"]["demoted"]:
            calls[str(row["pid"]), row["name"]] += row["calls"]
        for pid, names in counts.items():
            for name, count in names.items():
                self.assertEqual(calls[pid, f"aten::{name}"], int(count), (pid, name))

    def test_report_says_the_same_as_record(self) -> None:
        result, _, _ = self.record("0.05%", live.Switch("keep-counting"), until=r"only counted: ")
        done = self.run_proftrace("report", self.out, "--sort-by", "self_cpu_time_total")
        self.assertEqual(done.returncode, 0, done.stderr)
        budget = re.search(r"^Budget: .*$", (self.out / "key_averages.txt").read_text(encoding="utf-8"), re.MULTILINE)
        assert budget is not None
        self.assertIn(budget.group(0), done.stdout)
        self.assertRegex(done.stdout, rf"demoted {result.ledger['demoted']}")

    def test_steps_are_still_found(self) -> None:
        """What nothing encloses is recorded to the end."""
        with Job(script=STEPS_JOB, environment={"PROFTRACE_STEPS_KIND": "gan"}) as job:
            job.tell("go")
            done = self.run_proftrace("-p", job.pid, "-o", self.out, "--format", FORMATS, "--steps", 20, "--max-overhead", "0.01%")
            self.assertEqual(done.returncode, 0, done.stderr)
        result = Result(self.out)
        self.assert_identities(result.ledger)
        self.assertEqual(result.summary["steps"]["count"], 20)
        outermost = {row["name"] for row in result.events() if row["parent_id"] == "" or row["path"].startswith("ProfilerStep")
                     and row["depth"] == "1"}
        self.assertFalse(outermost & set(counted(result)))

    def test_a_flight_recorder_has_a_budget_too(self) -> None:
        result, counts, _ = self.record("0.05%", live.Switch("keep-counting"), "--flight-recorder", "60s", until=SETTLED,
                                        folder="dump_0")
        self.assert_identities(result.ledger)
        demoted = counted(result)
        self.assertGreater(demoted["aten::add"], 0)
        self.assertLessEqual(demoted["aten::add"], int(counts["add"]))

    def test_arguments(self) -> None:
        for percent in ("0", "0%", "-5%", "100%", "5 %", "much", "nan"):
            with self.subTest(percent):
                self.assert_fails(2, ("-p", os.getpid(), f"--max-overhead={percent}"), "--max-overhead")
        self.assert_fails(2, ("-p", os.getpid(), "--max-overhead", "5%", "--activities", "syscalls", "--tier", "bpf"),
                          "--max-overhead", "cpu")


class PatchBudgetTest(BudgetTest):
    """The same by jumps, beside eBPF and without it."""

    def setUp(self) -> None:
        super().setUp()
        self.before = live.TIER
        live.TIER = ("--tier", "patch")

    def tearDown(self) -> None:
        live.TIER = self.before
        super().tearDown()

    def test_without_bpf(self) -> None:
        result, counts, _ = self.record("0.05%", "--no-bpf", until=SETTLED)
        self.assert_all_calls(result, counts)
        self.assertIn("aten::add", counted(result))


if __name__ == "__main__":
    live.run()

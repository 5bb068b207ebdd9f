#!/usr/bin/env python3
"""Recordings that end after so many steps of the job, or have one result directory a cycle of steps."""

from __future__ import annotations

import csv
import gzip
import json
import os
import pty
import re
import select
import signal
import subprocess
import threading
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

STEPS_JOB = live.HERE.parent / "oracle" / "jobs" / "steps_job.py"
FORMATS = "table,csv,events-csv,chrome"


def numbers(path: Path) -> list[int]:
    """The N of the trace's ProfilerStep#N."""
    with gzip.open(path / "trace.json.gz", "rt", encoding="utf-8") as stream:
        events = json.load(stream)["traceEvents"]
    rows = [event for event in events if event.get("name", "").startswith("ProfilerStep#")]
    assert all(row["cat"] == "user_annotation" and row["ph"] == "X" for row in rows)
    return [int(row["name"].split("#")[1]) for row in rows]


class StepsTest(LiveTest):
    def record(self, kind: str, *arguments: object) -> str:
        with Job(script=STEPS_JOB, environment={"PROFTRACE_STEPS_KIND": kind}) as job:
            job.tell("go")
            done = self.run_proftrace("-p", job.pid, "-o", self.out, "--format", FORMATS, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIsNone(job.process.poll())
        return done.stdout

    def check_steps(self, path: Path, expected: list[int], is_guess: bool = False) -> None:
        result = Result(path)
        self.assert_identities(result.ledger)
        self.assertEqual(result.summary["steps"]["count"], len(expected))
        self.assertEqual(result.summary["steps"]["confidence"] < 0.5, is_guess)
        self.assertEqual(numbers(path), expected)
        rows = list(result.events())
        self.assertEqual([int(row["id"]) for row in rows], list(range(len(rows))))
        steps = {row["id"]: row for row in rows if row["name"].startswith("ProfilerStep#")}
        self.assertEqual([int(row["step"]) for row in steps.values()], expected)
        inside = [row for row in rows if row["parent_id"] in steps]
        self.assertTrue(inside)
        for row in inside:
            self.assertEqual(row["step"], steps[row["parent_id"]]["step"])
            self.assertTrue(row["path"].startswith(f"ProfilerStep#{row['step']}/"))
        with (path / "key_averages.csv").open(newline="", encoding="utf-8") as stream:
            table = {row["name"]: row for row in csv.DictReader(stream)}
        self.assertEqual(int(table["ProfilerStep*"]["count"]), len(expected))

    def test_a_recording_ends_after_its_steps(self) -> None:
        table = self.record("gan", "--steps", 10)
        self.assertRegex(table, r"ProfilerStep\* .* 10 ")
        # How the job's pauses fell decides what is known of a round's ends: said, and trusted less, where it is not (on a busy machine).
        told = re.search(r"Steps: 10, median .* ms; (a guess, )?by optimizer steps, 2 a round(; which of them begins it is a guess)?"
                         r"(; which step zeroed gradients belong to is a guess)? \(confidence (0\.\d\d)\)", table)
        self.assertIsNotNone(told, table)
        self.assertEqual(float(told[4]) < 0.5, told[1] is not None)
        self.check_steps(self.out, list(range(10)), is_guess=told[1] is not None)

    def test_a_cycle_of_the_schedule_is_a_result_directory(self) -> None:
        self.record("plain", "--schedule", "skip_first=2,wait=1,warmup=1,active=3,repeat=2")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["cycle_0", "cycle_1"])
        self.check_steps(self.out / "cycle_0", [4, 5, 6])
        self.check_steps(self.out / "cycle_1", [9, 10, 11])
        again = self.run_proftrace("report", self.out / "cycle_1")
        self.assertRegex(again.stdout, "Steps: 3,")
        self.assert_fails(8, ("report", self.out), str(self.out / "cycle_0"))

    def test_the_first_cycle_need_not_wait(self) -> None:
        self.record("plain", "--schedule", "skip_first=1,wait=3,active=2,repeat=2,skip_first_wait=1")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["cycle_0", "cycle_1"])
        self.check_steps(self.out / "cycle_0", [1, 2])
        self.check_steps(self.out / "cycle_1", [6, 7])

    def test_a_cycle_that_could_not_be_shown_costs_no_other(self) -> None:
        with Job(script=STEPS_JOB, environment={"PROFTRACE_STEPS_KIND": "plain"}) as job, open("/dev/full", "w") as full:
            job.tell("go")
            done = subprocess.run([live.BINARY, "-p", str(job.pid), "-o", self.out, "--format", "table,csv", "--schedule",
                                   "active=1,repeat=40"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=live.WORK_S, check=False)
        self.assertEqual(done.returncode, 7, done.stderr)
        # More than are cut out of the recording at once.
        self.assertEqual({path.name for path in self.out.iterdir()}, {f"cycle_{number}" for number in range(40)})
        for cycle in self.out.iterdir():
            self.assertEqual({path.name for path in cycle.iterdir()}, {"capture.ptrec", "summary.json", "key_averages.txt", "key_averages.csv"})

    def test_rows_of_steps_can_be_had_of_any_recording(self) -> None:
        self.record("plain", "-d", "1s")
        path = self.directory / "events.csv"
        for more, has_rows in (((), False), (("--step-rows",), True)):
            done = self.run_proftrace("export", self.out, "--format", "events-csv", "-o", path, *more)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("ProfilerStep#" in path.read_text(encoding="utf-8"), has_rows)

    def test_a_job_that_ends_before_its_steps_is_recorded_as_it_is(self) -> None:
        with Job(script=STEPS_JOB) as job, Tracer("--steps", 1000000, "-p", job.pid, "-o", self.out) as tracer:
            tracer.wait_until_recording()
            job.tell("go")
            job.tell("stop")
            job.end()
            self.assertEqual(tracer.wait(), 0, tracer.text())
        self.assert_identities(Result(self.out).ledger)

    def test_steps_that_the_recording_did_not_last_for_are_none(self) -> None:
        """The job goes on while the probes are taken off."""
        for arguments in (("--steps", 1000000), ("--schedule", "wait=1000000,active=1"), ("--schedule", "wait=1000000,active=1,repeat=1")):
            with self.subTest(arguments=arguments):
                out = self.directory / "-".join(map(str, arguments)).replace(",", "-")
                with Job(script=STEPS_JOB) as job:
                    job.tell("go")
                    done = self.run_proftrace("-p", job.pid, "-o", out, "--format", FORMATS, "-d", "300ms", *arguments)
                self.assertEqual(done.returncode, 0, done.stderr)
                # What was recorded is there, whatever became of the schedule.
                self.assertEqual("no step of the schedule" in done.stderr, arguments[0] == "--schedule", done.stderr)
                result = Result(out)
                self.assert_identities(result.ledger)
                window = result.summary["window"]
                steps = 0
                for row in result.events():
                    is_step = row["name"].startswith("ProfilerStep#")
                    steps += is_step
                    until_ns = int(row["start_ns"]) + (int(row["duration_ns"]) if is_step else 0)
                    self.assertLessEqual(until_ns - window["start_unix_ns"], window["duration_ns"], row)
                self.assertGreater(steps, 5)

    def test_a_cycle_that_the_end_of_the_recording_cuts_has_its_whole_steps(self) -> None:
        with Job(script=STEPS_JOB) as job:
            job.tell("go")
            done = self.run_proftrace("-p", job.pid, "-o", self.out, "--format", FORMATS, "-d", "500ms", "--schedule", "wait=1,active=1000000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([path.name for path in self.out.iterdir()], ["cycle_0"])
        result = Result(self.out / "cycle_0")
        self.check_steps(self.out / "cycle_0", list(range(1, result.summary["steps"]["count"] + 1)))

    def test_the_live_line_says_whose_steps_it_counts(self) -> None:
        with Job(script=STEPS_JOB) as job:
            job.tell("go")
            mine, its = pty.openpty()
            tracer = subprocess.Popen([live.BINARY, "-p", str(job.pid), "-o", self.out, "--format", "table", "-d", "60s",
                                       "--steps", "100000", *live.TIER], stdout=subprocess.DEVNULL, stderr=its)
            os.close(its)
            text = ""
            try:
                while not re.search(r"\d+ steps of TID \d+, the last of", text):
                    self.assertTrue(select.select([mine], [], [], live.WORK_S)[0], text)
                    text += os.read(mine, 4096).decode()
            finally:
                tracer.send_signal(signal.SIGINT)
                threading.Thread(target=lambda: [*iter(lambda: self.rest(mine), b"")], daemon=True).start()
                tracer.wait(live.STOP_S)
                os.close(mine)
        self.assertIn(f"steps of TID {job.pid},", text)

    @staticmethod
    def rest(descriptor: int) -> bytes:
        try:
            return os.read(descriptor, 4096)
        except OSError:
            return b""

    def test_what_is_no_schedule_is_refused(self) -> None:
        for arguments in (("--steps", "0"), ("--steps", "x"), ("--schedule", "active=0"), ("--schedule", "often"),
                          ("--steps", "3", "--schedule", "active=1")):
            self.assert_fails(2, ("-p", 1, *arguments))


if __name__ == "__main__":
    live.run(__name__)

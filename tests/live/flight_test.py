#!/usr/bin/env python3
"""--flight-recorder: what the last seconds had, at a signal, at a trigger, and at the end."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer, wait_until

FLIGHT_JOB = live.HERE / "flight_job.py"
WINDOW_S = 2


def rss_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def exchange(one: Path, other: Path, is_over: threading.Event) -> None:
    """As the owner of their directory may: renameat2(RENAME_EXCHANGE), until that is enough."""
    libc = ctypes.CDLL(None, use_errno=True)
    while not is_over.is_set():
        libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)
        time.sleep(0.002)


class FlightTest(LiveTest):
    def tracer(self, job: Job, *arguments: object, window: str = f"{WINDOW_S}s", formats: str = "table,events-csv") -> Tracer:
        return Tracer("-p", job.pid, "-o", self.out, "--flight-recorder", window, "--format", formats, *arguments)

    def dump(self, number: int) -> Path:
        return self.out / f"dump_{number}"

    def wait_for(self, number: int, timeout_s: float = live.WORK_S) -> Result:
        """The dump with its outputs, of which summary.json is the last."""
        wait_until(lambda: (self.dump(number) / "summary.json").exists(), timeout_s, f"dump_{number} has a summary.json")
        return Result(self.dump(number))

    def check_window(self, result: Result, window_s: float = WINDOW_S) -> tuple[float, float]:
        """Its records are those of its window; returns that, in seconds since the epoch."""
        self.assert_identities(result.ledger)
        for name in ("ring_lost", "malformed", "unnamed", "read_failed", "gaps"):
            self.assertEqual(result.ledger[name], 0, name)
        window = result.summary["window"]
        self.assertLessEqual(window["duration_ns"], window_s * 1e9)
        begin, end = window["start_unix_ns"], window["start_unix_ns"] + window["duration_ns"]
        steps = [int(row["name"].split()[1]) for row in result.events() if row["name"].startswith("at ")]
        self.assertTrue(steps)
        # A step's name is made a little before its row begins.
        self.assertGreater(min(steps), begin - 50e6)
        self.assertLess(max(steps), end)
        self.assertLess(min(steps), begin + 300e6)
        return begin / 1e9, end / 1e9

    def test_a_signal_writes_the_last_seconds_and_the_recording_goes_on(self) -> None:
        with Job(script=FLIGHT_JOB) as job, self.tracer(job, "--with-stack") as tracer:
            tracer.wait_until_recording()
            time.sleep(WINDOW_S + 2)  # so that there is something to let go
            for number in range(2):
                asked = time.time()
                tracer.process.send_signal(signal.SIGUSR1)
                result = self.wait_for(number)
                self.assertEqual(result.summary["flight_recorder"], {"reason": "SIGUSR1", "asked_s": WINDOW_S})
                _, end = self.check_window(result)
                self.assertEqual(result.summary["window"]["duration_ns"], WINDOW_S * 1e9)
                self.assertLess(abs(end - asked), 0.5)
                clocks = result.summary["clocks"]
                self.assertGreaterEqual(clocks["snapshots"], 2)
                self.assertLess(abs(clocks["last"]["realtime_ns"] / 1e9 - end), 3)
            rows = list(result.events())
            stacks = {row["stack"] for row in rows if row["name"] == "aten::addmm"}
            self.assertTrue(stacks)
            for stack in stacks:  # of code that was told of before the window
                self.assertIn("flight_job.py", stack)
                self.assertNotIn("<unknown>", stack)
            self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(Result(self.dump(2)).summary["flight_recorder"]["reason"], "end")
            self.check_window(Result(self.dump(2)))
            self.assertIsNone(job.process.poll())
            again = self.run_proftrace("report", self.dump(0))
            self.assertRegex(again.stdout, r"Flight recorder: the last 2\.0 s; SIGUSR1")
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["dump_0", "dump_1", "dump_2"])
        self.assertEqual(len([line for line in tracer.lines.seen if re.search("SIGUSR1: .* has the last 2.0 s", line)]), 2)

    def test_samples_that_have_no_names_yet_are_told_of(self) -> None:
        """The first dump may come while the symbols of torch's libraries are read."""
        with Job(script=FLIGHT_JOB) as job, self.tracer(job, "--sample", "99Hz", "--activities", "cpu,sched") as tracer:
            tracer.wait_until_recording()
            time.sleep(0.3)
            tracer.process.send_signal(signal.SIGUSR1)
            first = self.wait_for(0)
            self.assertEqual(tracer.stop(), 0, tracer.text())
        named = self.run_proftrace("export", self.dump(0), "--format", "samples-csv", "-o", "/dev/stdout").stdout.splitlines()
        looks = sum(int(row["samples"]) for row in csv.DictReader(named))
        told = [gap["reason"] for gap in first.summary["unsupported"] if gap["feature"] == "samples"]
        unnamed = sum(int(reason.split()[0]) for reason in told)
        self.assertGreater(looks + unnamed, 15)

    def test_a_slow_step_is_named(self) -> None:
        with Job(script=FLIGHT_JOB) as job, self.tracer(job, "--trigger", "step>5x", "--strict") as tracer:
            tracer.wait_until_recording()
            time.sleep(2)
            job.tell("slow 0.7")
            job.lines.wait("DONE slow", live.WORK_S)
            over = time.time()
            result = self.wait_for(0)
            reason = result.summary["flight_recorder"]["reason"]
            self.assertRegex(reason, r"^step>5x: step \d+ took 7\d\d\.\d ms, the median of those before it is 2\d\.\d ms$")
            _, end = self.check_window(result)
            self.assertLess(end - over, 1.0)
            self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertIn(reason, tracer.text())

    def test_an_exit_says_how(self) -> None:
        with Job(script=FLIGHT_JOB) as job, self.tracer(job, "--trigger", "exit") as tracer:
            tracer.wait_until_recording()
            time.sleep(1)
            job.tell("child 0")
            job.lines.wait("DONE child", live.WORK_S)
            job.tell("child 3")
            job.lines.wait("DONE child", live.WORK_S)
            self.assertRegex(self.wait_for(0).summary["flight_recorder"]["reason"], r"^exit: PID \d+ ended with exit code 3$")
            time.sleep(WINDOW_S)
            job.tell("crash")
            self.assertEqual(tracer.wait(), 0, tracer.text())
        last = Result(self.dump(1))
        self.assertEqual(last.summary["flight_recorder"]["reason"], f"exit: PID {job.pid} was ended by SIGKILL; end")
        self.check_window(last)

    def test_an_exit_is_told_of_beside_jumps(self) -> None:
        with Job(script=FLIGHT_JOB) as job, self.tracer(job, "--trigger", "exit", "--tier", "patch") as tracer:
            tracer.wait_until_recording()
            time.sleep(1)
            job.tell("child 3")
            job.lines.wait("DONE child", live.WORK_S)
            self.assertRegex(self.wait_for(0).summary["flight_recorder"]["reason"], r"^exit: PID \d+ ended with exit code 3$")
            self.assertEqual(tracer.stop(), 0, tracer.text())

    def test_losses_from_the_first_record_on_are_in_the_dump(self) -> None:
        with Job() as job:
            with self.tracer(job, "--buffer-size", "4K", window="60s", formats="table") as tracer:
                tracer.wait_until_recording()
                job.do("steps 50")  # sooner than losses are looked at
                self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertGreater(Result(self.dump(0)).ledger["ring_lost"], 0)

    def test_a_failed_allocation_is_a_trigger(self) -> None:
        with Job(script=FLIGHT_JOB) as job, self.tracer(job, "--trigger", "oom", "--profile-memory") as tracer:
            tracer.wait_until_recording()
            time.sleep(1)
            job.tell("fail")
            self.assertRegex(self.wait_for(0).summary["flight_recorder"]["reason"], rf"^oom: PID {job.pid} was refused \d+ bytes$")
            self.assertEqual(tracer.stop(), 0, tracer.text())

    def test_triggers_do_not_fill_the_disk(self) -> None:
        with Job(script=FLIGHT_JOB) as job, \
                self.tracer(job, "--trigger", "step>5ms", "--most-dumps", 2, window="500ms", formats="none") as tracer:
            tracer.wait_until_recording()
            time.sleep(4)
            self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertEqual(sorted(path.name for path in self.out.iterdir()), ["dump_0", "dump_1", "dump_2"])
        self.assertRegex(tracer.text(), r"proftrace: \d+ more triggers made no dump")

    def test_a_full_disk_costs_the_dump_alone(self) -> None:
        disk = self.directory / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8M", "none", str(disk)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)])
        filler = disk / "filler"
        with Job(script=FLIGHT_JOB) as job, \
                Tracer("-p", job.pid, "-o", disk / "out", "--flight-recorder", "2s", "--format", "none") as tracer:
            tracer.wait_until_recording()
            with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
                while True:
                    stream.write(bytes(4096))
            tracer.process.send_signal(signal.SIGUSR1)
            tracer.lines.wait(r"dump_0 was not written \(SIGUSR1\); the recording goes on: cannot write", live.WORK_S)
            filler.unlink()
            tracer.process.send_signal(signal.SIGUSR1)
            tracer.lines.wait("SIGUSR1: .*/dump_1 has the last", live.WORK_S)
            self.assertEqual(tracer.stop(), 7, tracer.text())
            self.assertGreater(json.loads((disk / "out/dump_1/summary.json").read_text())["ledger"]["begins"], 0)
            self.assertGreater(json.loads((disk / "out/dump_2/summary.json").read_text())["ledger"]["begins"], 0)

    def test_a_busy_directory_costs_the_dump_alone(self) -> None:
        for force, code in (((), 7), (("--force",), 0)):
            with self.subTest(force=force), Job(script=FLIGHT_JOB) as job, \
                    self.tracer(job, *force, formats="none") as tracer:
                tracer.wait_until_recording()
                self.dump(0).mkdir(exist_ok=True)
                (self.dump(0) / "mine").write_text("mine")
                tracer.process.send_signal(signal.SIGUSR1)
                tracer.lines.wait(r"dump_0 was not written \(SIGUSR1\)|SIGUSR1: .* has the last", live.WORK_S)
                self.assertEqual(tracer.stop(), code, tracer.text())
                self.assertEqual((self.dump(0) / "mine").read_text(), "mine")
                self.assertTrue((self.dump(1) / "summary.json").exists())

    def test_dumps_stay_where_they_are_whatever_the_owner_of_the_directory_puts_there(self) -> None:
        """Root stands in another user's directory, who exchanges the result directory for one with links in it, over and over."""
        theirs, victim = self.directory / "theirs", self.directory / "victim"
        theirs.mkdir()
        victim.mkdir(mode=0o700)
        os.chown(theirs, live.NOBODY, live.NOBODY)
        out, bait = theirs / "out", theirs / "bait"
        bait.mkdir()
        for number in range(3):
            (bait / f"dump_{number}").symlink_to(victim)
        os.chown(bait, live.NOBODY, live.NOBODY)
        with Job(script=FLIGHT_JOB) as job, Tracer("-p", job.pid, "-o", out, "--flight-recorder", f"{WINDOW_S}s", "--format",
                                                   "table,events-csv") as tracer:
            tracer.wait_until_recording()
            self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o700)
            real = os.open(out, os.O_RDONLY | os.O_DIRECTORY)
            self.addCleanup(os.close, real)
            # Their own capture, so that outputs of it could be made.
            shutil.copy(live.HERE.parent / "golden" / "mlp" / "capture.ptrec", victim / "capture.ptrec")
            before = sorted((path.name, path.stat().st_mtime_ns) for path in victim.iterdir())
            is_over = threading.Event()
            swapper = threading.Thread(target=exchange, args=(out, bait, is_over))
            swapper.start()
            try:
                for number in range(2):
                    tracer.process.send_signal(signal.SIGUSR1)
                    place = Path(f"/proc/self/fd/{real}/dump_{number}/summary.json")
                    wait_until(place.exists, live.WORK_S, f"dump_{number} has its outputs")
                tracer.stop()
            finally:
                is_over.set()
                swapper.join()
        self.assertEqual(sorted((path.name, path.stat().st_mtime_ns) for path in victim.iterdir()), before)
        for number in range(3):
            made = sorted(os.listdir(f"/proc/self/fd/{real}/dump_{number}"))
            self.assertLessEqual({"capture.ptrec", "events.csv", "summary.json"}, set(made), tracer.text())
            for name in made:
                self.assertEqual(stat.S_IMODE(os.stat(f"/proc/self/fd/{real}/dump_{number}/{name}").st_mode), 0o600, name)

    def test_memory_is_flat_while_workers_come_and_go(self) -> None:
        with Job(script=FLIGHT_JOB) as job, \
                self.tracer(job, "--with-stack", "--profile-memory", formats="table", window="3s") as tracer:
            tracer.wait_until_recording()
            job.tell("epochs 1000")
            time.sleep(8)  # the window is full, libraries are known
            before = rss_kb(tracer.process.pid)
            time.sleep(14)
            after = rss_kb(tracer.process.pid)
            self.assertLess(after - before, 6000, f"{before} kB, then {after} kB")
            self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.dump(0))
        self.assert_identities(result.ledger)
        self.assertEqual(result.ledger["ring_lost"], 0)
        with (self.dump(0) / "summary.json").open() as stream:
            targets = json.load(stream)["target"]
        self.assertGreater(len(targets), 2)
        self.assertLess(len(targets), 150)

    def test_what_does_not_go_together_is_refused(self) -> None:
        for arguments in (("--trigger", "exit"), ("--flight-recorder", "soon"), ("--flight-recorder", "3s", "--trigger", "step"),
                          ("--flight-recorder", "3s", "--trigger", "step>1x"), ("--flight-recorder", "3s", "--steps", "3"),
                          ("--flight-recorder", "3s", "--schedule", "active=1"), ("--flight-recorder", "3s", "--trigger", "oom"),
                          ("--flight-recorder", "3s", "--flight-recorder-memory", "1K"),
                          ("--flight-recorder", "3s", "--most-dumps", "0")):
            self.assert_fails(2, ("-p", 1, *arguments))

    def test_without_it_the_signal_ends_proftrace_as_before(self) -> None:
        with Job(script=FLIGHT_JOB) as job, Tracer("-p", job.pid, "-o", self.out, "--format", "none") as tracer:
            tracer.wait_until_recording()
            tracer.process.send_signal(signal.SIGUSR1)
            self.assertEqual(tracer.wait(), -signal.SIGUSR1)


if __name__ == "__main__":
    live.run(__name__)

#!/usr/bin/env python3
"""Jobs that stand still (a frozen control group, SIGSTOP, a debugger): each command comes back in time and says why."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import live
from live import Job, LiveTest, Result

# Long enough for a busy machine; none of these waits for the job.
IN_TIME_S = 20.0
HOLDER = """
import ctypes, os, sys, time
libc, pid = ctypes.CDLL(None, use_errno=True), int(sys.argv[1])
SEIZE, INTERRUPT = 0x4206, 0x4207
for task in os.listdir(f"/proc/{pid}/task"):
    assert libc.ptrace(SEIZE, int(task), None, None) == 0
    assert libc.ptrace(INTERRUPT, int(task), None, None) == 0
    os.waitpid(int(task), 0x40000000)
print("HELD", flush=True)
sys.stdin.read()
"""


class Freezer:
    """A group of the hierarchy that this host has for it."""

    def __init__(self, folder: Path, is_v2: bool) -> None:
        self.folder, self.is_v2 = folder / f"proftrace-{os.getpid()}-{time.monotonic_ns()}", is_v2
        self.folder.mkdir()

    def add(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))

    def freeze(self) -> None:
        name, word = ("cgroup.freeze", "1") if self.is_v2 else ("freezer.state", "FROZEN")
        (self.folder / name).write_text(word)
        state = self.folder / ("cgroup.events" if self.is_v2 else "freezer.state")
        done = "frozen 1" if self.is_v2 else "FROZEN"
        live.wait_until(lambda: done in state.read_text(), 10, "frozen")

    def thaw(self) -> None:
        name, word = ("cgroup.freeze", "0") if self.is_v2 else ("freezer.state", "THAWED")
        (self.folder / name).write_text(word)

    def remove(self) -> None:
        live.wait_until(lambda: not (self.folder / "cgroup.procs").read_text(), 10, "an empty group")
        self.folder.rmdir()


def freezers() -> dict[str, tuple[Path, bool]]:
    """Where groups can be made that freeze, by version."""
    found = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split()[:3]
        place = Path(head.split()[4])
        if kind == "cgroup" and "freezer" in options.split(","):
            found["v1"] = (place, False)
        if kind == "cgroup2" and os.access(place, os.W_OK):
            found["v2"] = (place, True)
    return found


class StandstillTest(LiveTest):
    @contextlib.contextmanager
    def frozen_job(self, version: str) -> Iterator[tuple[Job, Freezer]]:
        if version not in freezers():
            self.skipTest(f"no freezer of control groups {version}")
        freezer = Freezer(*freezers()[version])
        try:
            with Job() as job:
                freezer.add(job.pid)
                job.do("steps 2")
                freezer.freeze()
                try:
                    yield job, freezer
                finally:
                    freezer.thaw()
        finally:
            freezer.remove()

    @contextlib.contextmanager
    def stopped_job(self) -> Iterator[Job]:
        with Job() as job:
            job.do("steps 2")
            os.kill(job.pid, signal.SIGSTOP)
            live.wait_until(lambda: " T " in Path(f"/proc/{job.pid}/stat").read_text(), 10, "stopped")
            yield job
            os.kill(job.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def held_job(self) -> Iterator[Job]:
        with Job() as job:
            job.do("steps 2")
            command = [sys.executable, "-c", HOLDER, str(job.pid)]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
                try:
                    assert holder.stdout is not None
                    self.assertEqual(holder.stdout.readline(), b"HELD\n")
                    yield job
                finally:
                    holder.kill()

    def in_time(self, *arguments: object) -> "subprocess.CompletedProcess[str]":
        begin = time.monotonic()
        done = self.run_proftrace(*arguments)
        self.assertLess(time.monotonic() - begin, IN_TIME_S)
        return done

    def check(self, job: Job, says: str, patch_code: int | None, dump_code: int = 0) -> None:
        done = self.in_time("dump", "-p", job.pid)
        self.assertEqual(done.returncode, dump_code, done.stderr)
        self.assertRegex(done.stdout + done.stderr, says)
        for options in ((), ("--sample", "99")):
            done = self.in_time("-p", job.pid, "-d", "300ms", "-o", self.out, "--force", "--format", "none", "--tier", "bpf", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, says)
            gaps = [gap["reason"] for gap in Result(self.out).summary["unsupported"] if gap["feature"] == "process at a standstill"]
            self.assertEqual(len(gaps), 1)
            self.assertRegex(gaps[0], says)
        doctor = self.run_proftrace("doctor", "-p", job.pid)
        self.assertRegex(doctor.stdout, rf"\[--\] (threads|jumps \(--tier patch\)): .*({says})")
        done = self.in_time("-p", job.pid, "-d", "300ms", "-o", self.out.parent / "jumps", "--format", "none", "--tier", "patch")
        self.assertRegex(done.stderr, says)
        self.assertNotIn("has ended", done.stderr)
        if patch_code is not None:
            self.assertEqual(done.returncode, patch_code, done.stderr)

    def check_goes_on(self, job: Job) -> None:
        self.assert_same_results(job.do("steps 5"))
        self.assertEqual(live.patches(job.pid), [])
        self.assertEqual(live.changed_text_bytes(job.pid), 0)

    def test_frozen_by_version_1(self) -> None:
        with self.frozen_job("v1") as (job, freezer):
            self.check(job, rf"PID {job.pid} is frozen by its control group", 6)
            freezer.thaw()
            self.check_goes_on(job)

    def test_frozen_by_version_2(self) -> None:
        with self.frozen_job("v2") as (job, freezer):
            self.check(job, rf"PID {job.pid} is frozen by its control group", 6)
            freezer.thaw()
            self.check_goes_on(job)

    def test_stopped_by_a_signal(self) -> None:
        with self.stopped_job() as job:
            self.check(job, rf"PID {job.pid} is stopped by a signal", None)
            os.kill(job.pid, signal.SIGCONT)
            self.check_goes_on(job)

    def test_held_by_a_debugger(self) -> None:
        with self.held_job() as job:
            self.check(job, r"traces it|is held by PID", 4, dump_code=4)
        # The kernel has let it go with its holder.

    def test_frozen_while_it_is_recorded_by_jumps(self) -> None:
        for version in freezers():
            with self.subTest(version), self.frozen_job(version) as (job, freezer):
                freezer.thaw()
                with live.Tracer("-p", job.pid, "-o", self.out, "--force", "--format", "none", "--tier", "patch") as tracer:
                    tracer.wait_until_recording()
                    job.do("steps 2")
                    freezer.freeze()
                    begin = time.monotonic()
                    tracer.stop()
                    self.assertLess(time.monotonic() - begin, 2 * IN_TIME_S)
                    self.assertRegex(tracer.text(), rf"PID {job.pid} is frozen by its control group")
                freezer.thaw()
                # The guardian takes out what could not be taken out before.
                live.wait_until(lambda: not live.patches(job.pid), 30, "the jumps gone")
                self.check_goes_on(job)


if __name__ == "__main__":
    live.run()

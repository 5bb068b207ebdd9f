#!/usr/bin/env python3
"""Hostile jobs that exchange the file under their probes: nothing is put into a file that was not analysed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

import live
from live import BINARY, NOBODY, LiveTest

PROGRAMS = Path(os.environ.get("PROFTRACE_SWAP", BINARY.parents[1] / "tests/support/swap"))
USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
MOST_OPENS = 8


class Started:
    """A program whose lines are kept in a file."""

    def __init__(self, lines: Path, *command: object) -> None:
        self.path = lines
        with lines.open("wb") as stream:
            self.process = subprocess.Popen([str(word) for word in command], stdout=stream, start_new_session=True)

    def lines(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()


class FileSwapTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        for name in ("libtorch_cpu.so", "libbystander.so", "swap_job", "swap_bystander_job"):
            shutil.copy(PROGRAMS / name, self.directory / name)
        os.chown(self.directory / "libtorch_cpu.so", NOBODY, NOBODY)

    @contextlib.contextmanager
    def bystander(self) -> Iterator[None]:
        """Another's process, which must not notice anything."""
        started = Started(self.directory / "bystander.txt", "env", f"LD_LIBRARY_PATH={self.directory}", self.directory / "swap_bystander_job")
        try:
            live.wait_until(lambda: "value 5" in started.lines(), live.START_S, "the bystander runs")
            yield
            self.assertEqual(started.lines(), "value 5\n", "its code was changed")
            self.assertIsNone(started.process.poll())
        finally:
            started.end()

    @contextlib.contextmanager
    def job(self, opens: int, *more: str) -> Iterator[Started]:
        started = Started(self.directory / "job.txt", *USER, self.directory / "swap_job", self.directory / "libtorch_cpu.so",
                          self.directory / "libbystander.so", opens, *more)
        try:
            live.wait_until(lambda: "READY" in started.lines(), live.START_S, "the job runs")
            yield started
        finally:
            started.end()

    def record(self, job: Started, *options: str) -> "subprocess.CompletedProcess[str]":
        shutil.rmtree(self.out, ignore_errors=True)
        return self.run_proftrace("-p", job.process.pid, "-d", "400ms", "-o", self.out, "--format", "none", "-q", *options)

    def test_the_case_is_one(self) -> None:
        """A probe at the operator's place in the other file would be in an instruction of its function."""
        places = {}
        for library in ("libtorch_cpu.so", "libbystander.so"):
            done = subprocess.run(["nm", "-D", "--defined-only", str(self.directory / library)], capture_output=True, text=True, check=True)
            places[library] = int(done.stdout.split()[0], 16)
        self.assertEqual(places["libtorch_cpu.so"], places["libbystander.so"] + 1)

    def test_another_file_in_a_childs_mapping_gets_no_probes(self) -> None:
        for options in ((live.Switch("links-for-all"),), ()):
            with self.subTest(options), self.bystander(), self.job(0) as job:
                done = self.record(job, *options)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_file_that_is_exchanged_between_two_looks_gets_no_probes(self) -> None:
        for opens in range(1, MOST_OPENS + 1):
            with self.subTest(opens), self.bystander(), self.job(opens) as job:
                done = self.record(job, live.Switch("links-for-all"))
                self.assertIn(done.returncode, (0, 5, 6), done.stderr)
                if "DONE" not in job.lines():
                    self.assertGreater(opens, 1, "it was not opened at all")
                    break

    def test_a_file_that_is_written_to_is_told_of_and_has_no_probes(self) -> None:
        with self.job(1, "write") as job:
            done = self.record(job)
            self.assertIn("DONE", job.lines())
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assert_one_sentence(done.stderr, "libtorch_cpu.so of PID", "was changed", "record it again")
            self.assertEqual(live.changed_text_bytes(job.process.pid), 0)


if __name__ == "__main__":
    live.run()

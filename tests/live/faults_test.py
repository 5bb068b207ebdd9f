#!/usr/bin/env python3
"""Targets that do what nobody should: a second PyTorch, a Dispatcher that changes while it is read."""

from __future__ import annotations

import collections
import contextlib
import re
import shutil
import subprocess
import time
import unittest
from pathlib import Path

import live
from live import HERE, Job, LiveTest, Result, Tracer

SECOND_JOB = HERE / "second_torch_job.py"
STEPS, PRODUCTS = 4, 25
GAP = "a second PyTorch in the process"


class SecondTorchTest(LiveTest):
    """The job itself runs steps; products are made through the second PyTorch."""

    library: Path
    environment: dict[str, str]

    @classmethod
    def setUpClass(cls) -> None:
        maps = subprocess.run([LiveTest.python, "-c", "import torch; print(open('/proc/self/maps').read())"],
                              capture_output=True, text=True, check=True).stdout
        path = re.search(r"/\S*/libtorch_cpu\.so\S*", maps)
        assert path is not None
        cls.library = Path(path.group(0))
        # What a copy finds beside itself no more. And two PyTorches need more room for thread-local variables than the
        # linker sets aside.
        beside = sorted({str(found.parent) for found in cls.library.parents[2].glob("nvidia/*/lib/*.so*")})
        cls.environment = {"LD_LIBRARY_PATH": ":".join(beside), "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"}

    def setUp(self) -> None:
        super().setUp()
        self.copy = self.directory / "copy" / self.library.name
        self.copy.parent.mkdir()

    def make_copy(self) -> None:
        # Hard links would be the same files to the kernel.
        for pattern in ("libtorch_cpu.so*", "libc10.so*", "libgomp.so*"):
            for path in self.library.parent.glob(pattern):
                shutil.copy(path, self.copy.parent)

    def job(self) -> Job:
        return Job(script=SECOND_JOB, environment=self.environment)

    def require_loading(self, path: Path) -> None:
        """Some PyTorches end a process that loads them twice, traced or not."""
        with self.job() as job:
            job.tell(f"load {path}")
            try:
                words = job.answer()
            except live.Stopped:
                self.skipTest("this PyTorch ends a process that loads it a second time")
        if "refused" in words:
            self.skipTest(f"this PyTorch cannot be loaded a second time: {words['refused']}")

    def counts(self, result: Result) -> "collections.Counter[str]":
        return collections.Counter(row["path"] for row in result.events())

    def sequences(self, result: Result, path: str) -> set[str]:
        return {row["sequence_nr"] for row in result.events() if row["path"] == path} - {""}

    def record(self, path: Path, before: bool) -> Result:
        with self.job() as job:
            if before:
                job.do(f"load {path}")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,table", "--profile-memory") as tracer:
                tracer.wait_until_recording()
                if not before:
                    job.do(f"load {path}")
                    time.sleep(1)  # nothing says when the tracer has seen it
                job.do(f"here {STEPS}")
                job.do(f"there {PRODUCTS}")
                job.do(f"here {STEPS}")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(job.end(), 0)
        result = Result(self.out)
        self.assert_identities(result.ledger)
        counts = self.counts(result)
        self.assertEqual((counts["here"], counts["here/aten::mm"]), (2 * STEPS, 2 * STEPS), counts)
        return result

    def test_another_copy_is_a_named_gap_and_the_job_is_recorded_whole(self) -> None:
        self.make_copy()
        self.require_loading(self.copy)
        for before in (True, False):
            with self.subTest(before=before):
                result = self.record(self.copy, before)
                gaps = [gap["reason"] for gap in result.summary["unsupported"] if gap["feature"] == GAP]
                self.assertEqual(len(gaps), 1, result.summary["unsupported"])
                self.assertIn(str(self.copy), gaps[0])
                self.assertEqual(self.counts(result)["aten::mm"], 0)
                # Its thread counts on, as if there were no other.
                self.assertTrue(self.sequences(result, "here/aten::mm"))
                self.out.rename(self.directory / f"copy{before}")

    def test_the_same_files_once_more_are_recorded_without_sequence_numbers(self) -> None:
        self.require_loading(self.library)
        for before in (True, False):
            with self.subTest(before=before):
                result = self.record(self.library, before)
                self.assertEqual(self.counts(result)["aten::mm"], PRODUCTS)
                self.assertEqual(self.sequences(result, "aten::mm"), set())
                self.assertEqual(self.sequences(result, "here/aten::mm"), set())
                reasons = [gap["reason"] for gap in result.summary["unsupported"] if gap["feature"] == "sequence numbers of forward rows"]
                self.assertEqual(len(reasons), 1, result.summary["unsupported"])
                self.out.rename(self.directory / f"same{before}")


    def test_a_job_that_a_second_one_in_its_own_namespace_ends_is_recorded_up_to_there(self) -> None:
        self.make_copy()
        codes = []
        for traced in (False, True):
            with self.job() as job, contextlib.ExitStack() as stack:
                if traced:
                    tracer = stack.enter_context(Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv"))
                    tracer.wait_until_recording()
                job.do(f"here {STEPS}")
                job.tell(f"local {self.copy}")
                codes.append(job.process.wait(live.STOP_S))
                if traced:
                    self.assertEqual(tracer.wait(), 0, tracer.text())
        self.assertEqual(codes[0], codes[1])
        self.assertLess(codes[0], 0)
        result = Result(self.out)
        self.assert_identities(result.ledger)
        self.assertEqual(self.counts(result)["here/aten::mm"], STEPS)


class DispatcherTest(LiveTest):
    def test_a_dispatcher_that_changes_while_it_is_read_gives_right_names(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.directory / "quiet", "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                job.do("steps 3")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            expected = {row["path"] for row in Result(self.directory / "quiet").events()}
            job.tell("churn")
            seen = 0
            for number in range(8):
                out = self.directory / f"churn{number}"
                with Tracer("-p", job.pid, "-o", out, "--format", "events-csv", "-d", "100ms") as tracer:
                    self.assertEqual(tracer.wait(), 0, tracer.text())
                result = Result(out)
                self.assert_identities(result.ledger)
                rows = list(result.events())
                seen += len(rows)  # on a busy machine the job may run in none of a window's 100 ms
                whole = {row["path"] for row in rows if row["path"].startswith("step")}
                changed = [gap for gap in result.summary["unsupported"] if gap["feature"] == "operator names from the Dispatcher"]
                if not changed:
                    self.assertLessEqual(whole, expected)
            self.assertGreater(seen, 0)
            job.tell("fds")
            self.assertGreater(int(job.answer()["rounds"]), 100)
            self.assert_same_results(job.answer())


if __name__ == "__main__":
    live.run()

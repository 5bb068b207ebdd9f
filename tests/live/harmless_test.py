#!/usr/bin/env python3
"""What a recording may never do: change the job's results, kill it, or leave a probe in it."""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer


class HarmlessTest(LiveTest):
    def untraced_checksum(self) -> str:
        with Job() as job:
            return job.do("steps 5")["checksum"]

    def has_operators(self, out: Path) -> bool:
        """Whether the capture, as far as it is written, has operators of the window. The first blocks may hold records from
        before the window only: these are rows until the block that tells when the window began."""
        copy = self.directory / "copy"
        copy.mkdir(exist_ok=True)
        shutil.copy(out / "capture.ptrec", copy)
        text = self.run_proftrace("export", copy, "--salvage", "--format", "summary", "-o", "-").stdout
        summary = json.loads(text) if text else {"window": {"attach_s": 0}}
        return summary["window"]["attach_s"] > 0 and summary["events"]["operators"] > 0

    def record_shortly(self, job: Job, number: int) -> None:
        done = self.run_proftrace("-p", job.pid, "-d", "0.1s", "--format", "none", "-o", self.directory / f"r{number}")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_attaches_change_nothing(self) -> None:
        expected = self.untraced_checksum()
        with Job() as job:
            fds = job.do("fds")["fds"]
            job.tell("loop")
            for number in range(6):
                self.record_shortly(job, number)
            answer = job.finish_loop()
            self.assert_same_results(answer)
            self.assertEqual(answer["checksum"], expected)
            self.assertEqual(answer["fds"], fds)
            self.assertEqual(live.changed_text_bytes(job.pid), 0)
            self.assertEqual(job.end(), 0)

    def test_probes_are_seen_while_recording_and_gone_after(self) -> None:
        with Job() as job:
            self.assertEqual(live.changed_text_bytes(job.pid), 0)
            with Tracer("-p", job.pid, "-o", self.out, "--format", "none") as tracer:
                tracer.wait_until_recording()
                ids = tracer.kernel_ids()
                self.assertGreater(len(live.in_kernel(ids)), 3)
                self.assertGreater(live.changed_text_bytes(job.pid), 1000)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_gone(ids)
            self.assertEqual(live.changed_text_bytes(job.pid), 0)

    def test_a_killed_tracer_leaves_no_probe_and_a_readable_capture(self) -> None:
        moments = random.Random(3)
        whole = 0
        with Job() as job:
            job.tell("loop")
            for number in range(8):
                out = self.directory / f"killed{number}"
                with Tracer("-p", job.pid, "-o", out, "--format", "none") as tracer:
                    if number % 2:
                        time.sleep(moments.uniform(0, 0.3))  # in the middle of the attach
                        ids = tracer.kernel_ids()
                    else:
                        tracer.wait_until_recording()
                        ids = tracer.kernel_ids()
                        live.wait_until(lambda: self.has_operators(out), 20, "operators in the capture")
                        time.sleep(moments.uniform(0, 0.5))
                    tracer.process.kill()
                    tracer.process.wait()
                live.wait_until(lambda: not live.in_kernel(ids) and live.changed_text_bytes(job.pid) == 0, 3.0,
                                "all probes gone after SIGKILL")
                if (out / "capture.ptrec").exists():
                    done = self.run_proftrace("report", out, "--salvage")
                    self.assertEqual(done.returncode, 8, done.stderr)
                    whole += "aten::" in done.stdout
            self.assert_same_results(job.finish_loop())
            self.assertEqual(job.end(), 0)
        self.assertGreaterEqual(whole, 4)

    def test_exceptions_pass_probes_that_come_and_go(self) -> None:
        with Job() as job:
            expected = job.do("steps 1")["checksum"]
            job.tell("raise 2000")
            for number in range(3):
                self.record_shortly(job, number)
            thrown = job.answer()
            self.assertEqual(thrown["distinct"], "2")  # a step's result and an exception's
            self.assertIn(expected, thrown["checksum"])
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                answer = job.do("raise 2000")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(answer["checksum"], thrown["checksum"])
            self.assertEqual(job.end(), 0)
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual(result.ledger["end_by_exception"], 2000)
        rows = [row for row in result.events() if row["end"] == "exception"]
        self.assertEqual({row["path"] for row in rows}, {"throwing/aten::mm"})

    def test_two_tracers_at_once_both_complete(self) -> None:
        with Job() as job:
            outs = [self.directory / name for name in ("first", "second")]
            with Tracer("-p", job.pid, "-o", outs[0], "--format", "none") as first:
                first.wait_until_recording()
                with Tracer("-p", job.pid, "-o", outs[1], "--format", "none") as second:
                    second.wait_until_recording()
                    self.assert_same_results(job.do("steps 20"))
                    self.assertEqual(first.stop(), 0, first.text())
                    self.assert_same_results(job.do("steps 20"))
                    self.assertEqual(second.stop(), 0, second.text())
            self.assertEqual(live.changed_text_bytes(job.pid), 0)
            self.assertEqual(job.end(), 0)
        ledgers = [Result(out).ledger for out in outs]
        for out in outs:
            self.assert_lossless(Result(out))
        self.assertEqual(ledgers[1]["begins"], 2 * ledgers[0]["begins"])


if __name__ == "__main__":
    live.run()

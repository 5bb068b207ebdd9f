#!/usr/bin/env python3
"""Forced loss: counted, marked, and never a wrong parent."""

from __future__ import annotations

import signal
import time
import unittest

import live
from live import Job, LiveTest, Result, Tracer

SMALLEST_RING = ("--buffer-size", "4K")


class LossTest(LiveTest):
    def lossless_paths(self, job: Job) -> set[tuple[str, ...]]:
        with Tracer("-p", job.pid, "-o", self.directory / "whole", "--format", "events-csv") as tracer:
            tracer.wait_until_recording()
            job.do("steps 30")
            self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.directory / "whole")
        self.assert_lossless(result)
        return {tuple(row["path"].split("/")) for row in result.events()}

    def assert_honest(self, result: Result, whole: set[tuple[str, ...]]) -> None:
        """Loss is counted and shown; what is there has the parents that it has in a recording without loss."""
        self.assert_identities(result.ledger)
        for name in ("ring_lost", "truncated", "closed"):
            self.assertGreater(result.ledger[name], 0, name)
        self.assertEqual(result.ledger["malformed"], 0)
        # A span whose parents were lost is a root: its path is then the end of one that was seen without loss.
        ends = {path[begin:] for path in whole for begin in range(len(path))}
        rows = list(result.events())
        names = {row["id"]: row["name"] for row in rows}
        wrong = {row["path"] for row in rows if tuple(row["path"].split("/")) not in ends}
        self.assertEqual(wrong, set())
        for row in rows:
            if row["parent_id"]:
                self.assertEqual(row["path"].split("/")[-2], names[row["parent_id"]])
        self.assertEqual(sum(row["end"] == "truncated" for row in rows), result.ledger["truncated"])
        table = (result.path / "key_averages.txt").read_text(encoding="utf-8")
        self.assertIn(str(result.ledger["ring_lost"]), table)
        self.assertIn(str(result.ledger["truncated"]), table)

    def test_a_ring_that_is_too_small_loses_honestly(self) -> None:
        with Job() as job:
            whole = self.lossless_paths(job)
            with Tracer("-p", job.pid, "-o", self.out, "--format", "table,events-csv", *SMALLEST_RING) as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(job.do("steps 200"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_honest(Result(self.out), whole)

    def test_a_reader_that_stops_loses_honestly_and_goes_on(self) -> None:
        with Job() as job:
            whole = self.lossless_paths(job)
            with Tracer("-p", job.pid, "-o", self.out, "--format", "table,events-csv", "--buffer-size", "256K") as tracer:
                tracer.wait_until_recording()
                job.do("steps 20")
                tracer.process.send_signal(signal.SIGSTOP)
                stopped_ns = time.time_ns()
                self.assert_same_results(job.do("steps 300"))
                tracer.process.send_signal(signal.SIGCONT)
                going_ns = time.time_ns()
                job.do("steps 20")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
            self.assert_honest(result, whole)
            starts = [int(row["start_ns"]) for row in result.events()]
            self.assertLess(min(starts), stopped_ns)
            self.assertGreater(max(starts), going_ns)

    def test_losses_of_more_threads_than_can_be_noted_truncate_all(self) -> None:
        with Job() as job:
            whole = self.lossless_paths(job)
            with Tracer("-p", job.pid, "-o", self.out, "--format", "table,events-csv", live.Switch("loss-threads=1"),
                        *SMALLEST_RING) as tracer:
                tracer.wait_until_recording()
                job.do("threads 400")
                self.assert_same_results(job.do("steps 50"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
            self.assert_honest(result, whole)
            self.assertGreater(result.ledger["gaps"], 0)

    def test_strict_is_9_after_a_loss_and_0_without(self) -> None:
        with Job() as job:
            for code, options in ((9, SMALLEST_RING), (0, ())):
                out = self.directory / f"strict-{code}"
                with Tracer("-p", job.pid, "-o", out, "--strict", *options) as tracer:
                    tracer.wait_until_recording()
                    job.do("steps 100")
                    self.assertEqual(tracer.stop(), code, tracer.text())
                self.assertEqual(Result(out).ledger["ring_lost"] > 0, code == 9)
                self.assertEqual("--strict" in tracer.text(), code == 9)
                # Everything is written all the same.
                self.assertTrue((out / "trace.json.gz").is_file())


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""Times and memory of a recording. The limits are those of a quiet machine; on a busy one the best of three counts."""

from __future__ import annotations

import re
import sys
import time
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

MOST_ATTACH_S, MOST_DETACH_S = 1.0, 0.5
MOST_RESIDENT_MB = 150
BUSY_S = 20


class BoundsTest(LiveTest):
    def test_attaching_and_detaching_are_quick(self) -> None:
        windows = []
        with Job() as job:
            job.tell("loop")
            for number in range(4):  # the first one makes the plan
                out = self.directory / f"result{number}"
                done = self.run_proftrace("-p", job.pid, "-d", "0.2s", "--format", "none", "-o", out)
                self.assertEqual(done.returncode, 0, done.stderr)
                windows.append(Result(out).summary["window"])
            self.assert_same_results(job.finish_loop())
        for name, limit in (("attach_s", MOST_ATTACH_S), ("detach_s", MOST_DETACH_S)):
            times = [window[name] for window in windows]
            print(name, " ".join(f"{seconds:.3f}" for seconds in times), file=sys.stderr)
            self.assertLess(min(times[1:]), limit)

    def test_memory_stays_bounded_while_recording(self) -> None:
        with Job() as job:
            job.tell("loop")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "none") as tracer:
                tracer.wait_until_recording()
                peaks = []
                for _ in range(BUSY_S):
                    time.sleep(1)  # the length of the recording is what is tested
                    status = Path(f"/proc/{tracer.process.pid}/status").read_text()
                    peaks.append(int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_same_results(job.finish_loop())
        ledger = Result(self.out).ledger
        print(f"{ledger['records']} records, {ledger['ring_lost']} lost, peak resident set "
              f"{peaks[1]:.0f} MB after 2 s, {peaks[-1]:.0f} MB after {BUSY_S} s", file=sys.stderr)
        self.assertGreater(ledger["records"], 1_000_000)
        self.assertLess(peaks[-1], MOST_RESIDENT_MB)
        self.assertLess(peaks[-1] - peaks[len(peaks) // 2], 16)


if __name__ == "__main__":
    live.run()

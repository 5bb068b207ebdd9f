#!/usr/bin/env python3
"""What a capture tells of its host and of its host's clocks."""

from __future__ import annotations

import ctypes
import json
import os
import re
import time
from pathlib import Path

import live
from live import Job, LiveTest, Result

# Lead: a clock's lead on CLOCK_MONOTONIC, and by how much that may be wrong, in nanoseconds.
Lead = tuple[int, int]
CLOCKS = {"monotonic_raw_ns": time.CLOCK_MONOTONIC_RAW, "boottime_ns": time.CLOCK_BOOTTIME, "realtime_ns": time.CLOCK_REALTIME,
          "tai_ns": 11}  # CLOCK_TAI has a name from Python 3.9 on
MOST_SLEW_PPM = 500  # of the kernel
UNSYNCHRONISED = 0x40  # STA_UNSYNC


def lead_of(clock: int) -> Lead:
    readings = []
    for _ in range(200):
        before, value, after = time.monotonic_ns(), time.clock_gettime_ns(clock), time.monotonic_ns()
        readings.append((after - before, value - (before + after) // 2))
    gap, lead = min(readings)
    return lead, gap // 2 + 1


class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("freq", ctypes.c_long), ("maxerror", ctypes.c_long),
                ("esterror", ctypes.c_long), ("status", ctypes.c_int), ("rest", ctypes.c_char * 512)]


def kernels_ntp() -> Timex:
    timex = Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return timex


class ClocksTest(LiveTest):
    def check(self, told: dict[str, object], before: dict[str, Lead], after: dict[str, Lead], span_ns: int) -> None:
        for name in CLOCKS:
            lead = told[name] - told["monotonic_ns"]
            low, high = (pick(one[name][0] for one in (before, after)) for pick in (min, max))
            error = told["gap_ns"] // 2 + 1 + max(before[name][1], after[name][1])
            if name == "monotonic_raw_ns":  # the rates of the others are MONOTONIC's
                error += span_ns * MOST_SLEW_PPM // 1_000_000
            self.assertGreaterEqual(lead, low - error, (name, told))
            self.assertLessEqual(lead, high + error, (name, told))
        self.assertGreater(told["gap_ns"], 0)
        self.assertLess(told["gap_ns"], 1_000_000)

    def test_clocks_are_those_that_anybody_reads(self) -> None:
        """Of a window that is a little longer than ten seconds: its begin, once in between, its end."""
        with Job() as job:
            timex = kernels_ntp()
            before, begin_ns = {name: lead_of(clock) for name, clock in CLOCKS.items()}, time.monotonic_ns()
            done = self.run_proftrace("-p", job.pid, "-d", "11s", "-o", self.out, "--format", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
            after, end_ns = {name: lead_of(clock) for name, clock in CLOCKS.items()}, time.monotonic_ns()
        summary = Result(self.out).summary
        clocks = summary["clocks"]
        self.assertEqual(clocks["snapshots"], 3)
        first, last = clocks["first"], clocks["last"]
        for told in (first, last):
            self.check(told, before, after, end_ns - begin_ns)
            self.assertTrue(begin_ns <= told["monotonic_ns"] <= end_ns)
            self.check_ntp(told["ntp"], timex)
        self.assertGreaterEqual(last["monotonic_ns"] - first["monotonic_ns"], 10e9)
        self.assertAlmostEqual(summary["window"]["start_unix_ns"], first["realtime_ns"], delta=1e9)
        self.check_host(summary["host"])
        # An export has the same.
        done = self.run_proftrace("export", self.out, "--format", "summary", "-o", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        exported = json.loads(done.stdout)
        self.assertEqual((exported["clocks"], exported["host"]), (clocks, summary["host"]))

    def check_ntp(self, ntp: dict[str, object], timex: Timex) -> None:
        self.assertEqual(ntp["synchronised"], not timex.status & UNSYNCHRONISED)
        self.assertEqual(ntp["status"], timex.status)
        # It grows by 500 ppm, until the next answer of a server.
        self.assertAlmostEqual(ntp["max_error_ns"] * 1e-9, timex.maxerror * 1e-6, delta=0.5)

    def check_host(self, host: dict[str, object]) -> None:
        self.assertEqual(host["name"], os.uname().nodename)
        self.assertEqual(host["boot_id"], Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        machine = Path("/etc/machine-id")
        if machine.is_file() and re.fullmatch(r"[0-9a-f]{32}\n?", machine.read_text()):
            self.assertRegex(host["machine_id_hash"], r"^[0-9a-f]{16}$")
            self.assertNotIn(machine.read_text().strip(), (self.out / "summary.json").read_text())


if __name__ == "__main__":
    live.run()

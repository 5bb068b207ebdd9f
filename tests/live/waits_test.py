#!/usr/bin/env python3
"""--activities sched: a thread that waits for a lock that another one holds waits for a lock; one that waits for work, or for
anything else that another thread is to do, waits for an event."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import time
from pathlib import Path

import live
from live import LiveTest, Result, Tracer

JOB = live.HERE / "waits_job.py"
# Waits in the interpreter's own lock are left to each thread; on a busy machine they are long.
MOST = 0.5


class WaitsTest(LiveTest):
    def waits(self, *options: str, mode: str = "") -> dict[str, collections.Counter]:
        """Time in ns by what was waited for, of each thread that has a name of its own."""
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        job = subprocess.Popen([LiveTest.python, str(JOB), mode], stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "READY\n")
        with Tracer("-p", job.pid, "--activities", "cpu,sched", *options, "--format", "events-csv,table", "-o",
                    self.out) as tracer:
            tracer.wait_until_recording()
            names = {task.name: (task / "comm").read_text().strip() for task in Path(f"/proc/{job.pid}/task").iterdir()}
            time.sleep(1.5)
            self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertEqual(Result(self.out).ledger["system_lost"], 0)
        sums: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for row in Result(self.out).events():
            name = names.get(row["tid"], "")
            if row["category"] == "sched" and "-" in name:
                blocked = int(row["duration_ns"]) - json.loads(row["args"]).get("run_queue_ns", 0)
                sums[name][row["name"]] += blocked
        return sums

    def assert_told(self, sums: dict[str, collections.Counter]) -> None:
        self.assertEqual(len(sums), 20, sums.keys())
        for name, waited in sums.items():
            reason = name.split("-")[0]
            self.assertGreater(waited[reason], MOST * sum(waited.values()), f"{name}: {waited}")
            # Nobody gives them a lock to wait for, but for the moment in which a waker still holds what it wakes them with.
            if name in ("event-idle", "event-idlesimpl", "event-barrier", "event-condvar", "event-sem", "event-pyjoin"):
                self.assertLess(waited["lock"], sum(waited.values()) / 1000, f"{name}: {waited}")

    def test_idle_threads_wait_for_events(self) -> None:
        self.assert_told(self.waits())
        self.assertRegex((self.out / "key_averages.txt").read_text(), r"lock [\d.]+ %, event [\d.]+ %")
        self.assertIn("event", Result(self.out).summary["time"]["uses_us"])

    def test_of_a_job_with_jumps(self) -> None:
        self.assert_told(self.waits("--tier", "patch"))

    def test_the_interpreters_lock_is_told_from_others(self) -> None:
        sums = self.waits(mode="spin")
        for name in ("gil-1", "gil-2"):
            self.assertGreater(sums[name]["gil"], 0.9 * sum(sums[name].values()), sums[name])


if __name__ == "__main__":
    live.run()

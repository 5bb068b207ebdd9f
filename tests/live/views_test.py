#!/usr/bin/env python3
"""What the kernel did, as it is shown: `report --by-file`, `--by-syscall`, `--waits`, the chrome trace, folded stacks and pfw."""

from __future__ import annotations

import collections
import json
import os
import subprocess
from pathlib import Path

import live
from live import LiveTest, Tracer

JOB = live.HERE / "views_job.py"
ROUNDS, HOLD_NS = 5, 20_000_000  # as in the job
# What counts as rchar and wchar in /proc/PID/io (fs/read_write.c): neither splice nor what only sockets have.
READS = {"read", "pread64", "readv", "preadv", "preadv2", "sendfile", "copy_file_range"}
WRITES = {"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range"}


def kernels_count(pid: int) -> tuple[int, int]:
    words = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(words["rchar"]), int(words["wchar"])


class ViewsTest(LiveTest):
    def report(self, *arguments: str) -> list[dict]:
        done = self.run_proftrace("report", self.out, "--json", "--row-limit", -1, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["rows"]

    def export(self, name: str, *arguments: str) -> str:
        path = self.out.parent / name
        done = self.run_proftrace("export", self.out, "-o", path, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path.read_text(encoding="utf-8")

    def record(self, activities: str) -> tuple[dict, tuple[int, int]]:
        """The job's own sums, and the kernel's."""
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        with subprocess.Popen([LiveTest.python, str(JOB)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=environment) as job:
            try:
                assert job.stdin is not None and job.stdout is not None
                self.assertEqual(job.stdout.readline(), "READY\n")
                with Tracer("-p", job.pid, "--activities", activities, "--format", "events-csv", "-o", self.out) as tracer:
                    tracer.wait_until_recording()
                    before = kernels_count(job.pid)
                    job.stdin.write("\n")
                    job.stdin.flush()
                    sums = json.loads(job.stdout.readline())
                    after = kernels_count(job.pid)
                    self.assertEqual(tracer.stop(), 0)
            finally:
                job.kill()
        return sums, (after[0] - before[0], after[1] - before[1])

    def test_all(self) -> None:
        sums, (rchar, wchar) = self.record("cpu,syscalls,sched,faults")
        with self.subTest("bytes of files"):
            files = {row["file"]: row for row in self.report("--by-file")}
            for path, count in sums["got"].items():
                self.assertEqual(files[path]["bytes_read"], count, path)
            for path, count in sums["put"].items():
                self.assertEqual(files[path]["bytes_written"], count, path)
        with self.subTest("bytes of the process"):
            calls = {row["name"]: row for row in self.report("--by-syscall")}
            self.assertEqual(sum(calls[name]["bytes"] for name in READS & calls.keys()), rchar)
            self.assertEqual(sum(calls[name]["bytes"] for name in WRITES & calls.keys()), wchar)
            for name, row in calls.items():
                self.assertLessEqual(row["p99_ns"], row["max_ns"], name)
                self.assertLessEqual(row["off_cpu_ns"], row["total_ns"], name)
        with self.subTest("waits"):
            rows = [row for row in self.report("--waits") if row["path"] == "waiter" and row.get("waker_path")]
            # It waits for Python's own lock, too, but not for long.
            woken = [row for row in rows if row["waker_path"] == "holder/releasing" and row["reason"] != "gil"]
            self.assertGreaterEqual(sum(row["count"] for row in woken), ROUNDS, rows)
            blocked = sum(row["blocked_ns"] for row in woken)
            self.assertGreater(blocked, 0.7 * ROUNDS * HOLD_NS, rows)
            self.assertGreater(blocked, 0.9 * sum(row["blocked_ns"] for row in rows), rows)
            self.assertTrue(all(row["reason"] == "lock" and row["syscall"] == "futex" for row in woken), rows)
            self.assertTrue(all(row["waker_tid"] != row["tid"] for row in woken), rows)
        with self.subTest("folded"):
            weights = {}
            for line in self.export("off.folded", "--format", "folded", "--metric", "off_cpu").splitlines():
                stack, weight = line.rsplit(" ", 1)
                weights[stack] = int(weight)
            self.assertGreater(weights["waiter;futex_[k]"], 0.7 * ROUNDS * HOLD_NS / 1000, weights)
        with self.subTest("trace"):
            self.check_trace(json.loads(self.export("trace.json", "--format", "chrome"))["traceEvents"])
        with self.subTest("pfw"):
            rows = [json.loads(line) for line in self.export("trace.pfw", "--format", "pfw").splitlines()]
            names = collections.Counter(row["name"] for row in rows if row["cat"] == "POSIX")
            self.assertEqual(names["pread64"], calls["pread64"]["calls"])
            self.assertEqual(names["open64"] + names["opendir"] + names["openat"], calls["openat"]["calls"])
            self.assertNotIn("futex", names)
            end = rows[-1]
            self.assertEqual((end["name"], end["args"]["num_events"]), ("end", sum(row["ph"] == 1 for row in rows) - 2))

    def check_trace(self, events: list[dict]) -> None:
        """Rows of a thread nest, and its states follow one another."""
        threads = collections.defaultdict(list)
        states = collections.defaultdict(list)
        for event in events:
            if event["ph"] not in "XT" or event.get("cat") == "Trace":
                continue
            start = round(event["ts"] * 1000)
            row = (start, start + round(event["dur"] * 1000), event["name"])
            (states if event["ph"] == "T" else threads)[event["tid"]].append(row)
        for rows in threads.values():
            around: list[tuple[int, int, str]] = []
            for row in sorted(rows, key=lambda row: (row[0], -row[1])):
                while around and around[-1][1] <= row[0]:
                    around.pop()
                self.assertTrue(not around or row[1] <= around[-1][1], (around[-1:], row))
                around.append(row)
        self.assertTrue(states)
        for rows in states.values():
            rows.sort()
            for row, following in zip(rows, rows[1:]):
                self.assertEqual(row[1], following[0], (row, following))

    def test_what_was_not_recorded(self) -> None:
        self.record("cpu,sched")
        self.assert_fails(2, ("report", self.out, "--by-file"), "--by-file", "record with --activities syscalls or io")
        self.assert_fails(2, ("report", self.out, "--by-syscall"), "--by-syscall", "record with --activities")
        self.assert_fails(2, ("export", self.out, "--format", "pfw"), "record with --activities syscalls or io")
        self.assert_fails(2, ("report", self.out, "--waits", "--sort-by", "count"), "--sort-by", "--waits")


if __name__ == "__main__":
    live.run()

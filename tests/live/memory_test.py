#!/usr/bin/env python3
"""--profile-memory where records are lost, in forked children, and of many threads: totals are right, or not shown."""

from __future__ import annotations

import collections
import gzip
import json
import os
import signal
import stat
import unittest

import children_test
import live
from live import Job, LiveTest, Result, Tracer

BLOCKS = 3000


def memory_rows(result: Result) -> dict[int, list[tuple[int, int | None]]]:
    """Of each process, in order of time: bytes, and the running total where it is known."""
    rows: dict[int, list[tuple[int, int, int | None]]] = collections.defaultdict(list)
    for row in result.events():
        if row["name"] == "[memory]":
            args = json.loads(row["args"])
            rows[int(row["pid"])].append((int(row["start_ns"]), args["bytes"], args["total_allocated"]))
    return {pid: [event[1:] for event in sorted(events, key=lambda event: event[0])] for pid, events in rows.items()}


def check_totals(test: unittest.TestCase, result: Result) -> int:
    """Each total is the sum of what its process allocated and freed; how many there are."""
    count = 0
    for pid, rows in memory_rows(result).items():
        total = 0
        for size, shown in rows:
            total += size
            test.assertEqual(shown, total, f"PID {pid}")
        count += len(rows)
    return count


class MemoryTest(LiveTest):
    record = children_test.ChildrenTest.record
    children_of = children_test.ChildrenTest.children_of

    def test_a_loss_never_gives_a_wrong_total(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--profile-memory", "--buffer-size", "1M",
                        "--format", "table,events-csv,memory-timeline,chrome") as tracer:
                tracer.wait_until_recording()
                job.do(f"allocate {BLOCKS // 3}")  # fits into the buffer, however late it is read
                tracer.process.send_signal(signal.SIGSTOP)
                job.do("steps 1000")  # fills it
                job.do(f"allocate {BLOCKS}")  # frees those of before, and nobody learns of it
                tracer.process.send_signal(signal.SIGCONT)
                self.assert_same_results(job.do("steps 20"))
                job.do(f"allocate {BLOCKS // 3}")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_identities(result.ledger)
        self.assertGreater(result.ledger["ring_lost"], 0)
        self.assertFalse(result.summary["memory"]["totals_known"])
        self.assertIn("running totals are unknown from a loss on", (self.out / "key_averages.txt").read_text())
        rows = memory_rows(result)[job.pid]
        shown = [total for _, total in rows]
        known = shown.index(None)
        self.assertGreater(known, BLOCKS // 3)
        self.assertEqual(set(shown[known:]), {None})
        # The first ones stay: block n makes n * (n + 1) / 2 * 4 bytes.
        for number, (size, total) in enumerate(rows[:BLOCKS // 3], 1):
            self.assertEqual((size, total), (4 * number, 2 * number * (number + 1)))
        self.assertEqual(shown[:known], list(self.sums([size for size, _ in rows[:known]])))
        # Nobody knows what is freed after a loss if it was allocated before.
        self.assertGreater(result.summary["memory"]["unknown_frees"], 0)
        times, sizes = json.loads((self.out / "memory_timeline.json").read_text())
        self.assertEqual(sizes[-1][-1], shown[known - 1])

    def test_stacks_by_memory_have_all_that_was_allocated(self) -> None:
        with Job() as job:
            result, _ = self.record(job, "steps 20", f"allocate {BLOCKS}", options=("--profile-memory", "--with-stack"))
        allocated = sum(max(size, 0) for rows in memory_rows(result).values() for size, _ in rows)
        self.assertGreater(allocated, 0)
        done = self.run_proftrace("export", self.out, "--format", "folded,speedscope", "--metric", "self_cpu_memory_usage",
                                  "-o", self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (self.directory / "stacks_cpu_memory.folded").read_text(encoding="utf-8").splitlines()
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), allocated)
        self.assertTrue(any("aten::" in line and ".py(" in line for line in lines), lines[:3])
        profiles = json.loads((self.directory / "profile.speedscope.json").read_text(encoding="utf-8"))
        shown = profiles["profiles"][profiles["activeProfileIndex"]]
        self.assertEqual((shown["unit"], shown["endValue"]), ("bytes", allocated))
        self.assert_fails(2, ("export", self.out, "--format", "folded", "--metric", "self_device_memory_usage"), "GPU")

    def test_the_timelines_file_has_the_form_that_its_name_says(self) -> None:
        with Job() as job:
            result, _ = self.record(job, f"allocate {BLOCKS}", options=("--profile-memory",))
        done = self.run_proftrace("export", self.out, "--format", "memory-timeline", "-o", self.directory)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.directory / "memory_timeline.html").is_file())

        def export(name: str, *options: object) -> bytes:
            path = self.directory / name
            done = self.run_proftrace("export", self.out, "--format", "memory-timeline", "-o", path, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"{name}: cpu of PID {job.pid}", done.stderr)
            return path.read_bytes()

        lists = export("timeline.json")
        self.assertEqual(lists, (self.directory / "memory_timeline.json").read_bytes())
        self.assertEqual(export("other.json", "--pid", job.pid, "--device", "cpu"), lists)
        self.assertEqual(gzip.decompress(export("timeline.json.gz")), lists)
        self.assertIn(b"<canvas", export("timeline.html"))
        raw = json.loads(gzip.decompress(export("timeline.raw.json.gz")))
        rows = memory_rows(result)[job.pid]
        self.assertEqual([(action, size, category) for _, action, size, category in raw],
                         [(2 if size > 0 else 4, size, 7) for size, _ in rows])
        self.assertEqual(sum(size for _, _, size, _ in raw), json.loads(lists)[1][-1][-1])
        self.assert_fails(2, ("export", self.out, "--format", "memory-timeline", "--device", "cuda:0", "-o", self.directory), "cpu of PID")

    def sums(self, sizes: list[int]) -> list[int]:
        total, sums = 0, []
        for size in sizes:
            total += size
            sums.append(total)
        return sums

    def test_a_ring_that_is_too_small_never_gives_a_wrong_total(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--profile-memory", "--format", "events-csv",
                        "--buffer-size", "4K") as tracer:
                tracer.wait_until_recording()
                job.do(f"allocate {BLOCKS}")
                self.assert_same_results(job.do("steps 100"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_identities(result.ledger)
        self.assertGreater(result.ledger["ring_lost"], 0)
        rows = memory_rows(result)[job.pid]
        for size, total in rows:
            if total is None:
                break
            number = size // 4
            self.assertEqual(total, 2 * number * (number + 1))
        self.assertIn(None, [total for _, total in rows])

    def test_children_that_are_forked_in_a_backward_have_totals_of_their_own(self) -> None:
        with Job() as job:
            result, (answer, after) = self.record(job, "forkback 3 memory", "steps 3", options=("--profile-memory",))
            self.assert_same_results(after)
        children = self.children_of(answer)
        self.assertEqual(len(children), 3)
        rows = memory_rows(result)
        self.assertGreater(check_totals(self, result), 300)
        grown = [4 * number for number in range(1, 101)]
        for pid in children:
            sizes = [size for size, _ in rows[pid]]
            begin = sizes.index(4)
            self.assertEqual(sizes[begin:begin + 150], grown + [-size for size in grown[::2]])
            self.assertEqual(rows[pid][begin + 149][1] - (rows[pid][begin - 1][1] if begin else 0), sum(grown[1::2]))
        # What a child does is not its parent's: there the last step leaves what the first one left.
        self.assertTrue(result.summary["memory"]["totals_known"])


if __name__ == "__main__":
    live.run()

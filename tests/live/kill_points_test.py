#!/usr/bin/env python3
"""A tracer that is killed at each step of putting jumps into a job and taking them out: the job goes on, and `clean` makes it as it was.
One whose step fails takes out itself what it has put there.

PROFTRACE_KILL_POINTS=all: at every step; else a sample of them.
"""

from __future__ import annotations

import collections
import functools
import os
import random
import re
import signal
import subprocess
import unittest
from pathlib import Path

import live
from patch_test import TOOL, PatchJob, files, patch, patch_regions

# So many of some hundred points are tried: others each time, as the first one is drawn.
SAMPLES = 4
IS_ALL = os.environ.get("PROFTRACE_KILL_POINTS") == "all"
ITERATIONS = 30_000 if IS_ALL else 1500
THREADS = 2
# By this point the regions and the ring are mapped.
MAPPED = 64
LONG = 1_000_000
LEFT = 4  # patch_tool: it could not take everything out, and has said so


def anonymous_text_kb(pid: int) -> int:
    """What of the code of files is memory of the process's own."""
    kb, is_text = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"^[0-9a-f]+-[0-9a-f]+ ", line):
            is_text = " r-xp " in line and "/" in line
        elif is_text and line.startswith("Anonymous:"):
            kb += int(line.split()[1])
    return kb


def anonymous_sizes(pid: int) -> collections.Counter[int]:
    """How many anonymous mappings there are of each size, the parts of one that has been split together."""
    sizes: collections.Counter[int] = collections.Counter()
    begin = last = 0
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        low, high = (int(word, 16) for word in line.split()[0].split("-"))
        if len(line.split()) > 5:
            continue
        if low != last:
            sizes[last - begin] += 1
            begin = low
        last = high
    sizes[last - begin] += 1
    return sizes


def has_ended(job: PatchJob) -> bool:
    """Or does so: it is gone for others before its parent hears of it."""
    try:
        return job.process.wait(1) is not None
    except subprocess.TimeoutExpired:
        return False


class KillPointsTest(live.LiveTest):
    def setUp(self) -> None:
        super().setUp()
        # After each point. Pages that are as in their files should be the files' again.
        self.own_text_kb: list[int] = []
        self.calls: collections.Counter[str] = collections.Counter()  # before which it was killed, or which failed
        self.results: collections.Counter[int] = collections.Counter()  # of patch_tool

    @staticmethod
    @functools.cache
    def undisturbed_result() -> tuple[object, ...]:
        with PatchJob(THREADS, ITERATIONS) as job:
            return job.result()

    @staticmethod
    @functools.cache
    def region_bytes() -> int:
        """Of the one region of this job: control page and code."""
        with PatchJob(THREADS, ITERATIONS) as job:
            tool = subprocess.Popen([TOOL, str(job.pid), "60"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            live.wait_until(lambda: tool.poll() is not None or any(" r-xp " in line for line in patch_regions(job.pid)), 60, "patched")
            line = next((line for line in patch_regions(job.pid) if " r-xp " in line), "")
            tool.send_signal(signal.SIGINT)
            error = tool.communicate()[1]
            assert line, f"no region: {tool.returncode}, {error}"
            low, high = (int(word, 16) for word in line.split()[0].split("-"))
            return high - low + 4096

    def check_point(self, pid: int, region: int, own: int, what: str, cleans: bool) -> bool:
        """False: the job has ended meanwhile. `own`: mappings of a region's size that the job has itself. `cleans`: what is left there has
        to be taken away first."""
        if cleans:
            done = self.run_proftrace("clean", "-p", pid)
            if done.returncode == 3:
                return False
            self.assertEqual((done.returncode, done.stderr), (0, ""), what)
        try:
            left = max(0, anonymous_sizes(pid)[region] - own)
            state = (live.changed_text_bytes(pid), left, patch_regions(pid), files(pid))
            self.own_text_kb.append(anonymous_text_kb(pid))
        except (FileNotFoundError, ProcessLookupError):
            return False
        if not Path(f"/proc/{pid}/maps").read_text():
            return False
        self.assertEqual(state, (0, 0, [], 0), what)
        return True

    def disturbed_at(self, job: PatchJob, region: int, first: int, last: int, step: int, how: str = "killed") -> tuple[int, int]:
        """A kill ("killed") or a failure ("failing") at each of these points. The point to go on at where the job has ended, and how many
        there are in all (0: it is not known)."""
        point = first
        own = anonymous_sizes(job.pid)[region]
        tool = subprocess.Popen([TOOL, how, str(job.pid), str(point), str(step)], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        try:
            while point <= last:
                words = tool.stdout.readline().split()
                if not words or job.process.poll() is not None:
                    break
                if words[0] == "whole":
                    if words[2] != "0" and has_ended(job):
                        break
                    self.assertEqual(words[2], "0")
                    return point, int(words[1])
                result = int(words[3]) if how == "failing" else 0
                if not self.check_point(job.pid, region, own, f"{words[0]} at {words[1]}, before {words[2]}: {result}", how == "killed" or result >= LEFT):
                    break
                self.calls[words[2]] += 1
                self.results[result] += 1
                point = int(words[1]) + step
                tool.stdin.write("\n")
                tool.stdin.flush()
        finally:
            tool.kill()
            tool.communicate()
        return point, 0

    def disturbed_at_each_step(self, how: str) -> int:
        """How many steps there are."""
        expected = self.undisturbed_result()
        self.assertEqual(expected[0], 0)
        region = self.region_bytes()
        step = 1
        if not IS_ALL:
            with PatchJob(THREADS, ITERATIONS) as job:
                done = subprocess.run([TOOL, how, str(job.pid), "100000", "1"], capture_output=True, text=True, timeout=120)
                step = max(1, int(done.stdout.split()[1]) // SAMPLES)
        point = 1 if IS_ALL else random.randint(1, step)
        points = 0
        while points == 0:
            with PatchJob(THREADS, ITERATIONS) as job:
                point, points = self.disturbed_at(job, region, point, LONG, step, how)
                self.assertEqual(job.result(), expected, f"before point {point}")
        return points

    def test_a_tracer_killed_while_it_maps(self) -> None:
        region = self.region_bytes()
        with PatchJob(THREADS, LONG) as job:
            point, _ = self.disturbed_at(job, region, random.randint(1, 3), MAPPED, 1 if IS_ALL else 3)
            self.assertGreater(point, MAPPED)
            self.assertIsNone(job.process.poll())

    def test_a_tracer_killed_at_each_step(self) -> None:
        points = self.disturbed_at_each_step("killed")
        print(f"{points} points, killed at {sum(self.calls.values())}: {dict(self.calls)}; "
              f"pages of their own stayed {sum(kb > 0 for kb in self.own_text_kb)} times, {max(self.own_text_kb)} kB at most", flush=True)
        self.assertGreater(points, 100)

    def test_a_step_that_fails(self) -> None:
        points = self.disturbed_at_each_step("failing")
        print(f"{points} points, failed at {sum(self.calls.values())}: {dict(self.calls)}; results {dict(self.results)}", flush=True)
        self.assertGreater(points, 100)


if __name__ == "__main__":
    live.run()

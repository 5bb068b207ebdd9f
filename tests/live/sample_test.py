#!/usr/bin/env python3
"""--sample: how often threads are looked at, what they are seen to do, and in which frames of Python and of C."""

from __future__ import annotations

import collections
import csv
import json
import os
import re
import signal
import time
import unittest
from pathlib import Path

import live
from dump_test import STANDING, WAITS, Target
from live import Job, LiveTest, Result, Tracer

RATE = 99
FRAME = re.compile(r"(.*)\((-?\d+)\): (.*)")

# One thread: two thirds of its time in one function, one third in another, both Python alone; now and then it sleeps.
WORKER = r"""
import sys, threading, time, torch
def spend(seconds):
    end = time.thread_time() + seconds
    total = 0
    while time.thread_time() < end:
        for number in range(2000): total += number * number
    return total
def long(): return spend(0.02)
def short(): return spend(0.01)
def rest(): time.sleep(0.01)
print('READY', flush=True)
while True:
    long(); short(); rest()
"""

# One operator that compilers made, so that there are tables to unwind it by; MKL's and OpenBLAS's own kernels have none.
SORTER = r"""
import sys, torch
torch.set_num_threads(1)
a = torch.randn(400_000)
print('READY', flush=True)
while True:
    with torch.no_grad(): a.sort()
"""

# Everything waits for everything.
HUNG = r"""
import threading, torch
torch.ones(1).add(1)
locks = [threading.Lock(), threading.Lock()]
met = threading.Barrier(2)
def first():
    with locks[0]:
        met.wait()
        with locks[1]: pass
def second():
    with locks[1]:
        met.wait()
        with locks[0]: pass
threads = [threading.Thread(target=first), threading.Thread(target=second)]
for thread in threads: thread.start()
print('READY', flush=True)
for thread in threads: thread.join()
"""


class SampleTest(LiveTest):
    def sample(self, pid: int, seconds: float, *more: object) -> list[dict[str, str]]:
        done = self.run_proftrace("record", "-p", pid, "-d", f"{seconds}s", "--sample", f"{RATE}Hz", "-o", self.out,
                                  "--format", "samples-csv,events-csv", *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.samples()

    def samples(self) -> list[dict[str, str]]:
        with (self.out / "samples.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @staticmethod
    def sums(samples: list[dict[str, str]], *columns: str) -> collections.Counter:
        sums: collections.Counter = collections.Counter()
        for sample in samples:
            sums[tuple(sample[column] for column in columns)] += int(sample["samples"])
        return sums

    @staticmethod
    def functions(stack: str) -> list[str]:
        """Of Python's frames alone."""
        return [match[3] for match in map(FRAME.fullmatch, stack.split(";")) if match]

    def test_threads_that_stand_still(self) -> None:
        """Each is looked at as often as it was said, and its frames are the interpreter's own."""
        seconds = 2.0
        with Target("import torch\n" + STANDING) as target:
            report = json.loads(target.wait(r"^\{.*", live.START_S))
            time.sleep(0.2)
            samples = self.sample(target.pid, seconds)
        names = {str(tid): name for name, tid in report["names"].items()}
        of_thread = self.sums(samples, "tid")
        for tid, frames in report["stacks"].items():
            # Half of a second is for a machine that does something else.
            self.assertGreater(of_thread[tid,], RATE * (seconds - 0.5), names.get(tid))
            self.assertLess(of_thread[tid,], RATE * (seconds + 0.2), names.get(tid))
            for sample in samples:
                if sample["tid"] != tid:
                    continue
                read = [match for match in map(FRAME.fullmatch, sample["stack"].split(";")) if match]
                self.assertEqual([(int(frame[2]), frame[3]) for frame in reversed(read)],
                                 [(line, name) for _, line, name in frames])
                for frame, (file, _, _) in zip(reversed(read), frames):
                    self.assertTrue(file.endswith(frame[1]), (file, frame[1]))
                self.assertEqual(sample["state"], "sleeping")
                if tid in names:
                    self.assertIn(sample["system_call"], WAITS[names[tid]])
                    self.assertEqual(sample["stack"].rpartition(";")[2], sample["system_call"] + "_[k]")

    def test_a_busy_thread(self) -> None:
        """Its time, by the kernel's own account, and by its two functions."""
        seconds = 4.0
        with Target(WORKER) as target:
            target.wait("READY", live.START_S)
            path = Path(f"/proc/{target.pid}/task/{target.pid}/schedstat")
            before = [int(word) for word in path.read_text().split()[:2]], time.monotonic_ns()
            samples = self.sample(target.pid, seconds)
            after = [int(word) for word in path.read_text().split()[:2]], time.monotonic_ns()
        samples = [sample for sample in samples if sample["tid"] == str(target.pid)]
        states = self.sums(samples, "state")
        total = states.total()
        run, wait = ((b - a) / (after[1] - before[1]) for a, b in zip(before[0], after[0]))
        shares = {state: states[state,] / total for state in ("running", "runnable", "sleeping")}
        print(f"\nrun {run:.2f}, waited {wait:.2f} by the kernel; {shares} of {total} samples")
        self.assertAlmostEqual(shares["running"], run, delta=0.2)
        self.assertAlmostEqual(shares["sleeping"], 1 - run - wait, delta=0.2)
        self.assertAlmostEqual(total, seconds * RATE, delta=0.25 * seconds * RATE)
        functions = collections.Counter()
        for sample in samples:
            if sample["state"] == "running":
                functions.update({name: int(sample["samples"]) for name in set(self.functions(sample["stack"]))})
        print(functions)
        self.assertGreater(functions["<module>"], 0.97 * states["running",])
        ratio = functions["long"] / functions["short"]
        self.assertTrue(1.3 < ratio < 3.1, ratio)

    def test_samples_belong_to_operators(self) -> None:
        with Target(SORTER) as target:
            target.wait("READY", live.START_S)
            samples = self.sample(target.pid, 3)
        names = {row["id"]: row["name"] for row in Result(self.out).events()}
        mine = [sample for sample in samples if sample["tid"] == str(target.pid) and sample["state"] == "running"]
        self.assertGreater(len(mine), RATE)
        inside = [sample for sample in mine if names.get(sample["event_id"]) == "aten::sort"]
        self.assertGreater(len(inside), 0.8 * len(mine))
        for sample in inside:
            self.assertEqual(self.functions(sample["stack"]), ["<module>"])
        native = [sample["stack"].split(";") for sample in inside if sample["stack"].count(";") > 1]
        whole = [stack for stack in native if any("at::_ops::sort" in frame for frame in stack)]
        self.assertGreater(len(whole), 0.9 * len(inside))
        print(f"\n{len(mine)} samples, {len(inside)} in aten::sort, {len(whole)} with torch's C++ frames")
        # The interpreter's own frames are left out between Python's.
        for stack in native:
            self.assertFalse(any(frame.startswith("_PyEval_EvalFrameDefault") for frame in stack[:-1]), stack)

    def test_a_hung_job(self) -> None:
        with Target(HUNG) as target:
            target.wait("READY", live.START_S)
            time.sleep(0.2)
            samples = self.sample(target.pid, 1)
        stacks = [self.functions(sample["stack"]) for sample in samples]
        for name in ("first", "second"):
            self.assertTrue(any(stack[-1:] == [name] for stack in stacks), stacks)
        self.assertTrue(any("join" in stack for stack in stacks), stacks)
        self.assertEqual({sample["state"] for sample in samples}, {"sleeping"})

    def test_children_and_what_comes_to_an_end(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--sample", f"{RATE}Hz", "--format", "samples-csv") as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(job.do("steps 20"))
                answer = job.do("fork 2 1")
                self.assert_same_results(job.do("threads 3"))
                job.do("steps 300")
                job.process.kill()
                self.assertEqual(tracer.wait(), 0, tracer.text())
        pids = {sample["pid"] for sample in self.samples()}
        self.assertIn(str(job.pid), pids)
        self.assertGreater(len(pids), 1, answer)
        result = Result(self.out)
        self.assert_identities(result.ledger)
        self.assertEqual(result.summary["samples"]["all"], self.sums(self.samples()).total())

    def test_with_everything_else(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--sample", "997Hz", "--all",
                        "--format", "samples-csv,events-csv,chrome,flamegraph,table") as tracer:
                tracer.wait_until_recording()
                ids = tracer.kernel_ids()
                self.assert_same_results(job.do("steps 200"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_gone(ids)
            self.assert_same_results(job.do("steps 20"))
        result = Result(self.out)
        self.assert_lossless(result)
        running = [sample for sample in self.samples() if sample["state"] == "running"]
        self.assertTrue(any(sample["event_id"] for sample in running))
        for metric, states in (("sampled_on_cpu", {"running"}), ("sampled_off_cpu", {"runnable", "sleeping", "uninterruptible", "stopped"})):
            folded = self.directory / metric
            done = self.run_proftrace("export", self.out, "--format", "folded", "--metric", metric, "-o", folded)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = folded.read_text(encoding="utf-8").splitlines()
            looks = sum(int(sample["samples"]) for sample in self.samples() if sample["state"] in states)
            # A line's microseconds are cut to whole ones.
            self.assertAlmostEqual(sum(int(line.rpartition(" ")[2]) for line in lines), looks * 1e6 / 997, delta=len(lines) + 1)

    def test_a_job_that_a_signal_has_stopped(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--sample", "99Hz", "--format", "samples-csv") as tracer:
                tracer.wait_until_recording()
                os.kill(job.pid, signal.SIGSTOP)
                time.sleep(0.5)
                os.kill(job.pid, signal.SIGCONT)
                self.assert_same_results(job.do("steps 20"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
        looks = self.sums(sample for sample in self.samples() if sample["tid"] == str(job.pid) and sample["state"] == "stopped")
        self.assertGreater(looks.total(), 20)
        self.assertGreater(Result(self.out).summary["samples"]["stopped"], 20)

    def test_what_is_no_frequency(self) -> None:
        for rate in ("0", "0Hz", "-5", "20kHz", "fast", "99 Hz"):
            self.assert_fails(2, ("record", "-p", "1", "--sample", rate, "-o", self.out), "frequency")


if __name__ == "__main__":
    live.run()

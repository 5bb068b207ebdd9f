#!/usr/bin/env python3
"""--tier patch beside what a job forbids or does to itself: little room in its address space, locked memory, threads that come and go by the hundred,
modules that are made for a call, a debugger, a first thread that ends, a parent that ends before its child. The job goes on, and nothing stays in it."""

from __future__ import annotations

import collections
import contextlib
import os
import subprocess
from pathlib import Path
from typing import Iterator

import live
from live import Result, Tracer
from patch_test import PatchJob, patch_regions

PRELUDE = """
import ctypes, mmap, os, resource, sys, threading, time
import torch
torch.set_num_threads(1)
libc = ctypes.CDLL(None)
def work():
    return sum(torch.mm(torch.full((4, 4), i / 7), torch.eye(4)).sum().item() for i in range(20))
expected = work()
def mapped():
    return next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmSize')) << 10
"""
FINISH = """
print(os.getpid(), flush=True)
while sys.stdin.readline():
    assert work() == expected
    print('whole', flush=True)
"""
# May map so much more, and maps as much as is left to it in each round.
ROOM = """
room = int(sys.argv[1]) << 20
resource.setrlimit(resource.RLIMIT_AS, (mapped() + room, mapped() + room))
def work(plain=work):
    mmap.mmap(-1, room * 7 // 10).close()
    return plain()
"""
# Has all memory near torch's code taken but for so many holes of 160 KiB.
CROWDED = """
holes = int(sys.argv[1])
least = 160 << 10 if holes else 0
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
def take_free():  # and whether all was free that seemed so
    global holes
    lines = open('/proc/self/maps').read().splitlines()
    ranges = [[int(word, 16) for word in line.split()[0].split('-')] for line in lines]
    near = [bounds for bounds, line in zip(ranges, lines) if '/libtorch' in line]
    lowest, highest = near[0][0] - (4 << 30), near[-1][1] + (4 << 30)
    is_all = True
    for (_, begin), (end, _) in zip(ranges, ranges[1:]):
        begin, end = max(begin, lowest), min(end, highest)
        while begin < end:
            until = min(end, begin + (16 << 20))
            hole = 160 << 10 if holes and until - begin >= 1 << 20 and begin > near[0][0] - (3 << 29) else 0
            # MAP_PRIVATE | ANONYMOUS | NORESERVE | FIXED_NOREPLACE
            if until - begin > least:
                is_taken = libc.mmap(begin + hole, until - begin - hole, 0, 0x104022, -1, 0) == begin + hole
                holes -= is_taken and hole > 0
                is_all = is_all and is_taken
            begin = until
    return is_all
while not take_free(): pass
assert holes == 0
"""
LOCKED = "assert libc.mlockall(3) == 0\n"
ROUNDS = """
import gc
x = torch.ones(4)
keep = []
def work():
    for _ in range(40):
        barrier = threading.Barrier(41)
        def run():
            barrier.wait()
            for i in range(5):
                torch.add(x, i)
            barrier.wait()
        threads = [threading.Thread(target=run) for _ in range(40)]
        for thread in threads: thread.start()
        barrier.wait(); barrier.wait()
        for thread in threads: thread.join()
        # The next ones have other stacks.
        for _ in range(40): keep.append(mmap.mmap(-1, (8 << 20) + 4096))
    return 1
expected = 1
"""
MODULES = """
import torch.nn as nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)
    def forward(self, x):
        x = nn.ReLU()(self.l(x))
        x = nn.Softmax(dim=1)(x)
        return nn.Dropout(0.1)(x)
net = Net()
x = torch.ones(4, 8)
def work():
    with torch.no_grad():
        for _ in range(20): net(x)
    return 1
expected = work()
"""
# The child is told by a pipe to end, the parent by its input.
PARENT = """
print(os.getpid(), flush=True)
sys.stdin.readline()
to_child, from_parent = os.pipe()
child = os.fork()
if child == 0:
    os.read(0, 1)
    os._exit(0 if work() == expected else 1)
print(child, flush=True)
"""
LEADER = """
def run():
    while sys.stdin.readline():
        assert work() == expected
        os.write(1, b'whole\\n')
    os._exit(0)
threading.Thread(target=run).start()
print(os.getpid(), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
libc.syscall(60, 0)
"""


class PatchLimitsTest(live.LiveTest):
    def job(self, script: str, *arguments: object) -> PatchJob:
        path = self.directory / "job.py"
        path.write_text(PRELUDE + script)
        return PatchJob(*arguments, script=path)

    def assert_whole(self, job: PatchJob) -> None:
        job.process.stdin.write("\n")
        job.process.stdin.flush()
        self.assertEqual(job.process.stdout.readline(), "whole\n")

    def assert_is_clean(self, pid: int) -> None:
        self.assertEqual((live.changed_text_bytes(pid), patch_regions(pid)), (0, []))

    def tracer(self, job: PatchJob, *arguments: object) -> Tracer:
        return Tracer("-p", job.pid, "-o", self.out, "--tier", "patch", "--format", "events-csv", *arguments)

    @contextlib.contextmanager
    def recorded(self, job: PatchJob) -> Iterator[None]:
        """What the caller looks at while it is recorded comes before a piece of the job's work."""
        with self.tracer(job) as tracer:
            tracer.wait_until_recording()
            yield
            self.assert_whole(job)
            self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assert_is_clean(job.pid)

    def test_a_job_with_little_room_keeps_it(self) -> None:
        with self.job(ROOM + FINISH, 1600) as job:
            with self.recorded(job):
                ring = next(line for line in patch_regions(job.pid) if "proftrace_patch" in line)
                begin, end = (int(word, 16) for word in ring.split()[0].split("-"))
                self.assertLess(end - begin, 400 << 20)
            self.assert_whole(job)
        result = Result(self.out)
        self.assertEqual(sum(row["name"] == "aten::mm" for row in result.events()), 20)

    def test_a_job_with_no_room_is_refused(self) -> None:
        with self.job(ROOM + FINISH, 300) as job:
            self.assert_fails(6, ("-p", job.pid, "-d", "1", "-o", self.out, "--tier", "patch"), "may map 300 MiB more", "ulimit -v")
            self.assert_is_clean(job.pid)
            self.assert_whole(job)

    def test_jumps_go_where_memory_is_free_in_pieces_only(self) -> None:
        with self.job(CROWDED + FINISH, 24) as job:
            with self.recorded(job):
                self.assertGreater(len(patch_regions(job.pid)), 3)
            self.assert_whole(job)
        result = Result(self.out)
        self.assertEqual(sum(row["name"] == "aten::mm" for row in result.events()), 20)
        self.assertEqual(result.summary["cost"]["probe_hits"], 0)
        self.assertGreater(result.summary["cost"]["jumps"], 0)

    def test_places_without_room_have_probes_and_it_is_said(self) -> None:
        with self.job(CROWDED + FINISH, 2) as job:
            with self.recorded(job):
                pass
        result = Result(self.out)
        self.assertEqual(sum(row["name"] == "aten::mm" for row in result.events()), 20)
        self.assertGreater(result.summary["cost"]["probe_hits"], 0)
        self.assertTrue(any(gap["feature"] == "jumps in the job's code" and "no free memory within 2 GiB" in gap["reason"]
                            for gap in result.summary["unsupported"]), result.summary["unsupported"])

    def test_a_job_with_no_free_memory_near_its_code_is_refused(self) -> None:
        with self.job(CROWDED + FINISH, 0) as job:
            self.assert_fails(6, ("-p", job.pid, "-d", "1", "-o", self.out, "--tier", "patch"), "no place in it that a jump can be put at")
            self.assert_is_clean(job.pid)
            self.assert_whole(job)

    def test_a_job_that_locks_all_memory_is_refused(self) -> None:
        with self.job(LOCKED + FINISH) as job:
            def locked() -> int:
                status = Path(f"/proc/{job.pid}/status").read_text()
                return int(status.split("VmLck:")[1].split()[0])
            before = locked()
            self.assert_fails(6, ("-p", job.pid, "-d", "1", "-o", self.out, "--tier", "patch"), "mlockall")
            self.assertLess(locked() - before, 100 << 10)
            self.assert_is_clean(job.pid)
            self.assert_whole(job)

    def test_threads_that_come_and_go_find_room(self) -> None:
        with self.job(ROUNDS + FINISH) as job:
            with self.recorded(job):
                pass
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual(sum(row["name"] == "aten::add" for row in result.events()), 40 * 40 * 5)

    def test_modules_at_one_address_keep_their_classes(self) -> None:
        for options in ((), ("--no-bpf",)):
            with self.subTest(options=options), self.job(MODULES + FINISH) as job:
                with self.tracer(job, "--force", "--with-stack", "--with-modules", *options) as tracer:
                    tracer.wait_until_recording()
                    self.assert_whole(job)
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                rows = collections.Counter((row["name"], row["module_class"].split("_")[0]) for row in Result(self.out).events())
                names = ("aten::linear", "aten::relu", "aten::softmax", "aten::dropout")
                self.assertEqual({key: count for key, count in rows.items() if key[0] in names},
                                 {("aten::linear", "Linear"): 20, ("aten::relu", "ReLU"): 20, ("aten::softmax", "Softmax"): 20,
                                  ("aten::dropout", "Dropout"): 20})

    def test_a_child_of_a_parent_that_has_ended_is_cleaned(self) -> None:
        with self.job(PARENT) as job:
            with self.tracer(job, "--no-follow-children") as tracer:
                tracer.wait_until_recording()
                job.process.stdin.write("\n")
                job.process.stdin.flush()
                child = int(job.process.stdout.readline())
                self.assertEqual(job.process.wait(live.STOP_S), 0)
                self.assertEqual(tracer.wait(), 0, tracer.text())
            self.assertTrue(Path(f"/proc/{child}").exists())
            self.assert_is_clean(child)

    def test_what_a_debugger_keeps_in_is_said_and_goes_with_it(self) -> None:
        with self.job(FINISH) as job:
            with Tracer("-p", job.pid, "-o", self.out, "--tier", "patch", "--format", "none", "-q") as tracer:
                live.wait_until(lambda: bool(patch_regions(job.pid)) and live.changed_text_bytes(job.pid) > 10_000, live.READY_S, "patched")
                with subprocess.Popen(["strace", "-f", "-q", "-o", "/dev/null", "-p", str(job.pid)]) as other:
                    live.wait_until(lambda: "TracerPid:\t0" not in Path(f"/proc/{job.pid}/status").read_text(), live.READY_S, "strace attached")
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                    self.assertRegex(tracer.text(), rf"warning: jumps in the job's code: PID {job.pid} keeps them: thread \d+ may not be stopped: "
                                                    rf"PID {other.pid} traces it .*'proftrace clean -p {job.pid}'")
                    self.assert_whole(job)
                    other.terminate()
            live.wait_until(lambda: not patch_regions(job.pid), 60, "cleaned by the guardian")
            self.assert_is_clean(job.pid)
            self.assert_whole(job)

    def test_the_first_thread_may_end_before_the_others(self) -> None:
        for kill in (False, True):
            gone = self.directory / f"gone{kill}"
            with self.subTest(kill=kill), self.job(LEADER, gone) as job:
                with self.tracer(job, "--force") as tracer:
                    tracer.wait_until_recording()
                    gone.touch()
                    live.wait_until(lambda: Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", live.READY_S, "ended")
                    other = next(int(task) for task in os.listdir(f"/proc/{job.pid}/task") if int(task) != job.pid)
                    self.assertNotEqual(patch_regions(other), [])
                    self.assert_whole(job)
                    if kill:
                        tracer.process.kill()
                        tracer.process.wait()
                    else:
                        self.assertEqual(tracer.stop(), 0, tracer.text())
                live.wait_until(lambda: not patch_regions(other), 30, "cleaned")
                self.assert_is_clean(other)
                self.assert_whole(job)


if __name__ == "__main__":
    live.run()

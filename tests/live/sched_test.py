#!/usr/bin/env python3
"""--activities sched,faults: times off the CPU against the kernel's own counts, and waits of known length where they were
planted."""

from __future__ import annotations

import collections
import csv
import gzip
import json
import os
import re
import resource
import signal
import subprocess
import time
import unittest
from pathlib import Path

import live
from live import LiveTest, Result, Tracer
from system_test import SystemJob

JOB = live.HERE / "sched_job.py"
# The same as in the job, in ns.
SLEEP, LOCK, READ = 30_000_000, 20_000_000, 25_000_000


class SchedJob:
    def __init__(self, *arguments: str) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen([LiveTest.python, str(JOB), *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)
        self.wait_for("READY")
        self.pid = self.process.pid

    def __enter__(self) -> "SchedJob":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def wait_for(self, word: str) -> None:
        line = self.process.stdout.readline()
        assert line.startswith(word), line

    def go(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()


def stolen_ns() -> int:
    """What hosts and interrupts took: the kernel does not count it as a thread's, though it keeps its CPU."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return sum(int(fields[i]) for i in (6, 7, 8)) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


class Kernel:
    """What the kernel counts of each thread (/proc/PID/task/TID)."""

    def __init__(self, pid: int) -> None:
        self.stolen_ns = stolen_ns()
        self.threads = {}
        for task in Path(f"/proc/{pid}/task").iterdir():
            on_ns, queued_ns, _ = map(int, (task / "schedstat").read_text().split())
            now_ns = time.clock_gettime_ns(time.CLOCK_REALTIME)
            status = dict(re.findall(r"(\w+):\s+(\d+)", (task / "status").read_text()))
            self.threads[int(task.name)] = (now_ns, on_ns, queued_ns, int(status["voluntary_ctxt_switches"]),
                                            int(status["nonvoluntary_ctxt_switches"]))


class AgainstSchedstat(LiveTest):
    def test_times_and_switches(self) -> None:
        with SchedJob("threads") as job:
            with Tracer("-p", job.pid, "--activities", "sched", "--format", "events-csv", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                before = Kernel(job.pid)
                time.sleep(4)
                after = Kernel(job.pid)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            job.go()
        result = Result(self.out)
        self.assertEqual(result.ledger["system_lost"], 0)
        rows = collections.defaultdict(list)
        for row in result.events():
            if row["category"] == "sched":
                start = int(row["start_ns"])
                rows[int(row["tid"])].append((start, start + int(row["duration_ns"]), json.loads(row["args"])))
        busy = 0
        stolen = after.stolen_ns - before.stolen_ns
        for tid, (begin, on, queued, voluntary, forced) in before.threads.items():
            end, on_after, queued_after, voluntary_after, forced_after = after.threads[tid]
            inside = lambda low, high: max(0, min(high, end) - max(low, begin))
            off = sum(inside(start, stop) for start, stop, _ in rows[tid])
            waited = sum(inside(stop - args["run_queue_ns"], stop) for _, stop, args in rows[tid])
            left = [args["voluntary"] for start, _, args in rows[tid] if begin <= start < end]
            off_kernel = (end - begin) - (on_after - on)
            # The kernel's figures are not of one moment, nor are ours of the same one.
            self.assertLess(abs(off - off_kernel), 0.01 * (end - begin) + stolen, f"thread {tid}")
            self.assertLess(abs(waited - (queued_after - queued)), 0.01 * (end - begin), f"thread {tid}")
            for ours, theirs in ((sum(left), voluntary_after - voluntary), (len(left) - sum(left), forced_after - forced)):
                self.assertLessEqual(abs(ours - theirs), max(5, 0.01 * theirs), f"thread {tid}")
            busy += len(left) > 200
        self.assertGreaterEqual(busy, 4)


class OpenWaits(LiveTest):
    def test_threads_that_ran_for_a_moment(self) -> None:
        """Each of many threads runs for microseconds, as a stop makes it do, and then waits until after the end."""
        with SchedJob("readers") as job:
            with Tracer("-p", job.pid, "--activities", "sched", "--format", "events-csv", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                threads = {task.name for task in Path(f"/proc/{job.pid}/task").iterdir()}
                os.kill(job.pid, signal.SIGSTOP)
                time.sleep(0.1)
                os.kill(job.pid, signal.SIGCONT)
                time.sleep(1)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            job.go()
        waited = collections.Counter()
        for row in Result(self.out).events():
            if row["category"] == "sched":
                waited[row["tid"]] += int(row["duration_ns"])
        self.assertGreater(len(threads), 100)
        self.assertEqual({tid for tid in threads if waited[tid] < 500_000_000}, set())


def median(values: list[int]) -> int:
    return sorted(values)[len(values) // 2]


class Planted(LiveTest):
    """A wait is in the row that it was planted in, and no other, and as long as it was."""

    def setUp(self) -> None:
        super().setUp()
        with SchedJob("planted") as job:
            with Tracer("-p", job.pid, "--activities", "cpu,syscalls,sched,faults", "--format", "events-csv,csv,table",
                        "-o", self.out) as tracer:
                tracer.wait_until_recording()
                job.go()
                job.wait_for("DONE")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.pid = job.pid
        self.result = Result(self.out)
        self.assert_lossless(self.result)
        self.rows = list(self.result.events())

    def waits(self, path: str) -> list[tuple[int, dict]]:
        return [(int(row["duration_ns"]), json.loads(row["args"])) for row in self.rows
                if row["category"] == "sched" and row["path"].startswith(path) and int(row["duration_ns"]) > 5_000_000]

    def assert_near(self, measured: int, planted: int) -> None:
        # 2 % and 50 us, and what a timer of a busy machine is late by.
        self.assertGreater(measured, 0.98 * planted - 50_000)
        self.assertLess(measured, 1.02 * planted + 50_000 + 1_500_000)

    def test_waits_are_where_they_were_planted(self) -> None:
        for path, reason, planted in (("round/sleep/Sleeper/clock_nanosleep/sleep", "sleep", SLEEP),
                                      ("round/lock/futex/lock", "lock", LOCK),
                                      ("round/read/read/io", "io", READ)):
            # Python's own sleep was select() before 3.11.
            found = self.waits(path)
            if reason == "sleep" and not found:
                found = self.waits("round/sleep/Sleeper/")
            self.assertEqual(len(found), 10, f"{path}: {[row['path'] for row in self.rows if row['category'] == 'sched']}")
            self.assert_near(median([ns for ns, _ in found]), planted)
        # Whoever had the lock, or wrote, is who ended the wait.
        others = {args["waker_tid"] for path in ("round/lock", "round/read") for _, args in self.waits(path)}
        self.assertEqual(len(others), 1)
        self.assertNotIn(self.pid, others)

    def test_times_on_and_off_the_cpu_add_up(self) -> None:
        rows = [row for row in self.rows if row["category"] in ("cpu_op", "user_annotation")]
        self.assertGreater(len(rows), 300)
        for row in rows:
            self.assertEqual(int(row["on_cpu_ns"]) + int(row["off_cpu_ns"]), int(row["duration_ns"]))
        sleeps = [row for row in rows if row["name"] == "sleep"]
        self.assert_near(median([int(row["off_cpu_ns"]) for row in sleeps]), SLEEP)
        computes = [row for row in rows if row["name"] == "aten::mm"]
        self.assertLess(median([int(row["off_cpu_ns"]) for row in computes]), 100_000)
        with (self.out / "key_averages.csv").open(newline="") as stream:
            averages = {row["name"]: row for row in csv.DictReader(stream)}
        self.assert_near(float(averages["Sleeper"]["self_off_cpu_us"]) * 100, SLEEP)
        self.assertLess(float(averages["sleep"]["self_off_cpu_us"]), 0.1 * float(averages["Sleeper"]["self_off_cpu_us"]))
        for row in averages.values():
            self.assertAlmostEqual(float(row["self_on_cpu_us"]) + float(row["self_off_cpu_us"]),
                                   float(row["self_cpu_time_total_us"]), delta=0.01)
        self.assertGreaterEqual(int(averages["read"]["self_syscalls"]), 10)

    def test_where_the_time_went(self) -> None:
        spent = self.result.summary["time"]["uses_us"]
        total = self.result.summary["time"]["total_us"]
        self.assertAlmostEqual(sum(spent.values()), total, delta=1)
        rounds = len(self.result.summary["time"]["steps"]) or 10
        self.assertGreater(spent["lock"], 0.8 * rounds * LOCK / 1000)
        self.assertGreater(spent["io"], 0.8 * rounds * READ / 1000)
        self.assertGreater(spent["other"], 0.8 * rounds * SLEEP / 1000)
        self.assertRegex((self.out / "key_averages.txt").read_text(), r"Time of .*compute [\d.]+ %, data [\d.]+ %, io ")


class Faults(LiveTest):
    def test_as_many_as_the_kernel_counts(self) -> None:
        script = """
import mmap, os, sys
file = open(sys.argv[1], 'w+b'); file.write(b'f' * (1 << 20)); file.flush()
print('READY', flush=True); sys.stdin.readline()
area = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, 4 << 20, 4096): area[at] = 1
mapped = mmap.mmap(file.fileno(), 1 << 20)
total = sum(mapped[at] for at in range(0, 1 << 20, 4096))
print('DONE', flush=True); sys.stdin.readline()
"""
        job = subprocess.Popen(["/usr/bin/python3", "-c", script, str(self.directory / "mapped")],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        job.stdout.readline()

        def counted() -> int:
            fields = Path(f"/proc/{job.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return int(fields[7]) + int(fields[9])  # minflt, majflt

        with Tracer("-p", job.pid, "--activities", "faults", "--format", "events-csv", "-o", self.out) as tracer:
            tracer.wait_until_recording()
            before = counted()
            job.stdin.write("\n")
            job.stdin.flush()
            job.stdout.readline()
            after = counted()
            self.assertEqual(tracer.stop(), 0, tracer.text())
        job.stdin.close()
        job.stdout.close()
        faults = [json.loads(row["args"]) for row in Result(self.out).events() if row["category"] == "fault"]
        self.assertLess(abs(len(faults) - (after - before)), 0.02 * (after - before) + 10)
        self.assertGreater(len([fault for fault in faults if fault["area"] == "anonymous" and fault["write"]]), 0)
        mapped = [fault for fault in faults if fault.get("path", "").endswith("/mapped")]
        self.assertGreaterEqual(len(mapped), 1)
        self.assertEqual({fault["area"] for fault in mapped}, {"file"})
        self.assertTrue(all(0 <= fault["offset"] < 1 << 20 for fault in mapped))


    def test_what_is_read_in_through_a_mapping_is_io(self) -> None:
        script = """
import mmap, os, sys
file = open(sys.argv[1], 'w+b'); file.write(os.urandom(4 << 20)); file.flush(); os.fsync(file.fileno())
os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
def major(): return int(open('/proc/self/stat').read().rpartition(')')[2].split()[9])
print('READY', flush=True); sys.stdin.readline()
before = major()
mapped = mmap.mmap(file.fileno(), 4 << 20); mapped.madvise(mmap.MADV_RANDOM)
total = sum(mapped[at] for at in range(0, 4 << 20, 65536))
print('DONE', major() - before, flush=True); sys.stdin.readline()
"""
        path = self.directory / "mapped"
        job = subprocess.Popen(["/usr/bin/python3", "-c", script, str(path)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        job.stdout.readline()
        with Tracer("-p", job.pid, "--activities", "io", "--format", "events-csv", "-o", self.out) as tracer:
            tracer.wait_until_recording()
            job.stdin.write("\n")
            job.stdin.flush()
            major = int(job.stdout.readline().split()[1])
            self.assertEqual(tracer.stop(), 0, tracer.text())
        job.stdin.close()
        job.stdout.close()
        faults = [row for row in Result(self.out).events() if row["category"] == "fault"]
        self.assertEqual({row["name"] for row in faults} - {"page fault (major)"}, set())
        # None where the file system is in memory.
        self.assertLessEqual(abs(len(faults) - major), 2)
        offsets = [json.loads(row["args"])["offset"] for row in faults
                   if json.loads(row["args"]).get("path") == str(path)]
        self.assertLessEqual(abs(len(offsets) - major), 2)
        self.assertEqual(offsets, sorted(offsets))


class WaitsInFaults(LiveTest):
    """Waits of the first thread of at least 30 ms, in their order: what a page fault is, and what comes after one that fails."""

    SCRIPT = """
import ctypes, fcntl, mmap, os, struct, sys, threading, time
libc = ctypes.CDLL(None)
lock = threading.Lock(); lock.acquire()
_, writer = os.pipe(); zeros = os.open('/dev/zero', 0)
userfaults = libc.syscall(323, os.O_CLOEXEC)
fcntl.ioctl(userfaults, 0xc018aa3f, bytearray(struct.pack('3Q', 0xaa, 0, 0)))  # UFFDIO_API
area = mmap.mmap(-1, 8192); at = ctypes.addressof(ctypes.c_char.from_buffer(area))
fcntl.ioctl(userfaults, 0xc020aa00, bytearray(struct.pack('4Q', at, 8192, 1, 0)))  # UFFDIO_REGISTER
def resolve(page):
    os.read(userfaults, 32); time.sleep(0.3)
    fcntl.ioctl(userfaults, 0xc020aa04, bytearray(struct.pack('4Q', page, 4096, 0, 0)))  # UFFDIO_ZEROPAGE
def late(page): threading.Thread(target=resolve, args=(page,)).start()
print('READY', flush=True); sys.stdin.readline()
libc.write(writer, 8, 10); time.sleep(0.3)
libc.open(ctypes.c_void_p(0), 0); time.sleep(0.3)
libc.open(ctypes.c_void_p(65536), 0); lock.acquire(timeout=0.3)
late(at); libc.memcpy(ctypes.c_char_p(b'x' * 9), ctypes.c_void_p(at), 1)
lock.acquire(timeout=0.3)
late(at + 4096); libc.read(zeros, ctypes.c_void_p(at + 4096), 1)
time.sleep(0.3)
print('DONE', flush=True); sys.stdin.readline()
"""

    def reasons(self, activities: str, *options: str) -> list[str]:
        job = subprocess.Popen(["/usr/bin/python3", "-c", self.SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.addCleanup(job.stdin.close)
        self.addCleanup(job.stdout.close)
        job.stdout.readline()
        out = self.directory / "-".join((activities, *options))
        with Tracer("-p", job.pid, "--activities", activities, *options, "--format", "events-csv", "-o", out) as tracer:
            tracer.wait_until_recording()
            job.stdin.write("\n")
            job.stdin.flush()
            job.stdout.readline()
            self.assertEqual(tracer.stop(), 0, tracer.text())
        waits = [row for row in Result(out).events() if row["category"] == "sched" and row["tid"] == str(job.pid)
                 and int(row["duration_ns"]) > 30_000_000]
        # Not those that wait for this test.
        return [row["name"] for row in waits
                if row["name"] == "fault" or json.loads(row["args"]).get("syscall") != "read"]

    def test_a_fault_that_fails_is_none_of_what_follows(self) -> None:
        planted = ["sleep", "sleep", "lock", "fault", "lock", "fault", "sleep"]
        for activities, options in (("sched,faults", ()), ("syscalls,sched,faults", ()),
                                    ("sched,faults", ("--waker-stacks",))):
            with self.subTest(activities=activities, options=options):
                self.assertEqual(self.reasons(activities, *options), planted)


class WaitsForNoFile(LiveTest):
    """poll(2) and select(2) of no file are sleeps, Python's own before 3.11; also one that a stop breaks off, and one that
    was under way before."""

    SCRIPT = """
import ctypes, os, select, signal, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
idle, _ = os.pipe()
class Time(ctypes.Structure): _fields_ = [('seconds', ctypes.c_long), ('part', ctypes.c_long)]
def run(*calls):
    threads = [threading.Thread(target=call, name=name) for name, call in calls]
    for thread in threads: thread.start(); print(thread.native_id, thread.name, flush=True)
    return threads
early = run(('early sleep', lambda: select.select([], [], [], 3)), ('early poll', lambda: select.select([idle], [], [], 3)))
time.sleep(0.2)
print('READY', flush=True); sys.stdin.readline()
poll = select.poll(); poll.register(idle)
calls = run(('select sleep', lambda: select.select([], [], [], 0.5)), ('select poll', lambda: select.select([idle], [], [], 0.5)),
            ('poll sleep', lambda: libc.poll(None, 0, 500)), ('poll poll', lambda: poll.poll(500)),
            ('ppoll sleep', lambda: libc.ppoll(None, 0, ctypes.byref(Time(0, 500_000_000)), None)),
            ('pselect sleep', lambda: libc.pselect(0, None, None, None, ctypes.byref(Time(0, 500_000_000)), None)))
time.sleep(0.1)
if os.fork() == 0:
    os.kill(os.getppid(), signal.SIGSTOP); time.sleep(0.05); os.kill(os.getppid(), signal.SIGCONT); os._exit(0)
for thread in calls + early: thread.join()
print('DONE', flush=True); sys.stdin.readline()
"""

    def test_they_are_sleeps(self) -> None:
        for activities in ("sched", "syscalls,sched"):
            with self.subTest(activities=activities):
                job = subprocess.Popen([LiveTest.python, "-c", self.SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                for clean_up in (job.wait, job.kill, job.stdin.close, job.stdout.close):
                    self.addCleanup(clean_up)
                lines = list(iter(job.stdout.readline, "READY\n"))
                out = self.directory / activities
                with Tracer("-p", job.pid, "--force", "--activities", activities, "--format", "events-csv", "-o", out) as tracer:
                    tracer.wait_until_recording()
                    job.stdin.write("\n")
                    job.stdin.flush()
                    lines += iter(job.stdout.readline, "DONE\n")
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                names = {tid: name for tid, _, name in (line.rstrip().partition(" ") for line in lines)}
                waits = collections.defaultdict(set)
                for row in Result(out).events():
                    # A part of each is the stop, or comes before it and after it.
                    if row["category"] == "sched" and row["tid"] in names and int(row["duration_ns"]) > 30_000_000:
                        waits[names[row["tid"]]].add(row["name"])
                self.assertEqual(waits, {name: waits[name] & {"stopped"} | {name.split()[1]} for name in names.values()})


class DataLoader(LiveTest):
    def test_which_worker_and_which_read(self) -> None:
        path = self.directory / "data"
        with SchedJob("loader", str(path)) as job:
            with Tracer("-p", job.pid, "--activities", "cpu,syscalls,sched", "--format", "events-csv,data-waits,table",
                        "-o", self.out) as tracer:
                tracer.wait_until_recording()
                job.go()
                job.wait_for("DONE")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        with (self.out / "data_waits.csv").open(newline="") as stream:
            waits = list(csv.DictReader(stream))
        # A worker takes longer than that for a batch; what is shorter may be a machine that is busy.
        batches = [wait for wait in waits if int(wait["blocked_ns"]) > 25_000_000]
        self.assertGreaterEqual(len(waits), 16)
        self.assertGreaterEqual(len(batches), 6)
        blamed = [wait for wait in batches if wait["worker_pid"]]
        self.assertGreaterEqual(len(blamed), 0.8 * len(batches), batches)
        workers = {wait["worker_pid"] for wait in blamed}
        self.assertNotIn(str(job.pid), workers)
        self.assertGreaterEqual(len(workers), 2)
        slow = [wait for wait in blamed if wait["call"] == "read" and wait["path"].startswith("pipe:[")]
        self.assertGreaterEqual(len(slow), 0.6 * len(blamed), blamed)
        self.assertGreater(self.result_time("data"), 0.2)

    def result_time(self, use: str) -> float:
        spent = Result(self.out).summary["time"]
        return spent["uses_us"][use] / spent["total_us"]


class WakerStacks(LiveTest):
    """--waker-stacks: what a thread was in when it woke another one."""

    def wakers(self, least_ns: int, path: str = "") -> list[list[str]]:
        """Of the waits that a thread ended, its stacks, innermost first."""
        rows = [(row, json.loads(row["args"])) for row in Result(self.out).events() if row["category"] == "sched"]
        return [args.get("waker_stack", "").split(" < ") for row, args in rows
                if "waker_tid" in args and int(row["duration_ns"]) > least_ns and row["path"].startswith(path)]

    def report(self) -> list[dict]:
        return json.loads(self.run_proftrace("report", self.out, "--waits", "--json").stdout)["rows"]

    def test_of_a_job_with_pytorch(self) -> None:
        with SchedJob("planted") as job:
            with Tracer("-p", job.pid, "--activities", "cpu,syscalls,sched", "--waker-stacks", "--format",
                        "events-csv,chrome", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                job.go()
                job.wait_for("DONE")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertEqual(Result(self.out).ledger["samples_lost"], 0)
        for path in ("round/lock/futex/lock", "round/read/read/io"):
            stacks = self.wakers(5_000_000, path)
            # On a busy machine a thread may come to its wait just before that ends.
            self.assertIn(len(stacks), (9, 10), path)
            for stack in stacks:
                # Frames of C below Python's: what released the lock, or wrote.
                place = next((i for i, text in enumerate(stack) if text.endswith(": other")), 0)
                self.assertGreater(place, 0, stack)
        trace = json.loads(gzip.open(self.out / "trace.json.gz").read())
        self.assertTrue(any(": other" in event.get("args", {}).get("waker_stack", "")
                            for event in trace["traceEvents"] if event.get("ph") == "X"))
        told = [row for row in self.report() if row["path"] == "round/read" and row["blocked_ns"] > 5_000_000]
        self.assertTrue(told)
        for row in told:
            self.assertTrue(any(text.endswith(": other") for text in row["waker_stack"]), row)

    def test_of_a_program_in_c(self) -> None:
        with SystemJob("futex", 2, 500, self.directory / "files") as job:
            with Tracer("-p", job.pid, "--activities", "sched", "--waker-stacks", "--format", "events-csv", "-o",
                        self.out) as tracer:
                tracer.wait_until_recording()
                job.work()
                self.assertEqual(tracer.stop(), 0, tracer.text())
        stacks = self.wakers(0)
        known = [stack for stack in stacks if "futexes" in stack]
        lost = Result(self.out).ledger["samples_lost"]
        self.assertGreater(len(known), 100)
        self.assertGreaterEqual(len(known) + lost, 0.95 * len(stacks) - 5)
        self.assertTrue(any("futexes" in row.get("waker_stack", []) for row in self.report()))

    def test_needs_the_scheduler(self) -> None:
        result = self.run_proftrace("record", "-p", os.getpid(), "--activities", "syscalls", "--waker-stacks", "-o", self.out)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--waker-stacks needs sched", result.stderr)


if __name__ == "__main__":
    live.run()

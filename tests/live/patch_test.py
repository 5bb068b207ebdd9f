#!/usr/bin/env python3
"""Jumps put into a running job's code and taken out again (userspace/patch): nothing of what the job computes or has may differ, also when the tracer is
killed in the middle, or when somebody else's probes are on the same functions."""

from __future__ import annotations

import ctypes
import os
import random
import re
import signal
import struct
import subprocess
import time
import unittest
from pathlib import Path

import live

TOOL = Path(os.environ.get("PROFTRACE_PATCH_TOOL", live.BINARY.parent / "patch_tool"))
JOB = live.HERE / "patch_job.py"
THREADS = 4
CYCLES = 6
KILLS = 8
LONG = 1_000_000
libc = ctypes.CDLL(None, use_errno=True)


class PatchJob:
    def __init__(self, *arguments: object, prefix: tuple[str, ...] = (), script: Path = JOB) -> None:
        variables = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen([*prefix, live.LiveTest.python, str(script), *map(str, arguments)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=variables, start_new_session=True)
        self.pid = int(self.process.stdout.readline())

    def __enter__(self) -> PatchJob:
        return self

    def __exit__(self, *unused: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()

    def result(self) -> tuple[int, str]:
        """Of one that ends, or is held until now: exit status, and what it printed."""
        self.process.stdin.close()
        text = self.process.stdout.read().strip()
        return self.process.wait(), text


def clean(pid: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TOOL, "clean", "-p", str(pid)], capture_output=True, text=True, timeout=60)


def patch(pid: int, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TOOL, str(pid), *map(str, arguments)], capture_output=True, text=True, timeout=240)


def files(pid: int) -> int:
    """Descriptors, but for pipes of children and the files of modules that the job imports: those come and go."""
    count = 0
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            link = os.readlink(entry)
        except FileNotFoundError:
            continue
        count += link.startswith("/memfd:") or not link.startswith(("pipe:", "/"))
    return count


def patch_regions(pid: int) -> list[str]:
    """What of a patched process's memory is ours: the ring, and code that belongs to no file."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return [line for line in lines if "proftrace_patch" in line or (" r-xp 00000000 00:00 0" in line and "[" not in line)]


def file_offset(path: str, symbol: str) -> int:
    """Where in the file the code of an exported function is."""
    found = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    address = int(re.search(rf"^([0-9a-f]+) \S {symbol}$", found, re.M)[1], 16)
    with open(path, "rb") as file:
        header = file.read(64)
        start, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
        file.seek(start)
        segments = file.read(size * count)
    for at in range(0, size * count, size):
        kind, _, offset, virtual, _, in_file = struct.unpack_from("<IIQQQQ", segments, at)
        if kind == 1 and virtual <= address < virtual + in_file:
            return address - virtual + offset
    raise AssertionError(symbol)


class ForeignProbe:
    """A uprobe of perf_event_open(2), as perf itself has them: in one process, and one event a thread of it."""

    SYS_PERF_EVENT_OPEN = 298

    def __init__(self, pid: int, library: str, offset: int) -> None:
        self.pid, self.offset, self.events = pid, offset, []
        self.path = ctypes.create_string_buffer(library.encode())

    def __enter__(self) -> ForeignProbe:
        return self

    def put_in(self) -> None:
        kind = int(Path("/sys/bus/event_source/devices/uprobe/type").read_text())
        # struct perf_event_attr: type, size, ..., config1 = uprobe_path, config2 = probe_offset.
        attributes = struct.pack("<II48xQQ", kind, 128, ctypes.addressof(self.path), self.offset).ljust(128, b"\0")
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            event = libc.syscall(self.SYS_PERF_EVENT_OPEN, attributes, int(thread), -1, -1, 8)  # PERF_FLAG_FD_CLOEXEC
            if event >= 0:  # else the thread has ended
                self.events.append(event)

    def hits(self) -> int:
        return sum(struct.unpack("<Q", os.read(event, 8))[0] for event in self.events)

    def __exit__(self, *unused: object) -> None:
        for event in self.events:
            os.close(event)


class PatchTest(live.LiveTest):
    def check_counts(self, run: subprocess.CompletedProcess[str]) -> int:
        """Each cycle went well and lost nothing, and what began has ended, but for what was open at the edges."""
        self.assertEqual(run.returncode, 0, run.stderr)
        cycles = re.findall(r"jumps (\d+) refused (\d+);.* lost (\d+) abandoned (\d+) damages (\d+); (.*)", run.stdout)
        self.assertTrue(cycles)
        for jumps, refused, lost, abandoned, damages, status in cycles:
            self.assertGreater(int(jumps), 5000)
            self.assertEqual((refused, lost, abandoned, damages, status), ("0", "0", "0", "0", "OK"))
        operators = re.findall(r"^(aten::\S+) (\d+) (\d+)$", run.stdout, re.M)
        begins = sum(int(begin) for _, begin, _ in operators)
        ends = sum(int(end) for _, _, end in operators)
        # torch.mm() throws inside of one call: it begins and does not end. The rest is open at the edges of a cycle.
        thrown = {name: int(begin) - int(end) for name, begin, end in operators if int(begin) != int(end)}
        self.assertLess(abs(begins - ends - thrown.get("aten::mm", 0)), 40 * len(cycles))
        return begins

    def test_results_and_memory_are_as_before(self) -> None:
        with PatchJob(THREADS, 60) as job:
            expected = job.result()
        self.assertEqual(expected[0], 0)
        with PatchJob("held", THREADS, 60) as job:
            run = patch(job.pid, 0.1, CYCLES)
            self.assertGreater(self.check_counts(run), 1000)
            self.assertEqual(job.result(), expected)

    def test_nothing_is_left(self) -> None:
        with PatchJob(THREADS, LONG) as job:
            self.check_counts(patch(job.pid, 0.1, 1))
            before = live.changed_text_bytes(job.pid), patch_regions(job.pid), files(job.pid)
            self.assertEqual(before[:2], (0, []))
            for _ in range(3):
                self.check_counts(patch(job.pid, 0.2, 1))
                self.assertEqual((live.changed_text_bytes(job.pid), patch_regions(job.pid), files(job.pid)), before)
            self.assertIsNone(job.process.poll())

    def test_a_killed_tracer(self) -> None:
        with PatchJob(THREADS, LONG) as job:
            self.check_counts(patch(job.pid, 0.1, 1))
            fds = files(job.pid)
            cleaned = 0
            draw = random.Random(8)
            for _ in range(KILLS):
                tool = subprocess.Popen([TOOL, str(job.pid), "100"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                # Kills shortly after the ring is there hit the writing of trampolines and jumps.
                live.wait_until(lambda: bool(patch_regions(job.pid)), 60, "patched")
                time.sleep(draw.choice((0, 0.01, 0.1, 0.3)))
                tool.kill()
                tool.wait()
                time.sleep(0.02)
                self.assertIsNone(job.process.poll())
                other = clean(job.pid)
                self.assertEqual(other.returncode, 0, other.stdout + other.stderr)
                cleaned += other.stdout == "cleaned\n"
                self.assertEqual((live.changed_text_bytes(job.pid), files(job.pid), patch_regions(job.pid)), (0, fds, []))
            self.assertEqual(cleaned, KILLS)
            self.check_counts(patch(job.pid, 0.2, 1))

    def test_two_tracers(self) -> None:
        with PatchJob(2, LONG) as job:
            first = subprocess.Popen([TOOL, str(job.pid), "4"], stdout=subprocess.PIPE, text=True)
            live.wait_until(lambda: bool(patch_regions(job.pid)), 60, "patched")
            second = clean(job.pid)
            self.assertEqual(second.returncode, 1)
            self.assertIn(f"PID {job.pid} is being patched by proftrace PID {first.pid}", second.stdout)
            second = patch(job.pid, 0.1)
            self.assertIn(f"PID {job.pid} is being patched by proftrace PID {first.pid}", second.stderr)
            output, _ = first.communicate(timeout=60)
            self.assertEqual(first.returncode, 0)
            self.assertIn("; OK", output)

    def test_a_job_that_ends_meanwhile(self) -> None:
        with PatchJob(2, LONG) as job:
            tool = subprocess.Popen([TOOL, str(job.pid), "3"], stdout=subprocess.PIPE, text=True)
            live.wait_until(lambda: bool(patch_regions(job.pid)), 60, "patched")
            time.sleep(0.5)
            os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
            output, _ = tool.communicate(timeout=60)
            self.assertIn("; OK", output)

    def test_probes_of_others(self) -> None:
        with PatchJob(2, LONG) as job:
            maps = Path(f"/proc/{job.pid}/maps").read_text()
            library = re.search(r"\S*libtorch_cpu\.so\S*$", maps, re.M)[0]
            offset = file_offset(library, "_ZN2at4_ops5addmm4callERKNS_6TensorES4_S4_RKN3c106ScalarES8_")
            live.wait_until(lambda: len(os.listdir(f"/proc/{job.pid}/task")) > 2, 60, "threads that train")
            # There before, and put in while the jumps are there; both times until after they are gone.
            for is_there_before in (True, False):
                with ForeignProbe(job.pid, library, offset) as foreign:
                    if is_there_before:
                        foreign.put_in()
                    tool = subprocess.Popen([TOOL, str(job.pid), "2"], stdout=subprocess.PIPE, text=True)
                    live.wait_until(lambda: bool(patch_regions(job.pid)), 60, "patched")
                    time.sleep(0.5)
                    if not is_there_before:
                        foreign.put_in()
                    during = foreign.hits()
                    output, _ = tool.communicate(timeout=60)
                    self.assertIn("; OK", output)
                    self.assertIn("aten::addmm", output)
                    after = foreign.hits()
                    self.assertGreater(after, during)
                    time.sleep(0.5)
                    self.assertGreater(foreign.hits(), after)
                self.assertIsNone(job.process.poll())
            self.assertEqual(live.changed_text_bytes(job.pid), 0)


if __name__ == "__main__":
    live.run()
    unittest.main(verbosity=2)

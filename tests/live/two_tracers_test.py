#!/usr/bin/env python3
"""Jumps in one job while probes of the kernel come and go in another job with the same libtorch, and while tracers and their guardians
are killed: after each cycle the code of both jobs is their files'. A number as argument: so many cycles."""

from __future__ import annotations

import collections
import contextlib
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

import live
from live import BINARY, Job, LiveTest, Tracer

CYCLES = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 8
TRACING = Path("/sys/kernel/tracing")
DISTANCE_AT = 1


def code_mappings(pid: int) -> Iterator[tuple[int, int, int, str]]:
    """Begin, end, offset in the file and path of each mapping of a file's code."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if "x" in fields[1] and fields[4] != "0":
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            yield begin, end, int(fields[2], 16), fields[5]


def differences(pid: int) -> list[tuple[int, int, str]]:
    """Address, file offset and path of each byte of code that is not its file's, by the pages that the process has made its own."""
    found = []
    with open(f"/proc/{pid}/pagemap", "rb", 0) as pagemap, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for begin, end, offset, path in code_mappings(pid):
            pagemap.seek(begin // 4096 * 8)
            entries = struct.unpack(f"<{(end - begin) // 4096}Q", pagemap.read((end - begin) // 4096 * 8))
            with open(f"/proc/{pid}/map_files/{begin:x}-{end:x}", "rb", 0) as file:
                for number, entry in enumerate(entries):
                    if entry >> 62 == 0 or entry >> 61 & 1:
                        continue
                    at = begin + number * 4096
                    memory.seek(at)
                    now, original = memory.read(4096), os.pread(file.fileno(), 4096, offset + number * 4096)
                    found += [(at + i, offset + number * 4096 + i, path) for i in range(len(original)) if now[i] != original[i]]
    return found


def jumps_of(pid: int) -> list[tuple[int, str, bytes]]:
    """File offset, path and bytes of each jump that is there."""
    jumps, last = [], 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for address, offset, path in differences(pid):
            if address < last + 5:
                continue
            memory.seek(address)
            now = memory.read(5)
            if now[0] == 0xE9:
                jumps.append((offset, path, now))
                last = address
    return jumps


def tell_tracing(line: str) -> None:
    file = os.open(TRACING / "uprobe_events", os.O_WRONLY | os.O_APPEND)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


@contextlib.contextmanager
def foreign_uprobe(path: str, offset: int, name: str) -> Iterator[None]:
    """As perf and bpftrace set them: in every process that maps the file."""
    tell_tracing(f"p:two_tracers/{name} {path}:0x{offset:x}\n")
    enable = TRACING / "events/two_tracers" / name / "enable"
    try:
        enable.write_text("1")
        yield
    finally:
        enable.write_text("0")
        tell_tracing(f"-:two_tracers/{name}\n")


@contextlib.contextmanager
def perf_probe(path: str, symbol: str, name: str) -> Iterator[None]:
    def perf(*arguments: str) -> None:
        subprocess.run(["perf", "probe", "-q", *arguments], check=True, capture_output=True, timeout=60)

    perf("-x", path, "--no-demangle", "-a", f"{name}={symbol}")
    watching = subprocess.Popen(["perf", "stat", "-a", "-e", f"*:{name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        watching.terminate()
        watching.wait(30)
        perf("-d", f"*:{name}")


@contextlib.contextmanager
def bpftrace_probe(path: str, symbol: str) -> Iterator[None]:
    program = f"uprobe:{path}:{symbol} {{ @=count(); }} BEGIN {{ printf(\"attached\\n\"); }}"
    watching = subprocess.Popen(["bpftrace", "-e", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        while watching.stdout.readline() not in ("attached\n", ""):
            pass
        yield
    finally:
        watching.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            watching.communicate(timeout=10)
        watching.kill()  # its probes go with it
        watching.communicate()


def guardians_of(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if Path(f"/proc/{child}/comm").read_text().startswith("proftrace-guard")]


def kill(*pids: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class TwoTracersTest(LiveTest):
    def new_directory(self) -> str:
        return tempfile.mkdtemp(dir=self.cycles)

    def test_no_distance_of_a_jump_looks_like_a_breakpoint(self) -> None:
        with Job() as job, Tracer("-p", job.pid, "-o", self.out, "--tier", "patch", "--format", "none") as tracer:
            tracer.wait_until_recording()
            jumps = jumps_of(job.pid)
            self.assertGreater(len(jumps), 1000)
            wrong = [(hex(offset), path, now.hex()) for offset, path, now in jumps if {0xCC, 0xCD} & set(now[DISTANCE_AT:])]
            self.assertEqual(wrong, [])
            self.assertEqual(tracer.stop(), 0, tracer.text())

    def test_torn_jumps_are_put_back_or_told(self) -> None:
        with Job() as job, Tracer("-p", job.pid, "-o", self.out, "--tier", "patch", "--format", "none") as tracer:
            tracer.wait_until_recording()
            torn = jumps_of(job.pid)[::50]
            places = {(offset, path) for offset, path, _ in torn}
            by_place = {(offset, path): address for address, offset, path in differences(job.pid) if (offset, path) in places}
            # As the kernel does where it takes a byte for its own; the job waits meanwhile.
            with open(f"/proc/{job.pid}/mem", "r+b", 0) as memory:
                for number, (offset, path, _) in enumerate(torn):
                    address = by_place[offset, path]
                    at = 1 + number % 4
                    with open(path, "rb") as file:
                        original = os.pread(file.fileno(), 5, offset)
                    memory.seek(address + at)
                    memory.write(original[at:at + 1])
            self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(differences(job.pid), [])
            self.assert_same_results(job.do("steps 3"))

    def test_code_that_no_jump_explains_is_told(self) -> None:
        with Job() as job:
            begin = next(mapping for mapping in code_mappings(job.pid) if "libtorch_cpu" in mapping[3])[0]
            with open(f"/proc/{job.pid}/mem", "r+b", 0) as memory:
                memory.seek(begin + 0x1000)
                original = memory.read(5)
                memory.seek(begin + 0x1000)
                memory.write(bytes([0xE9, 0x36, 0x79, 0xC1, original[4] ^ 0x55]))
                for command in ("clean", "doctor"):
                    done = self.run_proftrace(command, "-p", job.pid)
                    self.assertEqual(done.returncode, 6, done.stdout + done.stderr)
                    self.assertRegex(done.stderr, f"the code of PID {job.pid} differs from its files at 1 place .*restart it")
                memory.seek(begin + 0x1000)
                memory.write(original)
            for command in ("clean", "doctor"):
                done = self.run_proftrace(command, "-p", job.pid)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def one_cycle(self, number: int, jobs: tuple[Job, Job], chance: random.Random) -> None:
        patched, probed = jobs if number % 2 == 0 else jobs[::-1]
        with Tracer("-p", patched.pid, "-o", self.new_directory(), "--tier", "patch", "--format", "none") as jumping:
            jumping.wait_until_recording()
            jumps = jumps_of(patched.pid) if number % 10 == 0 else []
            self.assertFalse([now.hex() for _, _, now in jumps if 0xCC in now[DISTANCE_AT:]])
            with contextlib.ExitStack() as stack:
                kind = chance.choice(("none", "tracefs", *(tool for tool in ("perf", "bpftrace") if shutil.which(tool))))
                self.foreign[kind] += 1
                if kind == "tracefs":
                    stack.enter_context(foreign_uprobe(*self.entry, f"entry{number}"))
                elif kind == "perf":
                    stack.enter_context(perf_probe(self.entry[0], self.symbol, f"entry{number}"))
                elif kind == "bpftrace":
                    stack.enter_context(bpftrace_probe(self.entry[0], self.symbol))
                if chance.random() < 0.7:
                    with Tracer("-p", probed.pid, "-o", self.new_directory(), "--tier", "bpf", "--format", "none") as probing:
                        probing.wait_until_recording()
                        if chance.random() < 0.3:
                            kill(*chance.sample([*guardians_of(probing.process.pid), probing.process.pid], 1))
                        else:
                            probing.stop()
                how = chance.choice(("stop", "tracer", "guardian first", "tracer first"))
                guardians = guardians_of(jumping.process.pid)
                if how == "stop":
                    jumping.stop()
                elif how == "tracer":
                    kill(jumping.process.pid)
                elif how == "guardian first":
                    kill(*guardians, jumping.process.pid)
                else:
                    kill(jumping.process.pid, *guardians)
        for job in jobs:
            subprocess.run([BINARY, "clean", "-p", str(job.pid)], capture_output=True, check=False, timeout=60)

    def differing(self, job: Job) -> list[tuple[int, int, str]]:
        # Probes that a killed tracer had go with it, a moment later.
        end = time.monotonic() + 20
        while time.monotonic() < end and differences(job.pid):
            time.sleep(0.05)
        return differences(job.pid)

    def test_the_code_is_the_files_after_every_cycle(self) -> None:
        chance = random.Random(20261128)
        with tempfile.TemporaryDirectory() as self.cycles, Job() as first, Job() as second:
            _, _, _, path = next(mapping for mapping in code_mappings(first.pid) if "libtorch_cpu" in mapping[3])
            self.symbol, offset = entry_of(path, "_ZN2at4_ops2mm4call")
            self.entry = (path, offset)
            self.foreign: collections.Counter[str] = collections.Counter()
            for job in (first, second):
                job.tell("loop")
            for number in range(CYCLES):
                self.one_cycle(number, (first, second), chance)
                for job in (first, second):
                    self.assertIsNone(job.process.poll(), f"cycle {number}")
                    self.assertEqual(self.differing(job), [], f"cycle {number}")
            print(f"\n{CYCLES} cycles, foreign probes: {dict(self.foreign)}", file=sys.stderr)
            for job in (first, second):
                job.finish_loop()
                self.assert_same_results(job.do("steps 3"))


def entry_of(path: str, prefix: str) -> tuple[str, int]:
    """Name and file offset of an exported function whose name begins so."""
    for line in subprocess.run(["readelf", "-W", "--dyn-syms", path], capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()
        if len(fields) > 7 and fields[7].startswith(prefix):
            symbol, address = fields[7].split("@")[0], int(fields[1], 16)
            break
    else:
        raise AssertionError(prefix)
    for line in subprocess.run(["readelf", "-W", "-l", path], capture_output=True, text=True, check=True).stdout.splitlines():
        fields = line.split()
        if fields[:1] == ["LOAD"] and int(fields[2], 16) <= address < int(fields[2], 16) + int(fields[4], 16):
            return symbol, address - int(fields[2], 16) + int(fields[1], 16)
    raise AssertionError(hex(address))


if __name__ == "__main__":
    live.run()
    unittest.main(verbosity=2)

#!/usr/bin/env python3
"""--tier patch --with-stack in processes whose Python ends while threads of theirs read their own frames. The first argument may be
how many: python_end_test.py 2000."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import time
import unittest
from pathlib import Path

os.environ.setdefault("PROFTRACE_LIVE_TIER", "patch")

import live  # noqa: E402
from live import HERE, Job, Tracer  # noqa: E402

SCRIPT = HERE / "python_end_job.py"
ENDS = int(sys.argv.pop(1)) if sys.argv[1:] and sys.argv[1].isdigit() else 24
AT_ONCE, THREADS = 4, 2
MOST_AT_A_TIME = 200  # a recording keeps what it has of each


PTRACE_CONT, PTRACE_GETREGS, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 7, 12, 17, 0x4206, 0x4207
WALL = 0x40000000
NANOSLEEPS = ("35", "230")
HELD_S = 1.0  # Python's end waits for two seconds
FS_BASE = 21  # in struct user_regs_struct
# bpf/abi/patch_memory.h
HEADER_BYTES, SLOTS, SLOT_BYTES, SLOT_STACKS = 4096, 512, 128, 80
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request: int, tid: int, data: object = None) -> None:
    if _libc.ptrace(request, tid, None, data) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


class HeldReader:
    """A thread that stands still in the middle of reading its frames. Leaving the context lets it go."""

    def __init__(self, pid: int, tid: int) -> None:
        self.pid, self.tid = pid, tid
        ptrace(PTRACE_SEIZE, tid)
        live.wait_until(self.stops_reading, live.WORK_S, "a thread that reads its frames")

    def stops_reading(self) -> bool:
        ptrace(PTRACE_INTERRUPT, self.tid)
        os.waitpid(self.tid, WALL)
        registers = (ctypes.c_uint64 * 32)()
        ptrace(PTRACE_GETREGS, self.tid, ctypes.byref(registers))
        if self.is_busy(registers[FS_BASE]):
            return True
        ptrace(PTRACE_CONT, self.tid)
        return False

    def is_busy(self, owner: int) -> bool:
        maps = Path(f"/proc/{self.pid}/maps").read_text(encoding="utf-8").splitlines()
        ring = int(next(line for line in maps if "/memfd:proftrace_patch" in line).split("-")[0], 16)
        with open(f"/proc/{self.pid}/mem", "rb") as memory:
            memory.seek(ring + HEADER_BYTES)
            table = memory.read(SLOTS * SLOT_BYTES)
            for slot in range(0, len(table), SLOT_BYTES):
                if struct.unpack_from("Q", table, slot)[0] == owner:
                    memory.seek(struct.unpack_from("Q", table, slot + SLOT_STACKS)[0])
                    return bool(struct.unpack("Q", memory.read(8))[0])
        return False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        ptrace(PTRACE_DETACH, self.tid)


class PythonEndTest(live.LiveTest):
    def test_python_ends_when_a_thread_has_read_its_frames(self) -> None:
        with Job(script=SCRIPT) as job:
            job.do("thread")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "none", "--with-stack") as tracer:
                tracer.wait_until_recording()
                tid = next(tid for tid in map(int, os.listdir(f"/proc/{job.pid}/task")) if tid != job.pid)
                with HeldReader(job.pid, tid):
                    job.tell("end")
                    end = time.monotonic() + HELD_S
                    while time.monotonic() < end:
                        self.assertFalse(self.is_behind_python(job.pid), "it has given up what a thread of it reads")
                        time.sleep(0.01)
                self.assertEqual(job.process.wait(live.WORK_S), 1)
                self.assertEqual(tracer.wait(), 0, tracer.text())

    def is_behind_python(self, pid: int) -> bool:
        """Its first thread sleeps, as it does then, and not for a line on stdin."""
        return Path(f"/proc/{pid}/task/{pid}/syscall").read_text(encoding="utf-8").split()[0] in NANOSLEEPS

    def test_python_ends_beside_threads_that_read(self) -> None:
        seen = 0
        with Job(script=SCRIPT) as job:
            while seen < ENDS:
                count = min(MOST_AT_A_TIME, ENDS - seen)
                out = self.out.with_name(f"ends_{seen}")
                with Tracer("-p", job.pid, "-o", out, "--format", "none", "--with-stack") as tracer:
                    tracer.wait_until_recording()
                    job.tell(f"ends {count} {AT_ONCE} {THREADS}")
                    codes = job.lines.wait(r"^DONE (.*)", 2.0 * count + live.WORK_S).group(1)
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                self.assertEqual(codes, f"1={count}", f"after {seen}")
                seen += count


if __name__ == "__main__":
    live.run()

"""A job that runs the code of libtorch_cpu from somewhere else than its file, as programs do that want their text in huge pages.

DISPLACE: `whole` or `part` (the middle third) as anonymous memory, `memfd` (the middle third, shared), `writable` (all of it is made
writable in place), or `nothing`. On stdin: `operators N` runs N multiplications, `busy SECONDS` works without PyTorch, `displace HOW`
does later what DISPLACE does at the begin."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import time
from pathlib import Path

import torch

PAGE = mmap.PAGESIZE
FIXED, MAY_MOVE, FAILED = 0x10, 3, ctypes.c_void_p(-1).value
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
READ, WRITE, EXECUTE = mmap.PROT_READ, mmap.PROT_WRITE, mmap.PROT_EXEC


def check(result: int | None) -> None:
    if result in (FAILED, -1):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def code_of(library: str) -> tuple[int, int, bytes]:
    """The address and the size of its executable mapping, and what the file has there."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if library in fields[-1] and "x" in fields[1]:
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            with open(fields[-1], "rb") as file:
                return begin, end - begin, os.pread(file.fileno(), end - begin, int(fields[2], 16))
    raise LookupError(library)


def displace(how: str) -> None:
    begin, size, code = code_of("/libtorch_cpu.so")
    if how == "nothing":
        return
    if how == "writable":
        check(libc.mprotect(begin, size, READ | WRITE | EXECUTE))
        return
    if how != "whole":
        third = size // 3 // PAGE * PAGE
        begin, size, code = begin + third, third, code[third:2 * third]
    if how == "memfd":
        memory = os.memfd_create("text")
        os.truncate(memory, size)
        os.pwrite(memory, code, 0)
        check(libc.mmap(begin, size, READ | EXECUTE, mmap.MAP_SHARED | FIXED, memory, 0))
        return
    copy = libc.mmap(None, size, READ | WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    check(copy)
    ctypes.memmove(copy, code, size)  # the memory may have probes by now
    check(libc.mprotect(copy, size, READ | EXECUTE))
    check(libc.mremap(copy, size, size, MAY_MOVE, begin))


def main() -> None:
    torch.set_num_threads(1)
    a, b = torch.ones(8, 8), torch.ones(8, 8)
    torch.mm(a, b).relu()
    displace(os.environ.get("DISPLACE", "nothing"))
    print("READY", os.getpid(), flush=True)
    for line in sys.stdin:
        what, number = line.split()
        if what == "operators":
            for _ in range(int(number)):
                torch.mm(a, b).relu()
        elif what == "displace":
            displace(number)
        elif what == "busy":
            end = time.process_time() + float(number)
            while time.process_time() < end:
                pass
        print("DONE", f"sum={float(torch.mm(a, b).sum()):g}" if what == "operators" else "", flush=True)


if __name__ == "__main__":
    main()

"""Its Python ends while daemon threads of its call operators. Commands on stdin: "thread" starts such a thread, "end" ends;
"ends N AT_ONCE THREADS" forks children that do both. A child waits until it is recorded, if its parent is.

A process ends by Py_FinalizeEx, and a second behind that: destructors of libraries, which end beside threads that use them, are none of
Python's business. Its exit code is 1.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import time

import torch

_libc = ctypes.CDLL(None)
LIMIT_S = 10.0
DEPTH = 40


@torch.jit.script
def neg_forever(value: torch.Tensor) -> torch.Tensor:
    for _ in range(1000000000):
        value = torch.neg(value)
    return value


def ring() -> str:
    """Which memory proftrace has in this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return "".join(re.findall(r"(\d+) +/memfd:proftrace_patch", maps.read()))


def end_behind_python() -> None:
    """What is registered last is called first, with the exit code."""
    _libc.on_exit(_libc._exit, None)
    _libc.on_exit(_libc.sleep, None)


def call_operators(depth: int) -> None:
    if depth:
        call_operators(depth - 1)
    else:
        neg_forever(torch.ones(2))


def run_child(inherited: str, threads: int) -> None:
    for _ in range(threads):
        threading.Thread(target=call_operators, args=(DEPTH,), daemon=True).start()
    end = time.monotonic() + LIMIT_S
    while inherited and ring() in (inherited, "") and time.monotonic() < end:
        time.sleep(0.001)
    if inherited and ring() == inherited:
        os._exit(77)
    time.sleep(0.005 * (os.getpid() % 4))
    sys.exit(1)


def main() -> None:
    print(f"READY {os.getpid()}", flush=True)
    end_behind_python()
    for line in sys.stdin:
        if line.split()[0] == "thread":
            threading.Thread(target=call_operators, args=(DEPTH,), daemon=True).start()
            print("DONE ok=1", flush=True)
            continue
        if line.split()[0] == "end":
            sys.exit(1)
        _, count, at_once, threads = line.split()
        left, running = int(count), 0
        codes: dict[int, int] = {}
        inherited = ring()
        while left or running:
            if left and running < int(at_once):
                if os.fork() == 0:
                    run_child(inherited, int(threads))
                left, running = left - 1, running + 1
                continue
            status = os.waitstatus_to_exitcode(os.wait()[1])
            codes[status] = codes.get(status, 0) + 1
            running -= 1
        print("DONE", *(f"{code}={number}" for code, number in sorted(codes.items())), flush=True)


if __name__ == "__main__":
    main()

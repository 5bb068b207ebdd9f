#!/usr/bin/env python3
"""Threads that have a state in two interpreters, or lie behind thousands of others: `READY PID`.

Lines of stdin: "sub main", "sub thread": makes a subinterpreter on the first thread, or on one that ends; "threads N": so many more
wait; "work": calls an operator from three functions, on the first thread and on another one. Each prints `DONE`, the last one how
many times."""

from __future__ import annotations

import os
import sys
import threading

import torch

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

TIMES = 30
run_string = getattr(interpreters, "run_string", None) or interpreters.exec
made = []
stop = threading.Event()


def innermost(a: torch.Tensor) -> torch.Tensor:
    return torch.mm(a, a)


def outermost(a: torch.Tensor) -> None:
    for _ in range(TIMES):
        with torch.autograd.profiler.record_function("mark"):
            innermost(a)


def make() -> None:
    made.append(interpreters.create())
    run_string(made[-1], "def inside(): pass\ninside()")


def on_a_thread(function, *arguments) -> None:
    thread = threading.Thread(target=function, args=arguments)
    thread.start()
    thread.join()


def main() -> None:
    a = torch.ones(8, 8)
    outermost(a)
    threading.stack_size(64 << 10)
    print("READY", os.getpid(), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words == ["sub", "main"]:
            make()
        elif words == ["sub", "thread"]:
            on_a_thread(make)
        elif words[0] == "threads":
            for _ in range(int(words[1])):
                threading.Thread(target=stop.wait, daemon=True).start()
        else:
            outermost(a)
            on_a_thread(outermost, a)
        print(f"DONE times={2 * TIMES}", flush=True)
    stop.set()


if __name__ == "__main__":
    main()

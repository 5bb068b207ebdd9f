"""Calls tiny operators beside larger ones, and counts its calls itself. Commands on stdin, one a line:

    start [THREADS]   DONE started=1; loops until `stop`, in so many threads (1)
    stop              DONE add=… mul=… mm=… linear=…: the calls since `start`
    fork              DONE pid=…; a child that loops until `join`, from half a second on
    join              DONE add=… mul=… mm=… linear=…: the child's calls; it has ended
"""

from __future__ import annotations

import os
import sys
import threading
import time

import torch

torch.set_num_threads(1)
TINY = 40


class Loop(threading.Thread):
    """`add` and `mul` are leaves that take no time; `mm` is a leaf that takes its time; `linear` calls others."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.is_over = False
        self.rounds = 0

    def run(self) -> None:
        small, out = torch.ones(4), torch.empty(4)
        large, product = torch.ones(64, 64), torch.empty(64, 64)
        weight, bias = torch.ones(8, 64), torch.ones(8)
        while not self.is_over:
            for _ in range(TINY):
                torch.add(small, small, out=out)
            for _ in range(TINY // 2):
                torch.mul(small, small, out=out)
            torch.mm(large, large, out=product)
            torch.nn.functional.linear(large, weight, bias)
            self.rounds += 1


def counts_of(loops: list[Loop]) -> str:
    for loop in loops:
        loop.is_over = True
    for loop in loops:
        loop.join()
    rounds = sum(loop.rounds for loop in loops)
    return f"add={rounds * TINY} mul={rounds * (TINY // 2)} mm={rounds} linear={rounds}"


class Child:
    def __init__(self) -> None:
        self.end_reader, end = os.pipe()
        reader, counts = os.pipe()
        self.end, self.counts = end, reader
        self.pid = os.fork()
        if self.pid == 0:
            os.close(end)
            time.sleep(0.5)
            loop = Loop()
            loop.start()
            os.read(self.end_reader, 1)
            os.write(counts, counts_of([loop]).encode())
            time.sleep(0.5)
            os._exit(0)
        os.close(counts)

    def join(self) -> str:
        os.close(self.end)
        text = os.read(self.counts, 1000).decode()
        os.waitpid(self.pid, 0)
        return text


def main() -> None:
    torch.set_grad_enabled(False)
    child: Child | None = None
    print(f"READY {os.getpid()}", flush=True)
    loops: list[Loop] = []
    for line in sys.stdin:
        command, *words = line.split()
        if command == "start":
            loops = [Loop() for _ in range(int(words[0]) if words else 1)]
            for loop in loops:
                loop.start()
            print("DONE started=1", flush=True)
        elif command == "stop":
            print(f"DONE {counts_of(loops)}", flush=True)
        elif command == "fork":
            child = Child()
            print(f"DONE pid={child.pid}", flush=True)
        elif command == "join" and child is not None:
            print(f"DONE {child.join()}", flush=True)


if __name__ == "__main__":
    main()

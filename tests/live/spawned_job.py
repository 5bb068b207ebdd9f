#!/usr/bin/env python3
"""Children that run PyTorch long before anybody attaches, started in many ways: `READY PID` when all are there.

Lines of stdin: "work" lets each child run its rows, and prints `DONE children=PID:KIND,...`; "load" spawns one more, which loads
PyTorch and works until it is killed, and prints `DONE pid=PID` when it works. As `spawned_job.py KIND` it is a child."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

ROWS = 40
# What the child is started with; "forked": by a spawned one, which does nothing else.
KINDS = {
    "spawned": [],
    "shell": ["sh", "-c", '"$@"; exit 0', "sh"],
    "twice": ["sh", "-c", 'timeout 300 "$@"; exit 0', "sh"],
    "fixed": ["setarch", "-R"],
    "forked": [],
}


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def rows(kind: str) -> None:
    a = torch.ones(8, 8)
    for _ in range(ROWS):
        with torch.autograd.profiler.record_function(kind):
            torch.mm(a, a)


def child(kind: str) -> None:
    torch.set_num_threads(1)
    if kind == "forked" and os.fork() != 0:
        os.wait()
        return
    say(str(os.getpid()))
    while kind == "late" or sys.stdin.readline() == "work\n":
        rows(kind)
        if kind != "late":
            say("worked")


class Child:
    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.process = subprocess.Popen([*KINDS.get(kind, []), sys.executable, __file__, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None and self.process.stdout is not None
        self.to, self.answers = self.process.stdin, self.process.stdout

    def work(self) -> None:
        self.to.write(b"work\n")
        self.to.flush()
        assert self.answers.readline() == b"worked\n"


def main() -> None:
    children = [Child(kind) for kind in KINDS]
    pids = [int(one.answers.readline()) for one in children]
    torch.ones(1)
    say(f"READY {os.getpid()}")
    late = []
    for line in sys.stdin:
        if line == "work\n":
            for one in children:
                one.work()
            say("DONE children=" + ",".join(f"{pid}:{one.kind}" for pid, one in zip(pids, children)))
        else:
            late.append(Child("late"))
            say(f"DONE pid={int(late[-1].answers.readline())}")
    for one in [*children, *late]:
        one.to.close()
        if one.kind == "late":
            one.process.kill()
        one.process.wait()


if __name__ == "__main__":
    child(sys.argv[1]) if len(sys.argv) > 1 else main()

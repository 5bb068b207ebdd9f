"""What a workload is: something with warm-up, steps and a state that can be summed up."""

from __future__ import annotations

import hashlib
import sys
from typing import Iterable

import torch


class Workload:
    """One training job. Subclasses override step() and tensors(), and the rest where they need it.

    warm_up() runs before the tracer attaches, before_window() after it and before torch.profiler starts, run() between
    the two markers, finish() after torch.profiler has stopped.
    """

    threads_have_profiles = False  # run() starts threads that have markers of their own

    def __init__(self, context: "Context") -> None:
        self.context = context

    @staticmethod
    def missing() -> str:
        """Why this PyTorch cannot run it, or cannot judge it; empty where it can."""
        return ""

    def warm_up(self) -> None:
        for _ in range(3):
            self.step()

    def before_window(self) -> None:
        """Runs after `go`, outside the window."""

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        """Runs after the window: ends workers."""

    def tensors(self) -> Iterable[torch.Tensor]:
        """What the checksum covers: the weights, or the results so far."""
        raise NotImplementedError


class Context:
    """What a workload may ask of the job around it."""

    def __init__(self, out: str, profiled: bool, seed: int, steps: int, handshake: bool) -> None:
        self.out = out
        self.profiled = profiled  # torch.profiler runs inside the job
        self.seed = seed
        self.steps = steps
        self.handshake = handshake  # a runner answers on stdin

    def announce_children(self, pids: list[int]) -> None:
        """Tells the runner of new processes and waits until it says that they are recorded."""
        if self.handshake:
            say("FORKED " + " ".join(map(str, pids)))
            wait_for_go()


def say(line: str) -> None:
    print(line, flush=True)


def wait_for_go() -> None:
    line = sys.stdin.readline()
    if line.strip() != "go":
        raise SystemExit(f"expected the line 'go', got {line!r}")


def checksum(tensors: Iterable[torch.Tensor]) -> str:
    """The sum of the values, and a digest of their bits: equal only where every bit is."""
    total = 0.0
    digest = hashlib.sha256()
    for tensor in tensors:
        values = tensor.detach().cpu().to(torch.float64).contiguous()
        total += float(values.sum())
        digest.update(values.numpy().tobytes())
    return f"{total:.12g} {digest.hexdigest()[:16]}"

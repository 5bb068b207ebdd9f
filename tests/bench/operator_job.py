"""operator_job.py THREADS: loops of tiny operators on so many threads. Each line of the standard input, "KIND BATCHES [profiler]", is answered with the fastest
batch of the first thread and its fastest tenth's slowest, in nanoseconds an operator. "profiler" may be "shapes" or "stacks": with record_shapes, or with_stack."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import torch

ROUNDS = 50


def plain(values: list[torch.Tensor]) -> int:
    one, other, _ = values
    for _ in range(ROUNDS):
        one.add_(other)
        one.mul_(other)
        one.neg_()
        one.copy_(other)
    return 4 * ROUNDS


def gradients(values: list[torch.Tensor]) -> int:
    _, other, leaf = values
    for _ in range(ROUNDS):
        leaf.mul(other)
        leaf.add(other)
    return 2 * ROUNDS


def deep(values: list[torch.Tensor], frames: int = 32) -> int:
    """plain(), so many calls of Python further in."""
    return deep(values, frames - 1) if frames else plain(values)


def measure(work, batches: int) -> tuple[float, float]:
    values = [torch.ones(4), torch.ones(4), torch.ones(4, requires_grad=True)]
    times = []
    for _ in range(batches):
        begin = time.perf_counter_ns()
        operators = work(values)
        times.append((time.perf_counter_ns() - begin) / operators)
    times.sort()
    return times[0], times[len(times) // 10]


def main() -> None:
    torch.set_num_threads(1)
    kinds = {"plain": plain, "gradients": gradients, "deep": deep}
    for work in kinds.values():
        measure(work, 200)
    print("READY", flush=True)
    for line in sys.stdin:
        kind, batches, *profiled = line.split()
        others = [threading.Thread(target=measure, args=(kinds[kind], int(batches))) for _ in range(int(sys.argv[1]) - 1)]
        for thread in others:
            thread.start()
        # torch.profiler records the thread that it is started on.
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, record_shapes="shapes" in profiled, with_stack="stacks" in profiled) if profiled else contextlib.nullcontext():
            result = measure(kinds[kind], int(batches))
        for thread in others:
            thread.join()
        print(*result, flush=True)


if __name__ == "__main__":
    main()

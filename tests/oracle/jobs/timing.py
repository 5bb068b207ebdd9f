"""Step times on demand: `run N` and `profile N` on stdin, one JSON line each on stdout."""

from __future__ import annotations

import json
import statistics
import time
from typing import IO, Any

import torch

from workload import Workload, say


def serve(workload: Workload, commands: IO[str]) -> None:
    """Answers until the input ends or says `quit`."""
    for line in commands:
        words = line.split()
        if words[:1] == ["quit"]:
            break
        if len(words) != 2 or words[0] not in ("run", "profile", "memory", "shapes", "stacks", "count") or not words[1].isdigit():
            raise SystemExit(f"expected 'run N', 'profile N', 'memory N', 'shapes N', 'stacks N', 'count N' or 'quit', got {line!r}")
        say(json.dumps(answer(workload, words[0], int(words[1]))))


def answer(workload: Workload, command: str, steps: int) -> dict[str, Any]:
    if command == "run":
        return measured(workload, steps)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=command == "memory",
                                record_shapes=command == "shapes", with_stack=command == "stacks") as profiler:
        workload.step()
        result = measured(workload, steps)
    if command == "count":
        tree = profiler.profiler.kineto_results.experimental_event_tree()
        return {"operators_per_step": count(tree) / (steps + 1)}
    return result


def measured(workload: Workload, steps: int) -> dict[str, Any]:
    """Wall time of each step, and the CPU time of this thread, in microseconds."""
    times = []
    cpu = time.thread_time_ns()
    for _ in range(steps):
        start = time.perf_counter_ns()
        workload.step()
        times.append(time.perf_counter_ns() - start)
    cpu = time.thread_time_ns() - cpu
    return {
        "steps": steps, "median_us": statistics.median(times) / 1e3, "mean_us": statistics.fmean(times) / 1e3,
        "p99_us": sorted(times)[int(0.99 * (len(times) - 1))] / 1e3, "cpu_us": cpu / 1e3 / steps, "times_us": [time_ns / 1e3 for time_ns in times]}


def count(events: list) -> int:
    total = 0
    stack = list(events)
    while stack:
        event = stack.pop()
        total += 1
        stack.extend(event.children)
    return total

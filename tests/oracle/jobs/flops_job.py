#!/usr/bin/env python3
"""Calls operators that torch has a formula for under torch.profiler (with_flops=True), and others: flops_job.py OUT_FILE

Prints `READY PID`, waits for a line, writes {name: flops} of key_averages() and of all rows, and its table's column, prints `DONE`, and
ends with stdin.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import torch
import torch.nn.functional as F
from torch import randn as t
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)


@torch.jit.script
def left_on_the_stack(a: torch.Tensor, b: torch.Tensor):
    """The interpreter's stack has numbers and lists below an operator's own arguments."""
    numbers = (2.5 * a.dim(), (a + b) * (b + 1))
    tensors = (len([a * 2, b]), [a * 3, b + 1], a + 2, (a * 2 + 1).mm(b.t() * 2) * (a + b).mm((b + 1).t()))
    return numbers, tensors


def step(linear: torch.nn.Module) -> None:
    image, weight = t(2, 4, 9, 8), t(6, 4, 3, 2)
    F.conv2d(image, weight, padding=1, stride=2, dilation=(1, 2))
    F.conv2d(image, t(6, 2, 3, 2), groups=2)
    F.conv2d(image, t(6, 4, 3, 3), padding="same")  # another overload's arguments: torch gives none
    F.conv2d(t(4, 9, 8), weight)
    F.conv1d(t(2, 4, 9), t(6, 4, 3))
    torch.addmm(t(5), t(3, 4) @ t(4, 4), t(4, 5))
    torch.baddbmm(t(2, 3, 5), t(2, 3, 4), torch.bmm(t(2, 4, 4), t(2, 4, 5)))
    torch.mm(t(0, 4), t(4, 5)) + torch.mm(t(0, 0), t(0, 5))
    for other in (t(4), t(3, 4), t(()), 2.0):
        t(3, 4) * other + other
    torch.arange(6) * 2
    t(4) * t(3, 4)
    left_on_the_stack(t(3, 4), t(3, 4))
    linear(t(5, 7)).square().sum().backward()


def main() -> None:
    linear = torch.nn.Linear(7, 9)
    step(linear)
    print(f"READY {os.getpid()}", flush=True)
    sys.stdin.readline()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as profiler:
        for _ in range(5):
            step(linear)
    averages = profiler.key_averages()
    header = next(line for line in averages.table().splitlines() if "# of Calls" in line)
    rows: Counter[str] = Counter()
    for event in profiler.profiler.kineto_results.events():
        rows[event.name()] += event.flops()
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump({"flops": {row.key: row.flops for row in averages}, "rows": +rows, "column": header.split("  ")[-2].strip()}, file)
    print("DONE", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

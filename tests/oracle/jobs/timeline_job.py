#!/usr/bin/env python3
"""Trains under torch.profiler with all that its memory timeline needs, and exports that: timeline_job.py OUT_FILE

Prints `READY PID`, waits for a line, prints `DONE` or `NONE` (a torch without export_memory_timeline), and ends with stdin.
"""

from __future__ import annotations

import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)


def main() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))

    def step() -> None:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    step()
    print(f"READY {os.getpid()}", flush=True)
    sys.stdin.readline()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as profiler:
        for _ in range(5):
            step()
            torch.ones(3)
    if hasattr(profiler, "export_memory_timeline"):
        profiler.export_memory_timeline(sys.argv[1], device="cpu")
    print("DONE" if hasattr(profiler, "export_memory_timeline") else "NONE", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

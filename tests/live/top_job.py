#!/usr/bin/env python3
"""A training loop for the live view's tests: steps of 20 ms in which 30 matrices are multiplied, a file is read, and an annotation
with a hostile name is opened. It ends when its stdin does."""

from __future__ import annotations

import os
import sys
import threading
import time

import torch
from torch.autograd.profiler import record_function

MULTIPLICATIONS = 30
HOSTILE = "evil \x1b]2;owned\x07\x1b[2J\x9b5n\r\n\u202e模型"


def main() -> None:
    torch.set_num_threads(1)
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    weight = torch.nn.Parameter(torch.rand(16, 16))
    optimizer = torch.optim.SGD([weight], lr=1e-9)

    def multiply_all(data: torch.Tensor) -> torch.Tensor:
        for _ in range(MULTIPLICATIONS):
            data = torch.mm(data, weight)
        return data

    def step() -> None:
        optimizer.zero_grad()
        with open(__file__, "rb", buffering=0) as file:
            file.read(512)
        with torch.no_grad(), record_function(HOSTILE):
            multiply_all(torch.rand(16, 16))
        time.sleep(0.015)
        (weight * 2).sum().backward()
        optimizer.step()

    step()
    print(f"READY {os.getpid()}", flush=True)
    while not is_over.is_set():
        step()


if __name__ == "__main__":
    main()

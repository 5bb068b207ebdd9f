#!/usr/bin/env python3
"""A job whose cost is compared (told_cost.py): does steps for ever, and prints about every 50 ms the time, the CPU time that it has used, and its steps.

    told_cost_job.py KIND
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Callable

import torch

THREADS = 3


def training(width: int, batch: int) -> Callable[[], None]:
    model = torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.ReLU(), torch.nn.Linear(2 * width, 4))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        loss = model(torch.randn(batch, width)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def tiny() -> Callable[[], None]:
    values = torch.zeros(4)

    def step() -> None:
        for _ in range(50):
            values.add_(1).mul_(0.5)

    return step


def inference() -> Callable[[], None]:
    model = torch.nn.Sequential(*[layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64))])
    values = torch.randn(16, 64)

    def step() -> None:
        with torch.no_grad():
            model(values)

    return step


def transformer() -> Callable[[], None]:
    model = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    optimizer = torch.optim.Adam(model.parameters(), 0.001)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(4, 16, 64)).pow(2).mean().backward()
        optimizer.step()

    return step


def matmul() -> Callable[[], None]:
    left, right = torch.randn(160, 160), torch.randn(160, 160)

    def step() -> None:
        for _ in range(4):
            torch.relu(left @ right)

    return step


def hot() -> Callable[[], None]:
    """Leaves that take no time beside a product that takes some: a budget can be kept here."""
    small, out = torch.ones(4), torch.empty(4)
    large, product = torch.ones(64, 64), torch.empty(64, 64)

    def step() -> None:
        for _ in range(40):
            torch.add(small, small, out=out)
        for _ in range(4):
            torch.mm(large, large, out=product)

    return step


KINDS: dict[str, Callable[[], Callable[[], None]]] = {
    "mlp": lambda: training(32, 8), "wide": lambda: training(128, 32), "tiny": tiny, "inference": inference,
    "transformer": transformer, "matmul": matmul, "hot": hot, "threads": lambda: training(32, 8),
}


def main() -> int:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    kind = sys.argv[1]
    steps = [0] * (THREADS if kind == "threads" else 1)

    def work(number: int) -> None:
        step = KINDS[kind]()
        while True:
            step()
            steps[number] += 1

    for number in range(1, len(steps)):
        threading.Thread(target=work, args=(number,), daemon=True).start()
    step = KINDS[kind]()
    while True:
        until = time.monotonic() + 0.05
        while time.monotonic() < until:
            step()
            steps[0] += 1
        print(f"{time.time():.4f} {time.process_time():.6f} {sum(steps)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

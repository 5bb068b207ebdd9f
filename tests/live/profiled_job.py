"""Prints its PID; at a line on stdin trains under torch.profiler and prints how often torch saw each operator, as JSON."""

import json
import os
import sys

import torch


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters())
    train(model, optimizer, 2)
    with torch.profiler.profile():
        train(model, optimizer, 1)
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    with torch.profiler.profile() as profile:
        train(model, optimizer, 50)
    print(json.dumps({row.key: row.count for row in profile.key_averages()}), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

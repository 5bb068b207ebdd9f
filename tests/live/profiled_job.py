"""Prints its PID; at a line on stdin trains under torch.profiler and prints how often torch saw each operator, as JSON."""

import json
import os
import sys
from collections import Counter

import torch


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def counts(profile: torch.profiler.profile) -> Counter:
    """What key_averages() counts, by torch's own tree. key_averages() makes a tree from times in us, where a short operator may lie
    within its neighbour of the same name, and is then left out as its only child."""
    names = {row.key for row in profile.key_averages()}
    found: Counter = Counter()
    nodes = [(None, profile.profiler.kineto_results.experimental_event_tree())]
    while nodes:
        name, children = nodes.pop()
        rows = [child for child in children if child.name in names]
        if [row.name for row in rows] != [name]:
            found.update(row.name for row in rows)
        nodes += [(child.name, child.children) for child in children]
    return found


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
    print(json.dumps(counts(profile)), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()

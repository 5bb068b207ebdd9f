"""A job that trains on a GPU: KIND STEPS [PROFILE]. Prints `READY PID` after its warm-up, waits for a line, trains, and prints
`DONE SECONDS_A_STEP LOSS`; with PROFILE (a file) torch.profiler records the steps and writes its trace there.

Kinds: mlp, transformer, streams (work on three streams), graphs (a CUDA graph is replayed), copies (every kind of copy), oom (an
allocation that is refused in each step).
"""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Callable

import torch

DEVICE = torch.device("cuda")


def trainer(model: torch.nn.Module, data: torch.Tensor) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> torch.Tensor:
        with torch.autograd.profiler.record_function("step"):
            optimizer.zero_grad()
            loss = (model(data) - data).square().mean()
            loss.backward()
            optimizer.step()
        return loss

    return step


def mlp() -> Callable[[], torch.Tensor]:
    layers = [torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)]
    return trainer(torch.nn.Sequential(*layers).to(DEVICE), torch.randn(256, 512, device=DEVICE))


def transformer() -> Callable[[], torch.Tensor]:
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return trainer(torch.nn.TransformerEncoder(layer, 2).to(DEVICE), torch.randn(16, 64, 256, device=DEVICE))


def streams() -> Callable[[], torch.Tensor]:
    others = [torch.cuda.Stream() for _ in range(3)]
    value = torch.randn(1024, 1024, device=DEVICE)

    def step() -> torch.Tensor:
        results = []
        for stream in others:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                results.append((value @ value).relu())
        for stream in others:
            torch.cuda.current_stream().wait_stream(stream)
        return torch.stack(results).mean()

    return step


def graphs() -> Callable[[], torch.Tensor]:
    value = torch.randn(512, 512, device=DEVICE)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        (value @ value).relu().mean()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (value @ value).relu().mean()

    def step() -> torch.Tensor:
        graph.replay()
        return result

    return step


def copies() -> Callable[[], torch.Tensor]:
    pageable, pinned = torch.randn(1 << 20), torch.randn(1 << 20).pin_memory()

    def step() -> torch.Tensor:
        here = pageable.to(DEVICE) + pinned.to(DEVICE, non_blocking=True)
        there = torch.empty_like(here)
        there.copy_(here)
        there.zero_()
        pinned.copy_(there, non_blocking=True)
        return there.cpu().mean() + here.mean()

    return step


def oom() -> Callable[[], torch.Tensor]:
    value = torch.randn(512, 512, device=DEVICE)

    def step() -> torch.Tensor:
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
        except torch.OutOfMemoryError:
            return (value @ value).mean()
        raise SystemExit("a petabyte was allocated")

    return step


KINDS = {"mlp": mlp, "transformer": transformer, "streams": streams, "graphs": graphs, "copies": copies, "oom": oom}


def main(kinds: dict[str, Callable[[], Callable[[], torch.Tensor]]]) -> None:
    kind, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    step = kinds[kind]()
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    print("READY", os.getpid(), flush=True)
    profiler = None
    if len(sys.argv) > 3:
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        profiler = torch.profiler.profile(activities=activities)
        profiler.__enter__()
    while True:
        # Operators on the CPU: the job comes by a safe point while it waits.
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            torch.ones(1).add(1)
        line = sys.stdin.readline()
        if not line:
            return
        begin = time.monotonic()
        for _ in range(steps):
            loss = step()
        torch.cuda.synchronize()
        seconds = (time.monotonic() - begin) / steps
        if profiler is not None:
            profiler.__exit__(None, None, None)
            profiler.export_chrome_trace(sys.argv[3])
        print(f"DONE {seconds:.9f} {loss.item()!r}", flush=True)
        if line.strip() == "last" or profiler is not None:
            return


if __name__ == "__main__":
    main(KINDS)

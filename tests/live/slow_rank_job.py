#!/usr/bin/env python3
"""One rank of a gloo job: `slow_rank_job.py DIRECTORY CAUSE` trains until DIRECTORY/stop is there. CAUSE says what is wrong with it:
`busy`: rank 1 works for 60 ms of processor time in the backward pass; `loader`: rank 2's DataLoader sleeps; `competing`: all ranks work, and
rank 3 has a processor to itself and processes that never sleep; `file`: rank 0 writes a file and waits for the disk; `nothing`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import torch
from torch import distributed, nn

BUSY_RANK, BUSY_S = 1, 0.06
LOADER_RANK, LOADER_S = 2, 0.08
COMPETING_RANK, COMPETITORS, COMPETED_S = 3, 12, 0.02
FILE_RANK, FILE_WRITES = 0, 3
BYTES = bytes(4 << 20)


class Samples(torch.utils.data.Dataset):
    def __init__(self, sleep_s: float) -> None:
        self.sleep_s = sleep_s

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(self.sleep_s)
        return torch.randn(64), torch.randn(64)


def work_for(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:  # a system call, which is not to be what takes the time
        for _ in range(50_000):
            pass


def work(gradient: torch.Tensor) -> torch.Tensor:
    work_for(BUSY_S)
    return gradient


def compete(rank: int) -> list[subprocess.Popen[bytes]]:
    """Puts the rank that is held up on the last processor, with the processes, and all others on the rest."""
    cpus = sorted(os.sched_getaffinity(0))
    held_up = rank == COMPETING_RANK
    os.sched_setaffinity(0, cpus[-1:] if held_up else cpus[:-1] or cpus)
    return [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(COMPETITORS)] if held_up else []


def write_slowly(path: str) -> None:
    with open(path, "wb", buffering=0) as file:
        for _ in range(FILE_WRITES):
            file.write(BYTES)
            os.fsync(file.fileno())


def main() -> None:
    directory, cause = sys.argv[1:]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    sleep_s = LOADER_S if cause == "loader" and rank == LOADER_RANK else 0.0
    batches = iter(torch.utils.data.DataLoader(Samples(sleep_s), batch_size=1, num_workers=1))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    competitors = compete(rank) if cause == "competing" else []
    stop = torch.zeros(1)
    while stop.item() == 0:
        inputs, targets = next(batches)
        optimizer.zero_grad()
        outputs = model(inputs)
        if cause == "busy" and rank == BUSY_RANK:
            outputs.register_hook(work)
        ((outputs - targets) ** 2).mean().backward()
        optimizer.step()
        if cause == "competing":
            work_for(COMPETED_S)
        if cause == "file" and rank == FILE_RANK:
            write_slowly(f"{directory}/checkpoint")
        time.sleep(0.02)
        open(f"{directory}/ready{rank}.{os.getpid()}", "w").close()
        # All ranks stop in the same step.
        stop[0] = float(os.path.exists(f"{directory}/stop")) if rank == 0 else 0.0
        distributed.all_reduce(stop)
    for competitor in competitors:
        competitor.send_signal(signal.SIGKILL)
        competitor.wait()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""One rank of a gloo job without torch.profiler: `shifted_job.py DIRECTORY RANK WORLD_SIZE STEPS`. It waits for DIRECTORY/go when
it is ready, makes its steps, in which rank 3 is late, and waits for DIRECTORY/end."""

from __future__ import annotations

import os
import sys
import time

import torch
from torch import distributed

LATE_RANK, LATE_S = 3, 0.015


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.02)


def main() -> None:
    directory, rank, world_size, steps = sys.argv[1], *map(int, sys.argv[2:])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world_size)
    value = torch.ones(64)
    distributed.all_reduce(value)
    open(f"{directory}/ready{rank}.{os.getpid()}", "w").close()
    wait_for(f"{directory}/go")
    for step in range(steps):
        torch.mm(torch.ones(32, 32), torch.ones(32, 32))
        if rank == LATE_RANK:
            with torch.autograd.profiler.record_function("be_late"):
                time.sleep(LATE_S)
        time.sleep(0.001 * (step * 7 % 5))  # no two steps in a row are alike
        distributed.all_reduce(value)
        distributed.broadcast(value, src=step % world_size)
        distributed.all_reduce(value[:8])
    open(f"{directory}/done{rank}", "w").close()
    wait_for(f"{directory}/end")
    distributed.barrier()


if __name__ == "__main__":
    main()

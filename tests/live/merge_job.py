#!/usr/bin/env python3
"""One rank of a gloo job under torchrun: `merge_job.py DIRECTORY STEPS` makes STEPS steps with all-reduces, a broadcast and a
barrier, in which rank 1 is late, and writes torch.profiler's trace of them to DIRECTORY/rankN.json. Where DIRECTORY/wait
exists, it waits for DIRECTORY/go before that."""

from __future__ import annotations

import os
import sys
import time

import torch
from torch import distributed

LATE_RANK, LATE_S = 1, 0.012


def be_late() -> None:
    time.sleep(LATE_S)


def main() -> None:
    directory, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    value = torch.ones(64)
    distributed.all_reduce(value)
    open(f"{directory}/ready{rank}.{os.getpid()}", "w").close()
    if os.path.exists(f"{directory}/wait"):
        while not os.path.exists(f"{directory}/go"):
            time.sleep(0.01)
    distributed.barrier()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        for step in range(steps):
            with torch.profiler.record_function(f"ProfilerStep#{step}"):
                torch.mm(torch.ones(64, 64), torch.ones(64, 64))
                if rank == LATE_RANK:
                    with torch.profiler.record_function("be_late"):
                        be_late()
                time.sleep(0.001 * (step % 3))  # no two steps in a row are alike
                distributed.all_reduce(value)
                distributed.broadcast(value, src=0)
                distributed.all_reduce(value[:8])
    distributed.barrier()
    profiler.export_chrome_trace(f"{directory}/rank{rank}.json")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

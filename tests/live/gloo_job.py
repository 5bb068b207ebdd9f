#!/usr/bin/env python3
"""One rank of a gloo job: `gloo_job.py DIRECTORY RANK WORLD_SIZE`. Groups of all ranks, of the even ones and of neighbours;
DDP, collectives of several kinds, messages. It waits for DIRECTORY/go after it is ready, and writes what torch itself knows of
its collectives: the entries of PyTorch's own flight recorder (2.11), or the groups' names and members."""

from __future__ import annotations

import json
import os
import sys
import time

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)


def train(model: torch.nn.Module) -> None:
    model(torch.ones(4, 32)).sum().backward()


def run(rank: int, world_size: int, groups: list, model: torch.nn.Module) -> None:
    value = torch.ones(16)
    for _ in range(3):
        train(model)
        distributed.all_reduce(value)
        distributed.broadcast(value[:4], src=1)
        distributed.all_gather([torch.ones(8) for _ in range(world_size)], torch.ones(8))
        for members, group in groups:
            if rank in members:
                distributed.all_reduce(torch.ones(len(members)), group=group)
                distributed.broadcast(torch.ones(2, dtype=torch.float64), src=members[0], group=group)
        if rank % 2 == 0 and rank + 1 < world_size:
            distributed.send(torch.ones(3), rank + 1)
        elif rank % 2 == 1:
            distributed.recv(torch.ones(3), rank - 1)
        distributed.barrier()


def flight_entries() -> list | None:
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    return json.loads(dump())["entries"] if dump is not None else None


def main() -> None:
    directory, rank, world_size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=world_size)
    groups = []
    for members in ([r for r in range(world_size) if r % 2 == 0], list(range(min(2, world_size))), list(range(world_size))):
        groups.append((members, distributed.new_group(members)))
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.Linear(32, 8)))
    distributed.all_reduce(torch.ones(1))
    before = len(flight_entries() or [])
    open(f"{directory}/ready{rank}.{os.getpid()}", "w").close()
    wait_for(f"{directory}/go")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        run(rank, world_size, groups, model)
    profiler.export_chrome_trace(f"{directory}/torch{rank}.json")
    entries = flight_entries()
    with open(f"{directory}/facts{rank}.json", "w") as stream:
        json.dump({"entries": entries[before:] if entries is not None else None}, stream)
    wait_for(f"{directory}/end")
    distributed.barrier()


if __name__ == "__main__":
    main()

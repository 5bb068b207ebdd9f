"""Two ranks on gloo that record themselves with torch.profiler: gloo_trace.py OUTPUT writes OUTPUT_0.json, OUTPUT_1.json."""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile


def run(rank: int, output: str, port: int) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
    both = dist.new_group([0, 1])
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=True, profile_memory=True) as profiler:
        for _ in range(3):
            model(torch.randn(4, 8)).sum().backward()
            tensor = torch.ones(5)
            dist.all_reduce(tensor)
            dist.all_reduce(tensor, group=both)
            dist.broadcast(tensor, 0)
            dist.barrier()
            if rank == 0:
                dist.send(tensor, 1)
            else:
                dist.recv(tensor, 0)
            dist.all_gather([torch.empty(5) for _ in range(2)], tensor)
            profiler.step()
    profiler.export_chrome_trace(f"{output}_{rank}.json")


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        PORT = free.getsockname()[1]
    mp.spawn(run, args=(sys.argv[1], PORT), nprocs=2)

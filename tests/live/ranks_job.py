#!/usr/bin/env python3
"""One rank of a gloo job: `ranks_job.py MEETING RANK SIZE` without anything in the environment, or under torchrun without
arguments. It prints `READY PID` and what torch says of its groups as JSON, works until stdin ends, or for two seconds.
Where PROFTRACE_RANKS_GO names a file, it waits until that is there and makes ROUNDS rounds of work with a backward."""

from __future__ import annotations

import inspect
import json
import os
import sys
import threading
import time

import torch
from torch import distributed


ROUNDS = 20


def say(line: str) -> None:
    """In one write: another rank may have the same pipe."""
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def work_as_told(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.01)
    weight = torch.ones(4, 4, requires_grad=True)
    for _ in range(ROUNDS):
        with torch.autograd.profiler.record_function("work"):
            torch.mm(weight, weight).sum().backward()
            distributed.all_reduce(weight.grad)
        weight.grad = None
        time.sleep(0.1)  # groups are read while the process lives


def described() -> dict[str, object]:
    """torch.profiler's own distributedInfo."""
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    if hasattr(profile, "_get_distributed_info"):
        return profile._get_distributed_info()
    return {"backend": distributed.get_backend(), "rank": distributed.get_rank(),
            "world_size": distributed.get_world_size()}


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        meeting, rank, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
        distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    else:
        distributed.init_process_group("gloo")
    size = distributed.get_world_size()
    named = "group_desc" in inspect.signature(distributed.new_group).parameters
    groups = [distributed.new_group([rank], **({"group_desc": "alone"} if named else {})) for rank in range(size)]
    value = torch.ones(3)
    distributed.all_reduce(value)
    say(f"READY {os.getpid()}")
    say(f"SAYS {json.dumps(described())}")
    if go := os.environ.get("PROFTRACE_RANKS_GO"):
        work_as_told(go)
        distributed.destroy_process_group()
        return
    done = threading.Event()
    if len(sys.argv) > 1:
        threading.Thread(target=lambda: (os.read(0, 1), done.set()), daemon=True).start()
    end = time.monotonic() + (2 if len(sys.argv) == 1 else 60)
    while time.monotonic() < end:
        # All ranks end in the same round.
        flag = torch.tensor([float(done.is_set())])
        distributed.all_reduce(flag)
        torch.mm(torch.ones(4, 4), torch.ones(4, 4))
        time.sleep(0.005)
        if flag.item():
            break
    del groups
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()

"""DistributedDataParallel over gloo with two ranks on one host: this process and one that it spawns."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from typing import Any, Iterable

import torch
from torch import distributed, nn
from torch.nn import functional

import profiles
from workload import Context, Workload

RANKS = 2


class Rank:
    """What each of both processes does."""

    def __init__(self, rank: int, meeting: str) -> None:
        torch.manual_seed(7)
        torch.set_num_threads(1)
        distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
        self.rank = rank
        model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
        self.model = nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05)
        self.inputs = torch.randn(6, 8) + rank
        self.total = torch.zeros(3)

    def step(self) -> None:
        self.optimizer.zero_grad()
        functional.mse_loss(self.model(self.inputs), torch.ones(6, 4)).backward()
        self.optimizer.step()
        self.collectives()

    def collectives(self) -> None:
        value = torch.full((3,), float(self.rank + 1))
        distributed.all_reduce(value)
        self.total += value
        pieces = [torch.zeros(3) for _ in range(RANKS)]
        distributed.all_gather(pieces, value)
        distributed.broadcast(value, src=0)
        work = distributed.all_reduce(value, async_op=True)
        self.total += value.new_ones(3)
        work.wait()
        distributed.reduce(value, dst=0)
        distributed.barrier()
        if self.rank == 0:
            distributed.send(value, dst=1)
        else:
            distributed.recv(value, src=0)
        distributed.scatter(value, [torch.ones(3), torch.ones(3) * 2] if self.rank == 0 else None, src=0)
        distributed.gather(value, [torch.zeros(3) for _ in range(RANKS)] if self.rank == 0 else None, dst=0)


def second_rank(meeting: str, out: str, profiled: bool, steps: int, released: Any) -> None:
    rank = Rank(1, meeting)
    for _ in range(2):
        rank.step()
    released.wait()
    profile = profiles.Profile(out, all_threads=False) if profiled else None
    if profile is not None:
        profile.start()
    with profiles.markers():
        for _ in range(steps):
            rank.step()
    if profile is not None:
        profile.stop()
    distributed.barrier()
    distributed.destroy_process_group()


class Distributed(Workload):
    @staticmethod
    def missing() -> str:
        if not torch.profiler.kineto_available():
            return "torch.profiler without Kineto does not tell which rows are of which thread"
        if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 6):
            return "this torch.profiler does not see the operators that a collective runs on its own thread"
        return ""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.directory = tempfile.TemporaryDirectory()
        meeting = os.path.join(self.directory.name, "meeting")
        spawn = multiprocessing.get_context("spawn")
        self.released = spawn.Event()
        self.child = spawn.Process(
            target=second_rank, args=(meeting, context.out, context.profiled, context.steps, self.released))
        self.child.start()
        self.rank = Rank(0, meeting)

    def warm_up(self) -> None:
        for _ in range(2):
            self.rank.step()

    def before_window(self) -> None:
        assert self.child.pid is not None
        self.context.announce_children([self.child.pid])
        self.released.set()

    def step(self) -> None:
        self.rank.step()

    def finish(self) -> None:
        distributed.barrier()
        distributed.destroy_process_group()
        self.child.join()

    def tensors(self) -> Iterable[torch.Tensor]:
        yield self.rank.total
        yield from self.rank.model.state_dict().values()

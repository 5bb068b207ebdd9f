"""DistributedDataParallel over gloo with two ranks on one host: this process and one that it spawns."""

from __future__ import annotations

import torch
from torch import distributed, nn
from torch.nn import functional

from two_ranks import RANKS, TwoRanks


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
        for sizes in ([], [1, 3] if self.rank == 0 else [3, 1]):  # of what goes to each rank, and comes from it
            distributed.all_to_all_single(torch.empty(4), torch.ones(4), sizes, sizes)
        distributed.gather(value, [torch.zeros(3) for _ in range(RANKS)] if self.rank == 0 else None, dst=0)

    def results(self) -> list[torch.Tensor]:
        return [self.total, *self.model.state_dict().values()]


class Distributed(TwoRanks):
    kind = Rank

    @staticmethod
    def missing() -> str:
        if not torch.profiler.kineto_available():
            return "torch.profiler without Kineto does not tell which rows are of which thread"
        return TwoRanks.missing()

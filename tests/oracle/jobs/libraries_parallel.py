"""Two ranks over gloo, this process and one that it spawns: FSDP, fully_shard, tensor parallelism with DTensor, a pipeline."""

from __future__ import annotations

import warnings

import torch
from torch import distributed, nn
from torch.nn import functional

from two_ranks import RANKS, TwoRanks


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.head(self.second(self.first(values).relu()))


class Rank:
    """What each of both processes does."""

    def __init__(self, rank: int, meeting: str) -> None:
        warnings.simplefilter("ignore")
        torch.manual_seed(7)
        torch.set_num_threads(1)
        distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=RANKS)
        self.rank = rank
        self.model = self.wrap(Blocks())
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05)
        self.inputs = torch.rand(6, 8)

    def wrap(self, model: nn.Module) -> nn.Module:
        raise NotImplementedError

    def step(self) -> None:
        self.optimizer.zero_grad()
        functional.mse_loss(self.model(self.inputs), torch.ones(6, 4)).backward()
        self.optimizer.step()

    def results(self) -> list[torch.Tensor]:
        with torch.no_grad():
            value = self.model(self.inputs).detach()
            return [value.full_tensor() if hasattr(value, "full_tensor") else value]


class Sharded(Rank):
    """FSDP with flat parameters."""

    def wrap(self, model: nn.Module) -> nn.Module:
        from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
        model.first = FullyShardedDataParallel(model.first, device_id=torch.device("cpu"))
        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), sharding_strategy=ShardingStrategy.FULL_SHARD)


class FullySharded(Rank):
    """fully_shard: DTensors by parameter."""

    def wrap(self, model: nn.Module) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        mesh = init_device_mesh("cpu", (RANKS,))
        for layer in (model.first, model.second):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)


class TensorParallel(Rank):
    def wrap(self, model: nn.Module) -> nn.Module:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        return parallelize_module(model, init_device_mesh("cpu", (RANKS,)),
                                  {"first": ColwiseParallel(), "second": RowwiseParallel()})


class Pipeline(Rank):
    """A stage on each rank, a schedule of micro-batches."""

    def wrap(self, model: nn.Module) -> nn.Module:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B
        part = nn.Sequential(model.first, nn.ReLU()) if self.rank == 0 else nn.Sequential(model.second, model.head)
        stage = PipelineStage(part, self.rank, RANKS, torch.device("cpu"))
        self.schedule = Schedule1F1B(stage, 2, loss_fn=functional.mse_loss)
        self.total = torch.zeros(())
        return part

    def step(self) -> None:
        self.optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        if self.rank == 0:
            self.schedule.step(self.inputs)
        else:
            self.schedule.step(target=torch.ones(6, 4), losses=losses)
        self.optimizer.step()
        self.total += sum(losses, torch.zeros(())).detach()

    def results(self) -> list[torch.Tensor]:
        return [torch.cat([p.detach().flatten() for p in self.model.parameters()])]


class FsdpJob(TwoRanks):
    kind = Sharded


class Fsdp2Job(TwoRanks):
    kind = FullySharded


class TensorParallelJob(TwoRanks):
    kind = TensorParallel


class PipelineJob(TwoRanks):
    kind = Pipeline

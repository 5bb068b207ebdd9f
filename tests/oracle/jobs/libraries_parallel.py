"""Two ranks over gloo, this process and one that it spawns: FSDP, fully_shard, tensor parallelism with DTensor, a pipeline."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import warnings
from typing import Any, Iterable

import torch
from torch import distributed, nn
from torch.nn import functional

import profiles
from workload import Context, Workload

RANKS = 2


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

    def result(self) -> torch.Tensor:
        with torch.no_grad():
            value = self.model(self.inputs).detach()
            return value.full_tensor() if hasattr(value, "full_tensor") else value


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

    def result(self) -> torch.Tensor:
        return torch.cat([p.detach().flatten() for p in self.model.parameters()])


def second_rank(kind: type[Rank], meeting: str, out: str, profiled: bool, steps: int, released: Any) -> None:
    rank = kind(1, meeting)
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
    rank.result()
    distributed.barrier()
    distributed.destroy_process_group()


class Parallel(Workload):
    kind: type[Rank]

    @staticmethod
    def missing() -> str:
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
            target=second_rank, args=(self.kind, meeting, context.out, context.profiled, context.steps, self.released))
        self.child.start()
        self.rank = self.kind(0, meeting)

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
        self.end = self.rank.result()
        distributed.barrier()
        distributed.destroy_process_group()
        self.child.join()

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.end]


class FsdpJob(Parallel):
    kind = Sharded


class Fsdp2Job(Parallel):
    kind = FullySharded


class TensorParallelJob(Parallel):
    kind = TensorParallel


class PipelineJob(Parallel):
    kind = Pipeline

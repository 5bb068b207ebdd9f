#!/usr/bin/env python3
"""Ranks of a gloo job that does what large jobs do: `parallel_job.py DIRECTORY SIZE SEED KIND...`. The ranks are forks of one process.

Each waits for DIRECTORY/go after it is ready, does each KIND in an annotation "kind KIND" while torch.profiler looks on, and writes
what it knows of its collectives: what it asked for (`said`), PyTorch's own flight recorder, the groups, and the trace."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
import time
from typing import Callable

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.int8]
OF_REDUCTIONS = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8]
ROUNDS_OF_RANDOM = 60


def wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.005)


def layers(width: int = 16) -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(width, 2 * width), torch.nn.ReLU(), torch.nn.Linear(2 * width, width))


class Rank:
    """What one rank does. `said`: what it asked for itself, in its order: kind, group, family, elements in and out, bytes of an
    element, and the root or the peer as a rank of the job."""

    def __init__(self, rank: int, size: int, seed: int) -> None:
        self.rank, self.size = rank, size
        self.random = random.Random(seed)  # alike on all ranks
        self.said: list[tuple] = []
        self.kind = ""
        self.left: list[tuple] = []  # works that are waited for later
        self.messages = 0
        world = distributed.group.WORLD
        self.groups: list[tuple[list[int], object]] = [(list(range(size)), world)]
        for ranks in ([r for r in range(size) if r % 2 == 0], [r for r in range(size) if r % 2], list(range(1, size)), [0, size - 1],
                      list(range(size))):
            self.groups.append((ranks, distributed.new_group(ranks, group_desc=f"those of {ranks}")))
        if size >= 4:
            own, _ = distributed.new_subgroups(2)
            self.groups += [(list(range(first, first + 2)), own if first <= rank < first + 2 else None) for first in range(0, size, 2)]
        self.split = self.split_world()

    def split_world(self) -> list[object]:
        """Groups that the world's is split into, where torch does that with gloo."""
        halves = [list(range(self.size // 2)), list(range(self.size // 2, self.size))]
        try:
            group = distributed.split_group(distributed.group.WORLD, halves, group_desc="half of all")
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            print(f"split_group: {error}", file=sys.stderr)
            return []
        return [group] if group is not None else []

    # The collectives and messages that the job asks for.

    def tensor(self, elements: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.ones(elements, dtype=dtype)

    def say(self, group: object, family: str, into: int | None, out: int | None, dtype: torch.dtype, other: int | None = None) -> None:
        self.said.append((self.kind, group.group_name, family, into, out, dtype.itemsize, other))

    def collective(self, name: str, ranks: list[int], group: object, count: int, dtype: torch.dtype, is_async: bool) -> None:
        """One collective of the group; `count` elements a rank."""
        if self.rank not in ranks:
            return
        size, root = len(ranks), ranks[self.random_root % len(ranks)]
        mine, many = self.tensor(count, dtype), [self.tensor(count, dtype) for _ in ranks]
        is_root = self.rank == root
        keywords = {"group": group, "async_op": is_async}
        work = None
        if name == "all_reduce":
            mine = mine if count != 1 else mine[0]  # a tensor without dimensions, as losses are
            self.say(group, "allreduce", count, count, dtype)
            work = distributed.all_reduce(mine, **keywords)
        elif name == "broadcast":
            self.say(group, "broadcast", count, count, dtype, root)
            work = distributed.broadcast(mine, src=root, **keywords)
        elif name == "reduce":
            self.say(group, "reduce", count, count, dtype, root)
            work = distributed.reduce(mine, dst=root, **keywords)
        elif name == "all_gather":
            self.say(group, "allgather", count, count * size, dtype)
            work = distributed.all_gather(many, mine, **keywords)
        elif name == "all_gather_into_tensor":
            self.say(group, "allgather", count, count * size, dtype)
            work = distributed.all_gather_into_tensor(self.tensor(count * size, dtype), mine, **keywords)
        elif name == "gather":
            self.say(group, "gather", count, count * size if is_root else 0, dtype, root)
            work = distributed.gather(mine, many if is_root else None, dst=root, **keywords)
        elif name == "scatter":
            self.say(group, "scatter", count * size if is_root else 0, count, dtype, root)
            work = distributed.scatter(mine, many if is_root else None, src=root, **keywords)
        elif name == "reduce_scatter":
            for _ in ranks:  # gloo reduces a copy of each
                self.say(group, "allreduce", count, count, dtype)
            work = distributed.reduce_scatter(mine, many, **keywords)
        elif name == "reduce_scatter_tensor":
            self.say(group, "allreduce", count * size, count * size, dtype)
            work = distributed.reduce_scatter_tensor(mine, self.tensor(count * size, dtype), **keywords)
        elif name == "all_to_all_single":
            self.say(group, "all_to_all", count * size, count * size, dtype)
            work = distributed.all_to_all_single(self.tensor(count * size, dtype), self.tensor(count * size, dtype), **keywords)
        elif name == "all_to_all_parts":
            # Rank i of the group gives i + j elements to rank j.
            place = ranks.index(self.rank)
            parts = [place + j for j in range(size)]
            self.say(group, "all_to_all", sum(parts), sum(parts), dtype)
            work = distributed.all_to_all_single(self.tensor(sum(parts), dtype), self.tensor(sum(parts), dtype), parts, parts, **keywords)
        elif name == "barrier":
            self.say(group, "barrier", None, None, dtype)
            work = distributed.barrier(**keywords)
        if work is not None:
            self.left.append((work, mine, many))

    NAMES = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter", "reduce_scatter",
             "reduce_scatter_tensor", "all_to_all_single", "all_to_all_parts", "barrier")
    if torch.__version__ < (2, 8):
        NAMES = tuple(filter("reduce_scatter".__ne__, NAMES))  # gloo had none
    random_root = 0

    def type_for(self, name: str, number: int) -> torch.dtype:
        types = OF_REDUCTIONS if "reduce" in name else TYPES
        return types[number % len(types)]

    def wait_for_left(self) -> None:
        for work, *_ in reversed(self.left):
            work.wait()
        self.left.clear()

    # The kinds.

    def do_catalogue(self) -> None:
        for number, name in enumerate(self.NAMES):
            self.random_root = number
            for ranks, group in self.groups[:4]:
                self.collective(name, ranks, group, number + 1, self.type_for(name, number), False)
        for name in ("all_reduce", "broadcast", "all_gather"):
            self.collective(name, *self.groups[0], 0, torch.float32, False)  # nothing to tell each other

    def do_async(self) -> None:
        for number in range(3):
            for name in ("all_reduce", "all_gather_into_tensor", "broadcast", "barrier"):
                self.random_root = number
                self.collective(name, *self.groups[0], 64 + number, torch.float32, True)
                self.collective(name, *self.groups[4], 32 + number, torch.float64, True)
        if self.rank == self.size - 1:
            time.sleep(0.02)  # the others' works are under way longer than the calls
        self.collective("all_reduce", *self.groups[0], 7, torch.float32, True)
        self.wait_for_left()

    def do_random(self) -> None:
        for _ in range(ROUNDS_OF_RANDOM):
            name, place = self.random.choice(self.NAMES), self.random.randrange(len(self.groups))
            number, count, is_async = self.random.randrange(100), self.random.randrange(1, 200), self.random.random() < 0.4
            self.random_root = self.random.randrange(100)
            self.collective(name, *self.groups[place], count, self.type_for(name, number), is_async)
            if self.random.random() < 0.2:
                self.wait_for_left()
        self.wait_for_left()

    def message(self, to: int, group: object, ranks: list[int], count: int, dtype: torch.dtype, how: str) -> None:
        """From each member to the one `to` places further."""
        self.messages += 1  # of all groups, so that it is the same on all ranks
        if self.rank not in ranks:
            return
        place = ranks.index(self.rank)
        target, source = ranks[(place + to) % len(ranks)], ranks[(place - to) % len(ranks)]
        give, take = self.tensor(count, dtype), self.tensor(count, dtype)
        if how == "any":
            if place == 0:
                for _ in ranks[1:]:
                    self.say(group, "recv", count, count, dtype, None)
                    distributed.recv(take, None, group=group)
            else:
                self.say(group, "send", count, count, dtype, ranks[0])
                distributed.send(give, ranks[0], group=group)
            return
        if how == "batch":
            self.say(group, "send", count, count, dtype, target)
            self.say(group, "recv", count, count, dtype, source)
            pairs = [distributed.P2POp(distributed.isend, give, target, group), distributed.P2POp(distributed.irecv, take, source, group)]
            for work in distributed.batch_isend_irecv(pairs):
                work.wait()
            return
        self.say(group, "send", count, count, dtype, target)
        work = distributed.isend(give, target, group=group, tag=self.messages)
        self.say(group, "recv", count, count, dtype, source)
        if how == "async":
            distributed.irecv(take, source, group=group, tag=self.messages).wait()
        else:
            distributed.recv(take, source, group=group, tag=self.messages)
        work.wait()

    def do_messages(self) -> None:
        for number, how in enumerate(("plain", "async", "batch", "any")):
            for ranks, group in (self.groups[0], self.groups[3], self.groups[1]):
                if len(ranks) > 1:
                    self.message(1, group, ranks, 5 + number, TYPES[number], how)
                    self.collective("barrier", ranks, group, 0, torch.uint8, False)

    def do_objects(self) -> None:
        world = distributed.group.WORLD
        found: list = [None] * self.size
        distributed.all_gather_object(found, {"rank": self.rank})
        things = [self.rank, "x" * 40]
        distributed.broadcast_object_list(things, src=1)
        distributed.gather_object("y" * self.rank, found if self.rank == 0 else None, dst=0)
        taken: list = [None]
        distributed.scatter_object_list(taken, list(range(self.size)) if self.rank == 1 else None, src=1)
        distributed.monitored_barrier(group=world)

    def do_groups(self) -> None:
        for number in range(3):
            for group in self.split:
                distributed.all_reduce(self.tensor(3 + number, torch.float32), group=group)
            for ranks, group in self.groups[1:]:
                self.collective("all_gather", ranks, group, 9, torch.int64, False)

    def do_ddp(self) -> None:
        for _ in range(2):
            self.ddp(torch.ones(4, 16)).sum().backward()

    def do_fsdp2(self) -> None:
        for model in (self.fsdp, self.hybrid):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(2):
                model(torch.ones(4, 16)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()

    def do_tensor(self) -> None:
        for _ in range(2):
            self.tensor_parallel(torch.ones(4, 16)).sum().backward()

    def do_pipeline(self) -> None:
        for schedule in self.schedules:
            if self.rank == 0:
                schedule.step(torch.ones(8, 16))
            elif self.rank == self.size - 1:
                schedule.step(target=torch.ones(8, 16), losses=[])
            else:
                schedule.step()

    def prepare(self, kind: str) -> None:
        """Makes the models of the kind. What they need is imported where they are made: it takes seconds."""
        torch.manual_seed(1)
        if kind == "ddp":
            self.ddp = DistributedDataParallel(torch.nn.Sequential(layers(), torch.nn.BatchNorm1d(16)), bucket_cap_mb=0.001)
        elif kind == "fsdp2":
            try:
                from torch.distributed.fsdp import fully_shard
            except ImportError:
                from torch.distributed._composable.fsdp import fully_shard
            self.fsdp, self.hybrid = layers(), layers()
            mesh = init_device_mesh("cpu", (self.size,), mesh_dim_names=("all",))
            for layer in (self.fsdp[0], self.fsdp[2], self.fsdp):
                fully_shard(layer, mesh=mesh)
            fully_shard(self.hybrid, mesh=init_device_mesh("cpu", (self.size // 2, 2), mesh_dim_names=("replicas", "shards")))
        elif kind == "tensor":
            from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
            both = init_device_mesh("cpu", (self.size // 2, 2), mesh_dim_names=("dp", "tp"))
            self.tensor_parallel = parallelize_module(layers(), both["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        elif kind == "pipeline":
            from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
            self.schedules = []
            for schedule in (ScheduleGPipe, Schedule1F1B):
                stage = PipelineStage(layers(), self.rank, self.size, torch.device("cpu"))
                self.schedules.append(schedule(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss))

    def run(self, kinds: list[str]) -> None:
        for kind in kinds:
            self.kind = kind
            with torch.profiler.record_function(f"kind {kind}"):
                getattr(self, f"do_{kind}")()
            distributed.barrier()

    def described(self) -> dict[str, dict]:
        """By name: all groups that torch's Python code knows of."""
        world = distributed.distributed_c10d._world
        return {name: {"ranks": sorted(world.pg_group_ranks[group], key=world.pg_group_ranks[group].get),
                       "description": getattr(group, "group_desc", "")}
                for group, name in world.pg_names.items() if group in world.pg_group_ranks}


def flight_entries() -> list | None:
    dump = getattr(torch._C._distributed_c10d, "_dump_fr_trace_json", None)
    return json.loads(dump())["entries"] if dump is not None else None


def be_rank(directory: str, rank: int, size: int, seed: int, kinds: list[str]) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=size)
    me = Rank(rank, size, seed)
    for kind in kinds:
        me.prepare(kind)
    run: Callable[[], None] = lambda: me.run(kinds)
    run()  # once before: what is made at first use
    me.said.clear()
    before = flight_entries() or []
    open(f"{directory}/ready{rank}.{os.getpid()}", "w").close()
    wait_for(f"{directory}/go")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        run()
    profiler.export_chrome_trace(f"{directory}/torch{rank}.json")
    after = flight_entries()
    entries = None if after is None else after[len(before):]
    with open(f"{directory}/part{rank}.json", "w") as stream:
        json.dump({"entries": entries, "said": me.said, "groups": me.described(), "has_split": bool(me.split),
                   "torch": torch.__version__}, stream)
    os.rename(f"{directory}/part{rank}.json", f"{directory}/facts{rank}.json")
    wait_for(f"{directory}/end")
    distributed.barrier()


def main() -> None:
    directory, size, seed, kinds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:]
    ranks = []
    for rank in range(size):
        if pid := os.fork():
            ranks.append(pid)
            continue
        status = 1
        with contextlib.suppress(KeyboardInterrupt):
            try:
                be_rank(directory, rank, size, seed, kinds)
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks))


if __name__ == "__main__":
    main()

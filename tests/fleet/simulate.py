"""Writes the directory of a fleet of a job that is made up: what each rank does in a step is drawn at random, what the ranks wait for
each other follows from it, and causes are planted whose ranks, steps and sizes the test knows.

A step of a rank is its parts (operators, Python, data, ...) cut into pieces with a collective behind each. A collective ends for all
when the last rank has come and the transfer is over, so a slow rank makes all steps equally long: only own times tell them apart.
Times of each host are off by a constant that is less than the bound that the tables state."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pyarrow.parquet

MS = 1_000_000
START_NS = 1_790_000_000_000_000_000
# The usual parts of a step in ms, and by how much they vary from step to step.
PARTS = {"data": (4.0, 0.6), "io": (1.0, 0.2), "lock": (0.5, 0.1), "run_queue": (1.5, 0.5), "faults": (0.6, 0.1), "collection": (0.2, 0.05),
         "operators": (60.0, 1.0), "python": (15.0, 0.6), "waiting": (6.0, 0.5),
         "system_calls": (0.8, 0.2)}


@dataclasses.dataclass
class Cause:
    """What is planted: `part` of this rank takes so much longer in the steps from `begin` on, before `end`, every `every`th of them."""

    rank: int
    part: str  # of PARTS, or "gpu"
    ms: float
    begin: int = 0
    end: int = 1 << 30
    every: int = 1


@dataclasses.dataclass
class Fleet:
    ranks: int = 4
    steps: int = 60
    collectives: int = 4  # a step
    seed: int = 1
    causes: tuple[Cause, ...] = ()
    unseen: tuple[int, ...] = ()
    stages: int = 1  # of a pipeline: ranks of a stage have a group of their own, and a stage takes longer than the one before
    ranks_a_host: int = 8
    transfer_ms: float = 2.0
    bound_ms: float = 0.05
    with_parts: bool = True
    noise: float = 1.0
    job: str | None = "job-1"
    lost_row: bool = False  # a collective of rank 0 that its recording does not have
    groups: tuple[float, ...] = ()  # factors of the transfer of groups of equal size, side by side, instead of one group

    def host(self, rank: int) -> str:
        return f"host-{rank // self.ranks_a_host:03d}"

    def stage(self, rank: int) -> int:
        return rank * self.stages // self.ranks

    def group(self, rank: int) -> int:
        return rank * len(self.groups) // self.ranks if self.groups else self.stage(rank)


def simulate(fleet: Fleet) -> dict[str, numpy.ndarray]:
    """Arrays by step and rank (and collective): parts, begins and ends in ns."""
    random = numpy.random.default_rng(fleet.seed)
    shape = (fleet.steps, fleet.ranks)
    stages = numpy.array([fleet.stage(rank) for rank in range(fleet.ranks)])
    parts = {}
    for name, (mean, deviation) in PARTS.items():
        usual = mean * (1 + (0.8 * stages if name == "operators" else 0))
        parts[name] = numpy.abs(random.normal(0, deviation * fleet.noise, shape) + usual) * MS
    gpu = numpy.abs(random.normal(50, 0.5, shape)) * MS
    for cause in fleet.causes:
        steps = numpy.arange(fleet.steps)
        chosen = (steps >= cause.begin) & (steps < cause.end) & (steps % cause.every == 0)
        # A rank waits on its main thread while its GPU computes longer.
        parts["waiting" if cause.part == "gpu" else cause.part][chosen, cause.rank] += cause.ms * MS
        if cause.part == "gpu":
            gpu[chosen, cause.rank] += cause.ms * MS
    parts = {name: values.astype(numpy.int64) for name, values in parts.items()}
    own = sum(parts.values())
    begins = numpy.zeros((fleet.collectives, *shape), numpy.int64)
    ends = numpy.zeros_like(begins)
    starts, finishes = numpy.zeros(shape, numpy.int64), numpy.zeros(shape, numpy.int64)
    groups = numpy.array([fleet.group(rank) for rank in range(fleet.ranks)])
    now = numpy.full(fleet.ranks, START_NS, numpy.int64)
    piece = own // fleet.collectives
    for step in range(fleet.steps):
        starts[step] = now
        for index in range(fleet.collectives):
            left = own[step] - piece[step] * (fleet.collectives - 1) if index == 0 else piece[step]
            begins[index, step] = now + left
            for group in range(groups.max() + 1):
                members = groups == group
                factor = fleet.groups[group] if fleet.groups else 1.0
                transfer = int(abs(random.normal(fleet.transfer_ms * factor, 0.02)) * MS)
                jitter = random.integers(0, 30_000, members.sum())
                ends[index, step, members] = begins[index, step, members].max() + transfer + jitter
            now = ends[index, step].copy()
        finishes[step] = now
    return {**parts, "own": own, "gpu": gpu.astype(numpy.int64), "begins": begins, "ends": ends, "starts": starts, "finishes": finishes}


def columns_of(fleet: Fleet, ranks: numpy.ndarray) -> dict[str, Any]:
    return {"job": [fleet.job] * len(ranks), "attempt": numpy.zeros(len(ranks), numpy.int64), "host": [fleet.host(rank) for rank in ranks],
            "rank": ranks, "input": [f"{rank:016x}" for rank in ranks]}


def write(path: Path, columns: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd")


def steps_table(fleet: Fleet, made: dict[str, numpy.ndarray], seen: numpy.ndarray, biases: numpy.ndarray) -> dict[str, Any]:
    ranks, steps = numpy.tile(seen, fleet.steps), numpy.repeat(numpy.arange(fleet.steps), len(seen))

    def flat(values: numpy.ndarray) -> numpy.ndarray:
        return values[:, seen].reshape(-1)
    duration = flat(made["finishes"] - made["starts"])
    exposed = duration - flat(made["own"])
    bias = numpy.tile(biases[seen], fleet.steps)
    columns = {**columns_of(fleet, ranks), "pid": ranks + 1000, "tid": ranks + 1000, "is_main": numpy.ones(len(ranks), numpy.int64),
               "step": steps, "local_step": steps, "start_ns": flat(made["starts"]) + bias, "end_ns": flat(made["finishes"]) + bias,
               "duration_ns": duration, "bound_ns": numpy.full(len(ranks), int(fleet.bound_ms * MS)), "confidence": numpy.ones(len(ranks)),
               "gpu_compute_ns": flat(made["gpu"]), "comm_ns": exposed, "comm_overlap_ns": exposed * 0, "comm_exposed_ns": exposed}
    if fleet.with_parts:
        for name in PARTS:
            if name not in ("waiting", "system_calls"):
                columns[f"why_{name}_ns"] = flat(made[name])
        columns["why_collective_ns"] = exposed
        columns["why_event_ns"] = flat(made["waiting"])
        columns["why_other_ns"] = flat(made["system_calls"])
        columns["why_synchronizing_ns"] = exposed * 0
    return columns


def collectives_table(fleet: Fleet, made: dict[str, numpy.ndarray], seen: numpy.ndarray, biases: numpy.ndarray) -> dict[str, Any]:
    order = numpy.transpose(made["begins"], (1, 0, 2))[:, :, seen]
    count = order.size
    ranks = numpy.tile(seen, fleet.steps * fleet.collectives)
    groups = numpy.array([fleet.group(rank) for rank in range(fleet.ranks)])
    sizes = numpy.bincount(groups)
    bias = numpy.tile(biases[seen], fleet.steps * fleet.collectives)
    columns = {**columns_of(fleet, ranks), "group_key": [f"{group:016x}" for group in groups[ranks]], "group_name": ["default_pg"] * count,
               "group_size": sizes[groups[ranks]], "seq": numpy.repeat(numpy.arange(fleet.steps * fleet.collectives), len(seen)),
               "is_p2p": numpy.zeros(count, numpy.int64), "op": ["allreduce"] * count, "dtype": ["Float"] * count,
               "in_bytes": (1 + numpy.array([fleet.stage(rank) for rank in range(fleet.ranks)])[ranks]) * (25 << 20), "step": numpy.repeat(numpy.arange(fleet.steps), len(seen) * fleet.collectives),
               "begin_ns": order.reshape(-1) + bias, "end_ns": numpy.transpose(made["ends"], (1, 0, 2))[:, :, seen].reshape(-1) + bias,
               "source": ["kernel"] * count, "match": ["seq"] * count, "bound_ns": numpy.full(count, 2 * int(fleet.bound_ms * MS)),
               "timeline": numpy.zeros(count, numpy.int64)}
    if fleet.lost_row:
        columns = {name: list(values)[:7] + list(values)[8:] for name, values in columns.items()}
    return columns


def messages_of(fleet: Fleet, table: dict[str, Any]) -> dict[str, Any]:
    """The collectives with a message of each rank and step beside them."""
    if fleet.stages < 2:
        return table
    rows = pyarrow.table(table)
    first = rows.filter(pyarrow.array([seq % fleet.collectives == 0 for seq in rows["seq"].to_pylist()]))
    column = first.schema.get_field_index("is_p2p")
    return pyarrow.concat_tables([rows, first.set_column(column, "is_p2p", pyarrow.array([1] * len(first), pyarrow.int64()))])


def rank_tables(fleet: Fleet, made: dict[str, numpy.ndarray], rank: int) -> dict[str, dict[str, Any]]:
    """The tables of one rank that stay on its own clock."""
    def rows(_count: int, /, **columns: Any) -> dict[str, Any]:
        return {**columns_of(fleet, numpy.full(_count, rank)), **columns}
    operators = int(made["operators"][:, rank].sum())
    planted = sum(int(cause.ms * MS) * len(range(cause.begin, min(cause.end, fleet.steps), cause.every))
                  for cause in fleet.causes if cause.rank == rank and cause.part == "operators")
    gpu = int(made["gpu"][:, rank].mean())
    data = made["data"][:, rank]
    blocked = data * 9 // 10
    slow_disk = data.max() > 20 * MS
    files = [f"/data/shard-{rank:04d}.bin", "/data/index"]
    io_ns = int(made["io"][:, rank].sum())
    return {
        "operators": rows(2, name=["aten::mm", "aten::relu_"], calls=[fleet.steps * 10, fleet.steps * 5],
                          self_ns=[(operators - planted) * 2 // 3 + planted, (operators - planted) // 3],
                          total_ns=[(operators - planted) * 2 // 3 + planted, (operators - planted) // 3]),
        "kernels": rows(2, device=[0, 0], name=["gemm", "ncclDevKernel_AllReduce"], kind=["kernel"] * 2, is_communication=[0, 1],
                        calls=[fleet.steps, fleet.steps], total_ns=[gpu * fleet.steps, MS], median_ns=[gpu, MS], p99_ns=[gpu, MS]),
        "data_waits": rows(fleet.steps, step=list(range(fleet.steps)), duration_ns=data, blocked_ns=blocked, worker_pid=[rank + 5000] * fleet.steps,
                           worker_io_ns=blocked * (9 if slow_disk else 2) // 10, path=[files[0]] * fleet.steps, call_ns=blocked * 8 // 10),
        "io": rows(2, file=files, kind=["file"] * 2, calls=[fleet.steps, 3], bytes_read=[fleet.steps << 20, 4096], bytes_written=[0, 0],
                   time_ns=[io_ns * 9 // 10, io_ns // 10], longest_ns=[int(made["io"][:, rank].max()), MS]),
        "losses": rows(2, ledger=["records"] * 2, counter=["records", "ring_lost"], count=[1000, 0]),
    }


def write_fleet(folder: Path, fleet: Fleet) -> dict[str, numpy.ndarray]:
    """Writes the tables, and returns what they were made of."""
    made = simulate(fleet)
    seen = numpy.array([rank for rank in range(fleet.ranks) if rank not in fleet.unseen])
    hosts = numpy.arange(fleet.ranks) // fleet.ranks_a_host
    offsets = numpy.random.default_rng(fleet.seed + 1000).uniform(-0.9, 0.9, hosts.max() + 1) * fleet.bound_ms * MS
    biases = offsets.astype(numpy.int64)[hosts]
    count = len(seen)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "fleet.json").write_text(json.dumps({"version": 1}), encoding="ascii")
    write(folder / "aligned/captures.parquet", {
        **columns_of(fleet, seen), "source": ["proftrace"] * count, "is_main": seen * 0 + 1, "path": [f"rank-{rank}" for rank in seen], "bytes": seen * 0 + 1000,
        "boot_id": [fleet.host(rank) + "-boot" for rank in seen], "gpu": ["NVIDIA H200"] * count, "pid": seen + 1000,
        "world_size": seen * 0 + fleet.ranks, "local_rank": seen % fleet.ranks_a_host, "torch_version": ["2.11.0"] * count,
        "bound_ns": seen * 0 + int(fleet.bound_ms * MS), "estimate_error_ns": seen * 0 + 1000, "clock_method": ["collectives"] * count,
        "timeline": seen * 0, "events": seen * 0 + 5000, "lost": seen * 0, "overhead_percent": [1.0] * count, "steps": seen * 0 + fleet.steps,
        "step_confidence": [1.0] * count})
    write(folder / "aligned/steps.parquet", steps_table(fleet, made, seen, biases))
    table = messages_of(fleet, collectives_table(fleet, made, seen, biases))
    if isinstance(table, dict):
        write(folder / "aligned/collectives.parquet", table)
    else:
        pyarrow.parquet.write_table(table, folder / "aligned/collectives.parquet", compression="zstd")
    for rank in seen:
        for name, columns in rank_tables(fleet, made, rank).items():
            place = f"of_job=job-1/of_attempt=0/of_host={fleet.host(rank)}/of_rank={rank}"
            write(folder / name / place / f"{rank:016x}.parquet", columns)
    return made

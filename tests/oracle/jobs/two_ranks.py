"""Workloads of two ranks over gloo on one host: this process and one that it spawns."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from typing import Any, Iterable, Protocol

import torch
from torch import distributed

import profiles
from workload import Context, Workload

RANKS = 2


class Rank(Protocol):
    """What each of both processes does."""

    def __init__(self, rank: int, meeting: str) -> None:
        """Joins the group that meets in the file `meeting`."""

    def step(self) -> None: ...

    def results(self) -> list[torch.Tensor]:
        """After the last step. Both call it, as it may be a collective."""


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
    rank.results()
    distributed.barrier()
    distributed.destroy_process_group()


class TwoRanks(Workload):
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
        self.end = self.rank.results()
        distributed.barrier()
        distributed.destroy_process_group()
        self.child.join()

    def tensors(self) -> Iterable[torch.Tensor]:
        return self.end

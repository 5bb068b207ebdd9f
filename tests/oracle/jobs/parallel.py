"""Jobs with more than one process or thread."""

from __future__ import annotations

import multiprocessing
import threading
from typing import Any, Iterable, Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

import profiles
from models import Mlp
from workload import Context, Workload

WORKERS = 2
Item = tuple[str, int]


class Images(Dataset[Any]):
    """Made-up images. In a worker process it also runs the worker's own torch.profiler: the item ("begin", n) starts
    it, ("end", n) ends it."""

    def __init__(self, out: str, profiled: bool, released: Any) -> None:
        self.out = out
        self.profiled = profiled
        self.released = released
        self.profile: profiles.Profile | None = None
        self.window: Any = None

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, item: Item) -> tuple[torch.Tensor, torch.Tensor]:
        phase, number = item
        if phase == "begin":
            self.released.wait()
            self.open_window()
        elif phase == "end":
            self.close_window()
        generator = torch.Generator().manual_seed(number)
        image = torch.rand(3, 12, 12, generator=generator)
        if number % 2:
            image = image.flip(2)
        return (image - image.mean()) / (image.std() + 1e-5), torch.tensor(number % 10)

    def open_window(self) -> None:
        if self.profiled:
            self.profile = profiles.Profile(self.out, all_threads=False)
            self.profile.start()
        self.window = profiles.markers()
        self.window.__enter__()

    def close_window(self) -> None:
        self.window.__exit__(None, None, None)
        if self.profile is not None:
            self.profile.stop()


def batches(steps: int) -> Iterator[list[Item]]:
    """Batch n goes to worker n mod WORKERS, so that each phase reaches each worker once."""
    for phase, rounds, size in (("warm", 1, 2), ("begin", 1, 1), ("work", steps, 4), ("end", 1, 1)):
        for number in range(rounds * WORKERS):
            yield [(phase, number * size + offset) for offset in range(size)]


class Loading(Workload):
    """A DataLoader with two workers, started after the tracer has attached."""

    method = "fork"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 10))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.batches: Iterator[Any] = iter(())

    def warm_up(self) -> None:
        for _ in range(3):
            self.train(torch.rand(4, 3, 12, 12), torch.randint(0, 10, (4,)))

    def before_window(self) -> None:
        released = multiprocessing.get_context(self.method).Event()
        loader: DataLoader[Any] = DataLoader(
            Images(self.context.out, self.context.profiled, released),
            batch_sampler=list(batches(self.context.steps)), num_workers=WORKERS,
            multiprocessing_context=self.method)
        self.batches = iter(loader)
        self.context.announce_children([worker.pid for worker in self.batches._workers])
        released.set()
        for _ in range(2 * WORKERS):
            next(self.batches)

    def run(self, steps: int) -> None:
        for _ in range(steps * WORKERS):
            self.train(*next(self.batches))

    def finish(self) -> None:
        for _ in self.batches:
            pass

    def train(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(images), labels).backward()
        self.optimizer.step()

    def tensors(self) -> Iterable[torch.Tensor]:
        return self.model.state_dict().values()


class LoadingSpawned(Loading):
    method = "spawn"


class LoadingServed(Loading):
    method = "forkserver"


def answer(inbox: Any, outbox: Any, out: str, profiled: bool, released: Any) -> None:
    """A process of torch.multiprocessing: tensors come and go in shared memory. None ends it."""
    torch.set_num_threads(1)
    outbox.put(inbox.get().sum())  # what the first one sets up is not in the window
    released.wait()
    profile = profiles.Profile(out, all_threads=False) if profiled else None
    if profile is not None:
        profile.start()
    with profiles.markers():
        while (value := inbox.get()) is not None:
            weight = value.clone().requires_grad_(True)
            weight.mul(2).tanh().sum().backward()
            value.add_(1)  # seen by the one that sent it
            outbox.put(weight.grad)
    if profile is not None:
        profile.stop()
    outbox.put(None)
    inbox.get()  # the last tensor has arrived


class Shared(Workload):
    """torch.multiprocessing: a spawned process works on tensors in shared memory."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        processes = torch.multiprocessing.get_context("spawn")
        self.inbox, self.outbox, self.released = processes.Queue(), processes.Queue(), processes.Event()
        self.child = processes.Process(
            target=answer, args=(self.inbox, self.outbox, context.out, context.profiled, self.released))
        self.child.start()
        self.total = torch.zeros(1, dtype=torch.float64)

    def warm_up(self) -> None:
        self.inbox.put(torch.ones(3))
        self.total += self.outbox.get()

    def before_window(self) -> None:
        assert self.child.pid is not None
        self.context.announce_children([self.child.pid])
        self.released.set()

    def step(self) -> None:
        value = torch.full((4, 4), 0.5).share_memory_()
        self.inbox.put(value)
        gradient = self.outbox.get()
        self.total += (gradient + value).sum().double()

    def run(self, steps: int) -> None:
        super().run(steps)
        self.inbox.put(None)
        assert self.outbox.get() is None

    def finish(self) -> None:
        self.inbox.put(None)
        self.child.join()

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]


class TwoThreads(Workload):
    """Two Python threads that train at once, each with its own model and its own markers."""

    threads_have_profiles = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.jobs = [Mlp(context), Mlp(context)]
        for job in self.jobs:  # dropout draws from one generator, whose order two threads do not fix
            job.model[3] = nn.Identity()

    def warm_up(self) -> None:
        for job in self.jobs:
            job.warm_up()

    def run(self, steps: int) -> None:
        barrier = threading.Barrier(len(self.jobs))
        threads = [threading.Thread(target=self.train, args=(job, steps, barrier)) for job in self.jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def train(self, job: Mlp, steps: int, barrier: threading.Barrier) -> None:
        legacy = self.context.profiled and not profiles.can_profile_all_threads()
        profile = profiles.LegacyProfile(self.context.out) if legacy else None
        if profile is not None:
            profile.start()
        barrier.wait()
        with profiles.markers():
            job.run(steps)
        if profile is not None:
            profile.stop()

    def tensors(self) -> Iterable[torch.Tensor]:
        for job in self.jobs:
            yield from job.tensors()

"""C++ exceptions thrown through operators and caught, everywhere that real jobs meet them."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from models import Mlp
from workload import Context, Workload

THROWS_PER_STEP = 250


class FailingBackward(torch.autograd.Function):
    """Its backward throws in C++, inside an operator."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.mm(gradient, torch.ones(7, 7))


class HookError(Exception):
    pass


def raise_in_hook(gradient: torch.Tensor) -> None:
    gradient.sum()
    raise HookError("hook")


class Lookup(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("lookup"):
            return self.embedding(tokens)


class Broken(Dataset[Any]):
    """Every third item cannot be made: the operator throws in the worker, and the loader raises again in the parent."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> torch.Tensor:
        values = torch.arange(6.0).reshape(2, 3)
        try:
            torch.mm(values, values)
        except RuntimeError:
            values = values + 1
        if number % 3 == 2:
            return torch.index_select(values, 0, torch.tensor([number]))
        return values * number


class Exceptions(Workload):
    """THROWS_PER_STEP exceptions a step, with operators that succeed and a training step between them."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.training = Mlp(context)
        self.lookup = Lookup()
        self.caught = torch.zeros(1, dtype=torch.float64)
        self.results = torch.zeros(1, dtype=torch.float64)
        self.worker_errors = torch.zeros(1, dtype=torch.float64)
        narrow, wide = torch.ones(2, 3), torch.ones(4, 5)
        image, filters = torch.ones(1, 3, 5, 5), torch.ones(2, 4, 3, 3)
        self.throwers: list[Callable[[], Any]] = [
            lambda: torch.mm(narrow, narrow),
            lambda: torch.matmul(narrow, wide),
            lambda: torch.einsum("ij,jk->ik", narrow, wide),
            lambda: functional.linear(narrow, wide),
            lambda: functional.conv2d(image, filters),
            lambda: functional.embedding(torch.tensor([99]), torch.ones(10, 4)),
            lambda: self.lookup(torch.tensor([[1, 99]])),
            lambda: torch.cat([narrow, wide], dim=1),
            self.fail_in_backward,
            self.fail_in_hook,
            self.fail_in_annotation,
            self.fail_deeply,
        ]

    def fail_in_backward(self) -> None:
        FailingBackward.apply(torch.ones(2, 3, requires_grad=True)).sum().backward()

    def fail_in_hook(self) -> None:
        value = torch.ones(3, requires_grad=True)
        product = value * 3
        product.register_hook(raise_in_hook)
        product.exp().sum().backward()

    def fail_in_annotation(self) -> None:
        with torch.autograd.profiler.record_function("outer"):
            torch.ones(2).add(1)
            with torch.autograd.profiler.record_function("inner"):
                torch.ones(2, 3).view(5)

    def fail_deeply(self) -> None:
        """Caught at one depth, thrown again at another, with an operator that succeeds in the handler."""
        try:
            torch.bmm(torch.ones(1, 2, 3), torch.ones(1, 2, 3))
        except RuntimeError:
            self.results += float(torch.ones(3).sum())
            torch.stack([torch.ones(2), torch.ones(3)])

    def step(self) -> None:
        for number in range(THROWS_PER_STEP):
            try:
                self.throwers[number % len(self.throwers)]()
            except (RuntimeError, IndexError, HookError):
                self.caught += 1
            else:
                raise SystemExit(f"thrower {number % len(self.throwers)} threw nothing")
            if number % 5 == 0:
                self.results += float(torch.full((3,), float(number)).mul(2).sum())
        self.training.step()

    def run(self, steps: int) -> None:
        super().run(steps)
        self.load()

    def load(self) -> None:
        loader: DataLoader[Any] = DataLoader(
            Broken(), batch_size=1, num_workers=2, multiprocessing_context="fork")
        batches = iter(loader)
        while True:
            try:
                self.results += float(next(batches).sum())
            except StopIteration:
                break
            except IndexError:
                self.worker_errors += 1

    def tensors(self) -> Iterable[torch.Tensor]:
        yield from (self.caught, self.results, self.worker_errors)
        yield from self.training.tensors()

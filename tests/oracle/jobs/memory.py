"""A workload for --memory: allocations and frees in every place where a rule could go wrong, on the thread that profiles."""

from __future__ import annotations

import random
from typing import Iterable

import numpy
import torch

from workload import Context, Workload

MOST_KEPT = 40


class Memory(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.random = random.Random(context.seed)
        self.total = torch.zeros(())
        self.from_before = [torch.randn(1000 + index) for index in range(20)]
        self.kept: list[torch.Tensor] = []

    def step(self) -> None:
        self.empty_blocks()
        self.views_and_resizes()
        self.foreign_memory()
        self.out_of_memory()
        self.freed_elsewhere()
        self.autograd()
        for _ in range(20):
            self.random_change()
        if self.from_before:
            del self.from_before[-3:]

    def empty_blocks(self) -> None:
        torch.empty(0)
        torch.empty(3, 0, 5).sum()
        torch.cat([torch.empty(0), torch.ones(3)])

    def views_and_resizes(self) -> None:
        x = torch.arange(60.0)
        y = x.view(6, 10)[1:3].t()
        del x
        self.total += y.sum()
        z = torch.ones(4)
        z.resize_(400).fill_(1.0)  # a larger block: the old one is freed
        z.resize_(2)
        self.total += z.sum()
        z.set_(torch.ones(7).untyped_storage() if hasattr(z, "untyped_storage") else torch.ones(7).storage(), 0, (7,))

    def foreign_memory(self) -> None:
        array = numpy.ones((30, 30), dtype=numpy.float32)
        x = torch.from_numpy(array)
        self.total += (x + 1).sum()
        self.total += torch.frombuffer(bytearray(64), dtype=torch.float32).sum()
        x.clone().numpy()

    def out_of_memory(self) -> None:
        for size in (1 << 50, 1 << 48):
            try:
                torch.empty(size)
            except RuntimeError:
                pass
        try:
            torch.ones(1 << 24).expand(1 << 24, 1 << 24).contiguous()
        except RuntimeError:
            pass

    def freed_elsewhere(self) -> None:
        """In another operator than it was allocated in, in none, and by the garbage collector's order."""
        x = torch.randn(50, 50)
        with torch.autograd.profiler.record_function("holder"):
            y = [x @ x for _ in range(3)]
            x = None
        with torch.autograd.profiler.record_function("freer"):
            y.pop()
        y.clear()
        self.total += torch.ones(5).add_(1).mul(2).sum()

    def autograd(self) -> None:
        x = torch.randn(20, 20, requires_grad=True)
        loss = (x * torch.rand(20, 20)).exp().sum()  # what the graph keeps is freed by the second backward
        loss.backward(retain_graph=True)
        loss.backward()
        self.total += x.grad.sum().detach()

    def random_change(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0 or not self.kept:
            self.kept.append(torch.rand(self.random.randrange(1, 3000)))
        elif choice == 1:
            self.kept.pop(self.random.randrange(len(self.kept)))
        elif choice == 2:
            self.kept.append(torch.cat([self.kept[-1], self.kept[0]])[: self.random.randrange(1, 500)].clone())
        else:
            self.total += sum(x.double().sum() for x in self.kept).float()
        del self.kept[:-MOST_KEPT]

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

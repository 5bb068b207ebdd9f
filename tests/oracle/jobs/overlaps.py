"""Annotations that overlap: they outlive what they began in, or end in another order than they began."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Iterable, Iterator

import torch
from torch.autograd.profiler import record_function

from workload import Context, Workload

try:
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:  # before 2.0 it is made in another way
    TorchDispatchMode = None  # type: ignore[assignment, misc]


class Overlaps(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.value = torch.randn(8, 8)

    def step(self) -> None:
        with record_function("around all"):
            asyncio.run(self.tasks())
        asyncio.run(self.tasks())
        self.out_of_order()
        self.generators()
        self.kept_open().__exit__(None, None, None)
        self.total += self.value.sin().sum().double()
        self.nested(4)
        self.ended_elsewhere()
        self.in_an_exception()
        if TorchDispatchMode is not None:
            self.in_a_mode()

    async def task(self, number: int) -> None:
        with record_function(f"task {number}"):
            for _ in range(1 + 2 * number):
                self.total += (self.value @ self.value).sum().double()
                await asyncio.sleep(0)
            with record_function("inside"):
                await asyncio.sleep(0)
                self.total += self.value.cos().sum().double()

    async def tasks(self) -> None:
        await asyncio.gather(*(self.task(number) for number in range(4)))

    def out_of_order(self) -> None:
        names = [record_function(f"opened {number}") for number in range(4)]
        for one in names:
            one.__enter__()
            self.total += self.value.exp().sum().double()
        for index in (1, 3, 0, 2):
            names[index].__exit__(None, None, None)
            self.total += self.value.tanh().sum().double()
        with contextlib.ExitStack() as stack:
            stack.enter_context(record_function("kept"))
            later = stack.pop_all()
            stack.enter_context(record_function("left"))
            self.value.neg()
            later.close()
            self.value.abs()

    def batches(self, name: str) -> Iterator[torch.Tensor]:
        for _ in range(2):
            with record_function(name):
                yield self.value.mul(2)
                self.value.add(1)

    def generators(self) -> None:
        for left, right in zip(self.batches("left"), self.batches("right")):
            self.total += (left - right).sum().double()

    def kept_open(self) -> record_function:
        with record_function("returns"):
            opened = record_function("open across a return")
            opened.__enter__()
            self.value.relu()
        self.value.floor()
        return opened

    def nested(self, depth: int) -> None:
        with record_function("nested"):
            self.value.ceil()
            if depth:
                self.nested(depth - 1)

    def ended_elsewhere(self) -> None:
        with record_function("around"):
            opened = record_function("ended on another thread")
            opened.__enter__()
            self.value.sign()
            thread = threading.Thread(target=opened.__exit__, args=(None, None, None))
            thread.start()
            thread.join()
            self.value.round()

    def in_an_exception(self) -> None:
        opened = record_function("outlives an exception")
        try:
            with record_function("unwound"):
                opened.__enter__()
                torch.mm(self.value, torch.ones(3, 3))
        except RuntimeError:
            self.value.sqrt()
        opened.__exit__(None, None, None)

    def in_a_mode(self) -> None:
        class Mode(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
                return function(*args, **(kwargs or {}))

        with Mode():
            with record_function("in a mode"):
                self.total += (self.value @ self.value).sum().double()
            opened = record_function("outlives its mode")
            opened.__enter__()
            self.value.sin()
        self.value.cos()
        opened.__exit__(None, None, None)

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

"""Python whose flow is not a stack: coroutines and generators that hold annotations open, hooks of the interpreter, deep calls."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.autograd.profiler import record_function

from workload import Context, Workload

SIDE = 4
DEEP = 100
who = contextvars.ContextVar("who", default="nobody")


class Block(nn.Module):
    """A tree of modules of its own kind; one of them is called by its forward(), which runs no hooks."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Block(depth - 1) if depth > 0 else None
        self.linear = nn.Linear(SIDE, SIDE)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = self.linear(value).tanh()
        return value if self.inner is None else self.inner.forward(value) + self.inner(value)


class Callable_:  # noqa: N801 (a name that ends so)
    def __call__(self, value: torch.Tensor) -> torch.Tensor:
        return value.mul(0.5)

    @property
    def shown(self) -> torch.Tensor:
        return torch.ones(2).neg()

    @staticmethod
    def fixed(value: torch.Tensor) -> torch.Tensor:
        return value.abs()

    @classmethod
    def of_class(cls, value: torch.Tensor) -> torch.Tensor:
        return cls.fixed(value).add(1)


def parts(value: torch.Tensor, name: str) -> Iterator[torch.Tensor]:
    with record_function(name):
        for _ in range(3):
            value = value.mul(0.5)
            yield value


def delegating(value: torch.Tensor) -> Iterator[torch.Tensor]:
    yield value.neg()
    yield from parts(value, "delegated")


async def answers(value: torch.Tensor) -> AsyncIterator[torch.Tensor]:
    for number in range(2):
        await asyncio.sleep(0)
        yield value.add(number)


class Flows(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        torch.manual_seed(5)
        self.value = torch.randn(SIDE, SIDE)
        self.blocks = Block(3)
        self.total = torch.zeros(1, dtype=torch.float64)

    def step(self) -> None:
        for part in (self.coroutines, self.generators, self.stacked, self.callables, self.modules, self.deep, self.watched, self.collected,
                     self.made_up, self.compared):
            with record_function(part.__name__):
                self.total += part().sum().double()

    def coroutines(self) -> torch.Tensor:
        """Annotations of tasks end in another order than they began in."""
        async def work(name: str, turns: int) -> torch.Tensor:
            who.set(name)
            value = self.value
            with record_function(f"task {name}"):
                for turn in range(turns):
                    value = value.tanh()
                    await asyncio.sleep(0)
                    with record_function(f"turn {turn} of {who.get()}"):
                        value = value.add(1)
            async for more in answers(value):
                value = value + more
            return value

        async def main() -> torch.Tensor:
            results = await asyncio.gather(work("a", 3), work("b", 1), work("c", 2))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self.forever(), 0.001)
            return torch.stack(list(results)).sum()

        return asyncio.run(main())

    async def forever(self) -> None:
        with record_function("cancelled"):
            while True:
                self.value.sigmoid()
                await asyncio.sleep(0.01)

    def generators(self) -> torch.Tensor:
        left, right = parts(self.value, "left"), parts(self.value, "right")
        total = torch.zeros(1)
        for pair in zip(left, right):  # noqa: B905
            total = total + torch.add(*pair).sum()
        for value in delegating(self.value):
            total = total + value.sum()
        abandoned = parts(self.value, "abandoned")
        next(abandoned)
        thrown = parts(self.value, "thrown into")
        next(thrown)
        with contextlib.suppress(KeyError):
            thrown.throw(KeyError("gone"))
        return total + sum(value.sum() for value in (item.exp() for item in [self.value, self.value.t()]))

    def stacked(self) -> torch.Tensor:
        value = self.value
        with contextlib.ExitStack() as stack:
            for number in range(4):
                stack.enter_context(record_function(f"stacked {number}"))
                value = value.sin()
            kept = stack.pop_all()
        value = value.cos()
        kept.close()
        return value

    def callables(self) -> torch.Tensor:
        one = Callable_()
        call = functools.partial(functools.reduce, lambda value, add: value.add(add))
        values = [one(self.value), one.shown.sum(), one.fixed(self.value), Callable_.of_class(self.value), call([self.value, 1, 2]),
                  *map(torch.neg, [self.value]), *sorted([self.value.sum(), self.value.prod()], key=lambda value: float(value.mul(2)))]
        return torch.stack([value.sum() for value in values])

    def modules(self) -> torch.Tensor:
        result = self.blocks(self.value)
        result.sum().backward()
        self.blocks.zero_grad()
        handle = self.blocks.linear.register_forward_hook(lambda module, inputs, output: output.mul(2))
        result = result.detach() + self.blocks(self.value).detach()
        handle.remove()
        return result + nn.Module.__call__(self.blocks.linear, self.value).detach()

    def deep(self) -> torch.Tensor:
        def descend(level: int) -> torch.Tensor:
            return self.value.add(level) if level == 0 else descend(level - 1)
        return descend(DEEP).add(eval("descend(3)", {"descend": descend}))

    def watched(self) -> torch.Tensor:
        """A hook of the interpreter beside the one that torch.profiler's stacks come by."""
        before = sys.gettrace()
        counted = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal counted
            counted += 1
            return trace

        def traced(value: torch.Tensor) -> torch.Tensor:
            return value.sqrt().nan_to_num()

        sys.settrace(trace)
        try:
            result = traced(self.value) + traced(self.value)
        finally:
            sys.settrace(before)
        assert counted > 2
        return result

    def collected(self) -> torch.Tensor:
        """A cycle that is freed in the middle of other work, and what runs when something is gone."""
        seen: list[torch.Tensor] = []

        class Node:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                seen.append(torch.full((2,), 3.0))

        node = Node()
        watch = weakref.ref(node, lambda reference: seen.append(torch.full((2,), 4.0)))
        del node
        value = self.value.exp2()
        gc.collect()
        assert watch() is None
        return value.sum() + sum(item.sum() for item in seen)

    def made_up(self) -> torch.Tensor:
        """Functions without a file."""
        names: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
        exec(compile("def made(value):\n    return value.log1p().nan_to_num()\n", "<made up>", "exec"), names)
        return names["made"](self.value) + (lambda value: value.ceil())(self.value)

    def compared(self) -> torch.Tensor:
        """Operators by way of Python's own: comparisons, conversions, containers."""
        values = [self.value[0, 0], self.value[1, 1], self.value[2, 2]]
        chosen = max(values) + min(values)
        there = self.value[0, 0] in values
        result = chosen if chosen > 0 and there else -chosen
        array = torch.tensor([[float(value) for value in values], self.value[0, :3].tolist()])
        return result + array.sum() + len(self.value)

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

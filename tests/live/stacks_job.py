"""A job that says which Python frames it was in at each of its annotations: "round N" on stdin does all of it N times, and the
DONE line names a file with {"annotation": ["file(line): function", …]}, outermost first."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
import tempfile
import threading
from typing import Any, Callable, Iterator

import torch
from torch import nn

X = torch.ones(3)
truth: dict[str, list[str]] = {}
lock = threading.Lock()


def mark(what: str) -> int:
    frames = []
    frame: Any = sys._getframe(1)
    while frame is not None:
        frames.append(f"{frame.f_code.co_filename}({frame.f_lineno}): {frame.f_code.co_name}")
        frame = frame.f_back
    with lock:
        name = f"stack {len(truth)} {what}"
        truth[name] = frames[::-1]
    with torch.autograd.profiler.record_function(name):
        torch.neg(X)
    return 1


class Thing:
    def __init__(self) -> None:
        mark("constructor")

    def method(self) -> None:
        mark("method")

    @classmethod
    def of_class(cls) -> None:
        mark("class method")

    @staticmethod
    def of_none() -> None:
        mark("static method")

    @property
    def value(self) -> int:
        return mark("property")

    def __call__(self) -> None:
        mark("call")

    def __add__(self, other: object) -> int:
        return mark("operator")


def closure(level: int) -> Callable[[], None]:
    def inner() -> None:
        mark(f"closure {level}")
    return inner


def decorated(function: Callable[[], None]) -> Callable[[], None]:
    @functools.wraps(function)
    def wrapper() -> None:
        function()
    return wrapper


@decorated
def in_decorator() -> None:
    mark("decorator")


def generator(count: int) -> Iterator[int]:
    for number in range(count):
        mark("generator")
        yield number


def delegating() -> Iterator[int]:
    yield from generator(2)


@contextlib.contextmanager
def managed() -> Iterator[None]:
    mark("enters")
    try:
        yield
    finally:
        mark("leaves")


async def coroutine(level: int) -> None:
    mark(f"coroutine {level}")
    if level:
        await coroutine(level - 1)
        await asyncio.sleep(0)
        mark("coroutine, later")


async def several() -> None:
    await asyncio.gather(coroutine(2), coroutine(1))


def recursion(depth: int) -> int:
    if depth == 0:
        return mark("recursion")
    return recursion(depth - 1) + 1


def naïve_größe() -> None:  # two bytes a character as UTF-8, one in Python
    mark("Latin-1")


def 深い() -> None:
    mark("wide")


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        mark("forward of a function")
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        mark("backward of a function")
        return gradient * 2


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        mark("module")
        return self.inner(value)


def hook(gradient: torch.Tensor) -> torch.Tensor:
    mark("hook")
    return gradient


def made(number: int) -> None:
    """Code that lives for a moment: the next one may lie where it lay."""
    exec(compile("\n" * number + "mark('made')", f"<made {number:03}>", "exec"), {"mark": mark})


def work() -> None:
    thing = Thing()
    thing.method()
    Thing.of_class()
    Thing.of_none()
    thing.value
    thing()
    thing + 1
    closure(1)()
    in_decorator()
    list(generator(3))
    list(delegating())
    with managed():
        mark("with")
    [mark("list comprehension") for _ in range(2)]
    {mark("dict comprehension"): 1 for _ in range(2)}
    sum(mark("generator expression") for _ in range(2))
    (lambda: mark("lambda"))()
    list(map(lambda _: mark("from C"), range(2)))
    sorted([3, 1, 2], key=lambda value: mark("key") + value)
    functools.partial(mark, "partial")()
    for _ in range(2):
        mark("loop"); mark("loop, same line")
        (mark("first of two lines"),
         mark("second of two lines"))
    try:
        raise ValueError
    except ValueError:
        mark("except")
    finally:
        mark("finally")

    class Body:
        mark("class body")

    asyncio.run(several())
    recursion(3)
    recursion(60)
    naïve_größe()
    深い()
    for number in range(20):
        made(number)
    layer = Layer()
    value = torch.ones(2, 3, requires_grad=True)
    result = Doubled.apply(layer(value))
    result.register_hook(hook)
    result.sum().backward()


class Block(nn.Module):
    def __init__(self, shared: nn.Module) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.shared = shared
        self.items = nn.ModuleList([nn.Linear(8, 8) for _ in range(2)])
        self.by_name = nn.ModuleDict({"norm": nn.LayerNorm(8)})

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = self.shared(self.linear(value))
        for item in self.items:
            value = item(value)
        return self.by_name["norm"](value)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shared = nn.ReLU()
        self.blocks = nn.Sequential(Block(shared), Block(shared))
        self.recurrent = nn.LSTM(8, 8, batch_first=True)
        self.attention = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), 2)
        self.later: nn.Module

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = self.attention(self.recurrent(self.blocks(value).unsqueeze(0))[0])
        return self.later(value) if "later" in self._modules else value


def modules(model: Model, rounds: int) -> None:
    """A part of the model alone, then the model, which gets another part in the middle."""
    def watch(name: str, module: nn.Module) -> None:
        module.register_forward_pre_hook(lambda *_: mark(f"module {name}") and None)

    for name, module in model.named_modules():
        watch(name, module)
    for number in range(rounds):
        if number == rounds // 2:
            model.later = nn.Conv1d(1, 1, 1)
            watch("later", model.later)
        model.blocks[1](torch.randn(2, 8))
        model(torch.randn(2, 8)[:1])


def main() -> None:
    torch.set_num_threads(1)
    print("READY", os.getpid(), flush=True)
    for line in sys.stdin:
        command, count = line.split()
        for _ in range(int(count)):
            if command == "deep":
                recursion(300)
                continue
            if command == "modules":
                modules(Model(), 6)
                continue
            threads = [threading.Thread(target=work) for _ in range(2)]
            for thread in threads:
                thread.start()
            work()
            for thread in threads:
                thread.join()
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(truth, file)
        print(f"DONE truth={file.name}", flush=True)
        truth.clear()


if __name__ == "__main__":
    main()

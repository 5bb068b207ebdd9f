#!/usr/bin/env python3
"""Runs TorchScript and says what torch itself calls the Module Hierarchy of its operators: modules_job.py OUT_FILE

Where torch has Kineto, torch.profiler writes its trace into OUT_FILE. Elsewhere a mode asks torch::jit::currentModuleHierarchy() at each
operator, and OUT_FILE is a list of [name, hierarchy]. Prints `READY PID`, waits for a line, prints `DONE` and ends with stdin.
"""

import ctypes
import json
import os
import sys
import threading
from typing import Any, Callable

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

BEGIN = "proftrace.window.begin"
END = "proftrace.window.end"
ROUNDS = 4  # the graph that is run is another one from the third on
torch.set_num_threads(1)
torch.set_num_interop_threads(2)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.act = nn.ReLU()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.act(self.linear(value)) + 1.0

    @torch.jit.export
    def scaled(self, value: torch.Tensor, factor: float) -> torch.Tensor:
        return self.forward(value) * factor


def free(value: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(value) * 2.0


@torch.jit.interface
class Turn(nn.Module):
    """A call through an interface is not inlined: the interpreter has a frame more."""

    def turn(self, value: torch.Tensor, depth: int) -> torch.Tensor:
        pass


class Halving(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.turn(value, 0)

    @torch.jit.export
    def turn(self, value: torch.Tensor, depth: int) -> torch.Tensor:
        return self.block(value).mul(0.5).sin()


class Turning(nn.Module):
    inner: Turn

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Halving())

    def forward(self, value: torch.Tensor, depth: int) -> torch.Tensor:
        for number in range(depth):
            value = self.inner.turn(value, number).add(1.0)
        return value


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seq = nn.Sequential(Block(), Block())
        self.shared = Block()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(6, 2)

    def helper(self, value: torch.Tensor) -> torch.Tensor:
        return torch.tanh(value)

    @torch.jit.export
    def other(self, value: torch.Tensor) -> torch.Tensor:
        return self.shared.scaled(value, 3.0)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        value = self.shared(self.seq(value))
        for turn in range(2):
            if turn % 2 == 0:
                value = self.shared(value)
            else:
                value = value.abs()
        for block in self.blocks:
            value = block(value)
        return self.head(free(self.helper(value)))


class Forking(nn.Module):
    """Has enough to do until the fork's value is there: a frame that waits goes on on another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        here = self.block(value)
        future = torch.jit.fork(self.block, here)
        busy = torch.ones(400, 400)
        for _ in range(10):
            busy = torch.mm(busy, busy).clamp(0.0, 1.0)
        return torch.jit.wait(future) + here


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, value: torch.Tensor, wrong: bool) -> torch.Tensor:
        value = self.block(value)
        if wrong:
            value = torch.mm(value, torch.ones(7, 7))
        return value.neg()


@torch.jit.script
def without_module(value: torch.Tensor, turns: int) -> torch.Tensor:
    for _ in range(turns):
        value = torch.cos(value) * 1.5
    return value


def make() -> Callable[[], None]:
    torch.manual_seed(7)
    value, graded = torch.randn(3, 6), torch.randn(3, 6, requires_grad=True)
    net, forking, failing, turning = (torch.jit.script(module()) for module in (Net, Forking, Failing, Turning))
    traced = torch.jit.trace(Net(), value)
    plain = Net()

    def catch(function: Callable[[], Any]) -> None:
        try:
            function()
        except Exception:  # torch.jit.Error is no RuntimeError in all versions
            value.neg()

    def in_a_thread() -> None:
        thread = threading.Thread(target=lambda: net(value))
        thread.start()
        thread.join()

    def once() -> None:
        with torch.autograd.profiler.record_function("around"):
            net(value)
        value.neg()
        net(graded).sum().backward()
        net.other(value)
        traced(value)
        traced(graded).sum().backward()
        # No frozen module: torch.profiler (2.11) reads functions there that are gone, and ends the process.
        turning(value, 2)
        without_module(value, 2)
        catch(lambda: failing(value, True))
        failing(value, False)
        plain(value)
        if torch.profiler.kineto_available():
            forking(value)
        in_a_thread()

    return once


class Vector(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_void_p), ("end", ctypes.c_void_p), ("room", ctypes.c_void_p)]


class Asking(TorchDispatchMode):
    """Notes what each operator is in, then calls it: a row within the row that came here."""

    def __init__(self) -> None:
        super().__init__()
        library = ctypes.CDLL("libtorch_cpu.so" if os.path.exists("libtorch_cpu.so") else torch_library())
        self.ask = library["_ZN5torch3jit22currentModuleHierarchyB5cxx11Ev"]
        self.ask.argtypes, self.ask.restype = [ctypes.c_void_p], ctypes.c_void_p
        self.noted: list[tuple[str, str]] = []

    def hierarchy(self) -> str:
        """What it returns is left to the process: 32 bytes a string, as the C++11 ABI has them."""
        vector = Vector()
        self.ask(ctypes.byref(vector))
        texts = [ctypes.string_at(ctypes.c_uint64.from_address(at).value, ctypes.c_uint64.from_address(at + 8).value)
                 for at in range(vector.begin or 0, vector.end or 0, 32)]
        return "".join(text.decode() + "." for text in texts)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.noted.append((str(function._schema.name), self.hierarchy()))
        return function(*args, **(kwargs or {}))


def torch_library() -> str:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        return next(line.split()[-1] for line in maps if "libtorch_cpu.so" in line)


def mark(name: str) -> None:
    with torch.autograd.profiler.record_function(name):
        pass


def run(once: Callable[[], None]) -> None:
    mark(BEGIN)
    for _ in range(ROUNDS):
        once()
    mark(END)


def main() -> None:
    once = make()
    print(f"READY {os.getpid()}", flush=True)
    sys.stdin.readline()
    if torch.profiler.kineto_available():
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_modules=True) as profiler:
            run(once)
        profiler.export_chrome_trace(sys.argv[1])
    else:
        asking = Asking()
        with asking:
            run(once)
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(asking.noted, file)
    print("DONE", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

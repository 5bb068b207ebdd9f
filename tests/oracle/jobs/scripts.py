"""TorchScript: frames of its interpreter, differentiated graphs, forks, calls that are not inlined, exceptions."""

import time
from typing import Iterable, List

import torch
from torch import nn

import profiles
from workload import Context, Workload


@torch.jit.script
def branching(value: torch.Tensor, turns: int) -> torch.Tensor:
    for turn in range(turns):
        if turn % 2 == 0:
            value = torch.tanh(value) * 1.5
        else:
            value = value + torch.sigmoid(value)
    return value


@torch.jit.interface
class Turn(nn.Module):
    """Calls through an interface are not inlined: the interpreter has a frame for each."""

    def turn(self, value: torch.Tensor, depth: int) -> torch.Tensor:
        pass


class Halving(nn.Module):
    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.turn(value, 0)

    @torch.jit.export
    def turn(self, value: torch.Tensor, depth: int) -> torch.Tensor:
        return value.mul(0.5).sin()


class Turning(nn.Module):
    inner: Turn

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(Halving())

    def forward(self, value: torch.Tensor, depth: int) -> torch.Tensor:
        for number in range(depth):
            value = self.inner.turn(value, number).add(1.0)
        return value


@torch.jit.script
def part(value: torch.Tensor, factor: float) -> torch.Tensor:
    return (value * factor).relu().sum()


@torch.jit.script
def forking(value: torch.Tensor) -> torch.Tensor:
    first = torch.jit.fork(part, value, 2.0)
    second = torch.jit.fork(part, value, 3.0)
    here = value.cos().sum()
    return here + torch.jit.wait(first) + torch.jit.wait(second)


def forking_to_the_end(value: torch.Tensor) -> torch.Tensor:
    """The frame that waits ends on a thread of the pool, after its value is here: what this thread would begin
    meanwhile is in the frame or behind it by chance, and two profilers may see that differently."""
    result = forking(value)
    time.sleep(0.005)
    return result


@torch.jit.script
def failing(value: torch.Tensor, wrong: bool) -> torch.Tensor:
    value = value.abs()
    if wrong:
        value = torch.mm(value, torch.ones(7, 7))
    return value


@torch.jit.script
def raising(value: torch.Tensor) -> torch.Tensor:
    value = branching(value, 2)
    if value.sum().item() > -1e9:
        raise RuntimeError("as told")
    return value


@torch.jit.script
def parts(values: List[torch.Tensor]) -> torch.Tensor:
    pieces = [value.chunk(2)[0] for value in values]
    return torch.cat(pieces).split(1)[0]


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.norm(torch.relu(self.linear(value))) + self.extra(value)

    @torch.jit.export
    def extra(self, value: torch.Tensor) -> torch.Tensor:
        return value.mul(0.5)


class Scripted(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        torch.set_num_interop_threads(2)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.value = torch.randn(6, 6)
        self.weight = torch.randn(6, 6, requires_grad=True)
        self.model = torch.jit.script(Cell())
        self.frozen = torch.jit.freeze(torch.jit.script(Cell().eval()), preserved_attrs=[])
        self.deep = torch.jit.script(Turning())
        self.traced = torch.jit.trace(Cell(), torch.randn(2, 6))

    def step(self) -> None:
        branching(self.weight, 4).sum().backward()
        self.model(self.value).sum().backward()
        with torch.no_grad():
            self.total += self.frozen(self.value).sum().double()
            self.total += self.model.extra(self.value).sum().double()
        self.traced(self.value[:2]).sum().backward()
        self.total += self.deep(self.value, 3).sum().double()
        self.deep(self.weight, 2).sum().backward()
        if profiles.has_kineto():  # without it torch.profiler cannot tell the forks' threads apart
            for _ in range(3):
                self.total += forking_to_the_end(self.value).double()
        self.total += parts([self.value, self.value]).sum().double()
        self.catch(lambda: failing(self.value, True))
        self.total += failing(self.value, False).sum().double()
        self.catch(lambda: raising(self.value))

    def catch(self, function: object) -> None:
        try:
            function()  # type: ignore[operator]
        except Exception:  # torch.jit.Error has no common base with RuntimeError in all versions
            self.total += 1

    def tensors(self) -> Iterable[torch.Tensor]:
        gradient = self.weight.grad
        return [self.total] if gradient is None else [self.total, gradient]

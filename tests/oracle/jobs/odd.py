"""Statements of drawn programs that use PyTorch in rarer ways: each takes square matrices and gives one."""

from __future__ import annotations

import copy
import io
import random
import signal
from typing import Any, Callable

import torch
from torch import nn
from torch.autograd import forward_ad
from torch.nn import functional

from draws import SIDE, THROWING

Draw = Callable[[], torch.Tensor]
Odd = Callable[[random.Random, Draw], torch.Tensor]
DEEP = 24


def saved(chance: random.Random, draw: Draw) -> torch.Tensor:
    """What a backward needs is packed and unpacked by operators."""
    weight = draw().clone().requires_grad_(True)
    with torch.autograd.graph.saved_tensors_hooks(lambda value: value * 2, lambda value: value / 2):
        result = weight.tanh() * weight.exp().clamp(max=9)
    result.sum().backward(retain_graph=chance.random() < 0.3)
    assert weight.grad is not None
    return weight.grad


def transformed(chance: random.Random, draw: Draw) -> torch.Tensor:
    """torch.func, one transform in another."""
    if not hasattr(torch, "func"):
        return draw().sin()
    loss = chance.choice([lambda row: row.pow(2).sum(), lambda row: (row.sin() * row).sum(), lambda row: row.tanh().prod()])
    outer = chance.choice([torch.func.grad(loss), torch.func.jacrev(lambda row: row * loss(row)), torch.func.jacfwd(lambda row: row * loss(row))])
    result = torch.func.vmap(outer)(draw())
    return result if result.dim() == 2 else result.sum(2)


def dual(chance: random.Random, draw: Draw) -> torch.Tensor:
    """Derivatives that go forward."""
    with forward_ad.dual_level():
        value = forward_ad.make_dual(draw().clone(), draw().clone())
        result = chance.choice([torch.sin, torch.tanh, lambda v: v @ v, lambda v: v.sum(0).expand(SIDE, SIDE)])(value)
        plain, tangent = forward_ad.unpack_dual(result)
        return plain + tangent.clone()


def deep(chance: random.Random, draw: Draw) -> torch.Tensor:
    """An exception that leaves many annotations at once."""
    def descend(value: torch.Tensor, level: int) -> torch.Tensor:
        with torch.autograd.profiler.record_function(f"deep {level}"):
            value = value.mul(0.9)
            if level > 0:
                return descend(value, level - 1)
            chance.choice(THROWING)(value)
            return value
    try:
        return descend(draw(), chance.randrange(DEEP))
    except (RuntimeError, IndexError):
        return draw().add(1)


class Falling:
    """Calls operators when it is freed."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def __del__(self) -> None:
        self.value.neg_().add_(1)


def freed(chance: random.Random, draw: Draw) -> torch.Tensor:
    """Operators in a destructor: at once, or when an exception is over."""
    value = draw().clone()
    kept = Falling(value)
    if chance.random() < 0.5:
        del kept
        return value.mul(2)

    def fail(owner: Falling) -> None:
        torch.mm(owner.value, torch.ones(9, 9))

    try:
        owner = kept
        del kept
        fail(owner)
    except RuntimeError:
        del owner
    return value.mul(3)


def signalled(chance: random.Random, draw: Draw) -> torch.Tensor:
    """A handler in Python that calls operators, and may throw."""
    value, throws = draw().clone(), chance.random() < 0.3

    def handle(number: int, frame: Any) -> None:
        with torch.autograd.profiler.record_function("handler"):
            value.add_(1)
            if throws:
                torch.mm(value, torch.ones(9, 9))

    try:
        before = signal.signal(signal.SIGUSR2, handle)
    except ValueError:  # not the main thread
        return value.add(2)
    try:
        signal.raise_signal(signal.SIGUSR2)
    except RuntimeError:
        value.mul_(0.5)
    finally:
        signal.signal(signal.SIGUSR2, before)
    return value


def copied(chance: random.Random, draw: Draw) -> torch.Tensor:
    model = nn.Sequential(nn.Linear(SIDE, SIDE), nn.LayerNorm(SIDE))
    other = copy.deepcopy(model)
    stream = io.BytesIO()
    torch.save(other.state_dict(), stream)
    stream.seek(0)
    model.load_state_dict(torch.load(stream))
    with torch.no_grad():
        return model(draw())


def attended(chance: random.Random, draw: Draw) -> torch.Tensor:
    """With gradients, or by the fast path of inference."""
    layer = nn.TransformerEncoderLayer(SIDE, 2, 8, dropout=0.0, batch_first=True)
    if chance.random() < 0.5:
        result = layer(draw()[None])
        result.sum().backward()
        return result[0]
    with torch.no_grad():
        return layer.eval()(draw()[None])[0]


def recurrent(chance: random.Random, draw: Draw) -> torch.Tensor:
    layer = chance.choice([nn.GRU, nn.RNN])(SIDE, SIDE, bidirectional=chance.random() < 0.3)
    result, hidden = layer(draw()[None].clone().requires_grad_(chance.random() < 0.5))
    (result.sum() + hidden.sum()).backward()
    return result[0, :, :SIDE]


def mixed(chance: random.Random, draw: Draw) -> torch.Tensor:
    """Under autocast, whose kernels come before the usual ones."""
    weight = draw().clone().requires_grad_(True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=chance.random() < 0.8):
        result = functional.linear(weight @ draw(), weight).softmax(1)
    result.float().sum().backward()
    return result.float()


def wide(chance: random.Random, draw: Draw) -> torch.Tensor:
    """Tensors of many dimensions, empty ones, none, and long lists of them."""
    value = draw().reshape(2, 2, 1, 2, 1, 2, 1, 1)
    value = value.permute(*chance.sample(range(8), 8)).contiguous()
    parts = list(value.reshape(-1).split(1)) + [torch.empty(0)] * chance.randrange(3)
    scalar = torch.tensor(0.5)
    return torch.cat(parts).reshape(SIDE, SIDE).mul(scalar) + torch.empty(0, 3).sum()


def ordered(chance: random.Random, draw: Draw) -> torch.Tensor:
    """A generator that is left in its annotation, and closed within another."""
    def parts(value: torch.Tensor) -> Any:
        with torch.autograd.profiler.record_function("generator"):
            while True:
                value = value.mul(0.5)
                yield value

    steps = parts(draw())
    with torch.autograd.profiler.record_function("around"):
        result = next(steps)
        result = next(steps) + result
        steps.close()
        return result.relu()


ODD: list[Odd] = [saved, transformed, dual, deep, freed, signalled, copied, attended, recurrent, mixed, wide, ordered]

"""A program drawn from a seed: hundreds of operators, annotations, gradients and exceptions in random order."""

from __future__ import annotations

import random
from typing import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional

import profiles
from functions import Cubed, Nested, Refusing
from scripts import branching, failing, forking
from workload import Context, Workload, say

SIDE = 4
STATEMENTS_PER_STEP = 60
DEEPEST = 5

Unary = Callable[[torch.Tensor], torch.Tensor]

UNARY: list[Unary] = [
    torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.sin, lambda v: v.t(), lambda v: v.t().contiguous(),
    lambda v: v.clone(), lambda v: v.reshape(-1).view(SIDE, SIDE), lambda v: v.softmax(1), lambda v: v.flip(0),
    lambda v: v.sum(0, keepdim=True).expand(SIDE, SIDE), lambda v: v.mean(1, keepdim=True) + v, lambda v: v.clamp(-1, 1),
    lambda v: v.to(torch.float64).to(torch.float32), lambda v: torch.stack([v, v]).mean(0), lambda v: v.cumsum(1),
    lambda v: torch.where(v > 0, v, v * 0.1), lambda v: v.sort(1)[0], lambda v: v.masked_fill(v > 2, 2.0),
    lambda v: torch.cat([v[:2], v[2:]]), lambda v: v.roll(1, 0), lambda v: functional.gelu(v),
    lambda v: functional.layer_norm(v, (SIDE,)), lambda v: v.index_select(0, torch.tensor([3, 2, 1, 0])),
    lambda v: functional.conv2d(v.reshape(1, 1, SIDE, SIDE), torch.ones(1, 1, 3, 3), padding=1)[0, 0],
]
BINARY: list[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [
    torch.add, torch.mul, torch.sub, torch.mm, torch.matmul, torch.maximum,
    lambda a, b: torch.addmm(a, a, b), lambda a, b: torch.einsum("ij,kj->ik", a, b),
    lambda a, b: functional.linear(a, b), lambda a, b: torch.lerp(a, b, 0.3),
]
THROWING: list[Unary] = [
    lambda v: v.view(3, 5), lambda v: torch.mm(v, torch.ones(7, 7)), lambda v: torch.einsum("ij,jk->ik", v, torch.ones(9, 9)),
    lambda v: v.index_select(0, torch.tensor([99])), lambda v: functional.linear(v, torch.ones(3, 3)),
    lambda v: functional.conv2d(v, torch.ones(1, 2, 3)), lambda v: torch.cat([v, torch.ones(3)]),
    lambda v: functional.cross_entropy(v, torch.full((SIDE,), 77)),
]


class Randomized(Workload):
    """Its steps draw on from one seeded generator, so that a seed fixes the whole program."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        say(f"SEED {context.seed}")
        self.random = random.Random(context.seed)
        self.pool = [torch.randn(SIDE, SIDE) for _ in range(6)]
        self.model = nn.Sequential(nn.Linear(SIDE, SIDE), nn.Tanh(), nn.Linear(SIDE, SIDE))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.caught = torch.zeros(1)

    def step(self) -> None:
        for _ in range(STATEMENTS_PER_STEP):
            self.statement(0)

    def statement(self, depth: int) -> None:
        kinds = [(self.unary, 30), (self.binary, 25), (self.throw, 8), (self.backward, 6), (self.train, 4),
                 (self.function, 5), (self.refusal, 3), (self.script, 5), (self.packet, 4)]
        if profiles.has_kineto():  # without it torch.profiler cannot tell the forks' threads apart
            kinds.append((self.fork, 1))
        if depth < DEEPEST:
            kinds += [(lambda: self.annotated(depth), 14), (self.without_gradient, 6),
                      (lambda: self.guarded(depth), 7), (lambda: self.fast(depth), 5)]
        actions, weights = zip(*kinds)
        self.random.choices(actions, weights)[0]()

    def block(self, depth: int) -> None:
        for _ in range(self.random.randint(1, 5)):
            self.statement(depth + 1)

    def keep(self, value: torch.Tensor) -> None:
        """Back into the pool, with its values kept small and finite."""
        with torch.no_grad():
            value = torch.nan_to_num(value).clamp(-3, 3)
        self.pool[self.random.randrange(len(self.pool))] = value

    def draw(self) -> torch.Tensor:
        return self.random.choice(self.pool)

    def unary(self) -> None:
        self.keep(self.random.choice(UNARY)(self.draw()))

    def binary(self) -> None:
        self.keep(self.random.choice(BINARY)(self.draw(), self.draw()))

    def throw(self) -> None:
        try:
            self.random.choice(THROWING)(self.draw())
        except (RuntimeError, IndexError):
            self.caught += 1

    def backward(self) -> None:
        value = self.draw().clone().requires_grad_(True)
        for _ in range(self.random.randint(1, 4)):
            value = self.random.choice(UNARY)(value)
        if value.requires_grad:
            value.sum().backward()

    def function(self) -> None:
        """A Function in Python, at times twice differentiated."""
        value = self.draw().clone().requires_grad_(True)
        result = self.random.choice([Cubed, Nested]).apply(value)
        if self.random.random() < 0.3:
            (first,) = torch.autograd.grad(result.sum(), value, create_graph=True)
            result = first
        if result.requires_grad:
            result.sum().backward()

    def refusal(self) -> None:
        value = self.draw().clone().requires_grad_(True)
        try:
            Refusing.apply(value, self.random.choice(["operator", "python", "backward"])).sum().backward()
        except (KeyError, RuntimeError):
            self.caught += 1

    def script(self) -> None:
        if self.random.random() < 0.2:
            try:
                failing(self.draw(), True)
            except RuntimeError:
                self.caught += 1
            return
        value = self.draw().clone().requires_grad_(self.random.random() < 0.5)
        result = branching(value, self.random.randint(1, 3))
        if result.requires_grad:
            result.sum().backward()

    def fork(self) -> None:
        forking(self.draw())

    def packet(self) -> None:
        """Through the boxed interface."""
        self.keep(torch.ops.aten.mul(torch.ops.aten.sigmoid(self.draw()), 2.0))

    def fast(self, depth: int) -> None:
        make = getattr(torch._C._profiler, "_RecordFunctionFast", None)
        if make is None:
            return self.block(depth)
        with make(f"fast {self.random.randrange(4)}"):
            self.block(depth)

    def train(self) -> None:
        self.optimizer.zero_grad()
        functional.mse_loss(self.model(self.draw()), self.draw()).backward()
        self.optimizer.step()

    def annotated(self, depth: int) -> None:
        with torch.autograd.profiler.record_function(f"block {self.random.randrange(8)}"):
            self.block(depth)

    def without_gradient(self) -> None:
        with torch.inference_mode(self.random.random() < 0.3):
            self.random.choice(UNARY)(self.draw())
        with torch.no_grad():
            self.keep(self.random.choice(BINARY)(self.draw(), self.draw()))

    def guarded(self, depth: int) -> None:
        """An exception that leaves a block of annotations before it is caught."""
        try:
            with torch.autograd.profiler.record_function(f"guard {depth}"):
                self.block(depth)
                self.random.choice(THROWING)(self.draw())
        except (RuntimeError, IndexError):
            self.caught += 1

    def tensors(self) -> Iterable[torch.Tensor]:
        yield self.caught
        yield from self.pool
        yield from self.model.state_dict().values()

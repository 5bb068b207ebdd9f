"""Programs drawn from seeds: operators, annotations, gradients, threads and exceptions in random order."""

from __future__ import annotations

import random
import threading
from typing import Callable, Iterable

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import boxed
import profiles
import scripts
from draws import BINARY, PLAIN, SIDE, THROWING, UNARY
from functions import Cubed, Nested, Refusing
from odd import ODD
from scripts import branching, failing, forking_to_the_end, parts
from workload import Context, Workload, say

STATEMENTS = 15
DEEPEST = 5
SMALL_STACK_BYTES = 1 << 18


class Randomized(Workload):
    """Each step is a program of its own: seed, seed + 1, …, in an annotation that names it."""

    threads_have_profiles = True  # where torch.profiler can: elsewhere no program starts threads

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        say(f"SEED {context.seed}")
        self.next_seed = context.seed
        self.turning = torch.jit.script(scripts.Turning())
        self.cell = nn.LSTMCell(SIDE, SIDE)
        self.caught = torch.zeros(1)
        self.results: list[torch.Tensor] = []
        self.begin(-1)

    def begin(self, seed: int) -> None:
        """A program gives the same rows whatever ran before it."""
        self.random = random.Random(seed)
        torch.manual_seed(seed & 0xffff)
        self.pool = [torch.randn(SIDE, SIDE) for _ in range(6)]
        self.model = nn.Sequential(nn.Linear(SIDE, SIDE), nn.Tanh(), nn.Dropout(0.2), nn.Linear(SIDE, SIDE))
        make = self.random.choice([torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
        self.optimizer = make(self.model.parameters(), 0.01)

    def warm_up(self) -> None:
        for seed in (-3, -2, -1):
            self.run_program(seed)

    def step(self) -> None:
        self.run_program(self.next_seed)
        self.next_seed += 1

    def run_program(self, seed: int) -> None:
        with torch.autograd.profiler.record_function(f"program {seed}"):
            self.begin(seed)
            for _ in range(STATEMENTS):
                self.statement(0)
            self.results.append(torch.stack([value.sum() for value in self.pool]).sum())

    def statement(self, depth: int) -> None:
        kinds = [(self.unary, 30), (self.binary, 20), (self.plain, 8), (self.throw, 8), (self.backward, 6), (self.train, 4),
                 (self.function, 5), (self.refusal, 3), (self.script, 5), (self.packet, 4), (self.hooked, 3), (self.twice, 2),
                 (self.remembered, 2), (self.recurrent, 2), (self.odd, 5)]
        if profiles.has_kineto():  # without it torch.profiler cannot tell the forks' threads apart
            kinds.append((self.fork, 1))
        if depth < DEEPEST:
            kinds += [(lambda: self.annotated(depth), 12), (lambda: self.in_mode(depth), 6),
                      (lambda: self.guarded(depth), 7), (lambda: self.fast(depth), 5)]
        if depth == 0 and profiles.has_kineto() and profiles.can_profile_all_threads():
            kinds.append((self.threaded, 3))
        actions, weights = zip(*kinds)
        try:
            self.random.choices(actions, weights)[0]()
        except RuntimeError:  # a value that a backward needs was changed, a matrix is singular
            self.caught += 1

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

    def plain(self) -> None:
        with torch.no_grad():
            self.keep(self.random.choice(PLAIN)(self.draw(), self.draw()))

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
        choice = self.random.randrange(4)
        if choice == 0:
            self.keep(self.turning(self.draw(), self.random.randint(0, 2)))
            return
        if choice == 1:
            self.keep(parts([self.draw(), self.draw()]).expand(SIDE, SIDE))
            return
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
        forking_to_the_end(self.draw())

    def packet(self) -> None:
        """Through the boxed interface."""
        operators = torch.ops.proftrace_oracle
        self.keep(self.random.choice([
            lambda v: torch.ops.aten.mul(torch.ops.aten.sigmoid(v), 2.0), lambda v: torch.ops.aten.add.Tensor(v, v, alpha=2),
            lambda v: operators.shifted(v, 0.5), lambda v: operators.halved(torch.ops.aten.t(v)),
            lambda v: torch.ops.aten.cat([v[:1], v[1:]]), lambda v: torch.ops.aten.clamp(v, None, 1.0)])(self.draw()))

    def hooked(self) -> None:
        """Hooks that call operators, on tensors and on nodes."""
        weight = self.draw().clone().requires_grad_(True)
        middle = self.random.choice(UNARY)(weight)
        if not middle.requires_grad:
            return
        middle.register_hook(lambda gradient: gradient * 0.5)
        if middle.grad_fn is not None and self.random.random() < 0.5:
            middle.grad_fn.register_hook(lambda inputs, outputs: None)
        (middle.tanh() * 2).sum().backward(retain_graph=self.random.random() < 0.5)

    def twice(self) -> None:
        """Double backward, and a gradient that nothing needs."""
        weight = self.draw().clone().requires_grad_(True)
        other = self.draw().clone().requires_grad_(True)
        (first,) = torch.autograd.grad((weight.tanh() * self.draw()).sum(), weight, create_graph=True)
        torch.autograd.grad(first.pow(2).sum(), [weight, other], allow_unused=True)

    def remembered(self) -> None:
        value = self.draw().clone().requires_grad_(True)
        checkpoint(self.model, value, use_reentrant=self.random.random() < 0.5).sum().backward()

    def recurrent(self) -> None:
        hidden, state = self.cell(self.draw(), (self.draw(), self.draw()))
        (hidden + state).sum().backward()
        self.keep(hidden)

    def odd(self) -> None:
        self.keep(self.random.choice(ODD)(self.random, self.draw))

    def threaded(self) -> None:
        """On a thread that ends with it, at times with a small stack."""
        before = threading.stack_size(self.random.choice([0, 0, SMALL_STACK_BYTES]))
        thread = threading.Thread(target=self.block, args=(DEEPEST - 2,))
        thread.start()
        threading.stack_size(before)
        thread.join()

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

    def in_mode(self, depth: int) -> None:
        """Without gradients in one of the ways that there are, or with them again."""
        mode = self.random.choice([torch.no_grad, torch.inference_mode, torch.enable_grad, lambda: torch.set_grad_enabled(False)])
        if mode is not torch.inference_mode:
            with mode():
                for _ in range(self.random.randint(1, 3)):
                    self.keep(self.random.choice(UNARY)(self.draw()))
            return
        with mode():
            value = self.random.choice(UNARY)(self.random.choice(PLAIN)(self.draw(), self.draw()))
        self.pool[0] = torch.nan_to_num(value.clone()).clamp(-3, 3)

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
        yield from self.results

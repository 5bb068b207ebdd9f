#!/usr/bin/env python3
"""Loops of every kind, for the tests of step detection: prints `READY PID`, waits for a line, goes round, and prints when each
step began and ended:

    steps_job.py KIND [--steps N] [--seed S]

`STEPS [[start, end], …]` are CLOCK_MONOTONIC nanoseconds, `OFFSET n` is what makes them Unix time, `TID n` the thread's. It
ends when stdin does. Without --steps it goes round until another line comes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from typing import Callable

import torch
from torch import nn

torch.set_num_threads(1)


def mlp(inputs: int = 16, hidden: int = 32, outputs: int = 4, layers: int = 2) -> nn.Module:
    parts: list[nn.Module] = [nn.Linear(inputs, hidden), nn.ReLU()]
    for _ in range(layers - 1):
        parts += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, outputs))


def loader(batches: int, size: int = 8) -> "torch.utils.data.DataLoader":
    data = torch.utils.data.TensorDataset(torch.randn(batches * size, 16), torch.randint(0, 4, (batches * size,)))
    return torch.utils.data.DataLoader(data, batch_size=size)


class Kind:
    """One job. `step` is a round of its loop; `around` may do something between two of them."""

    def __init__(self) -> None:
        self.model = mlp()
        self.loss = nn.CrossEntropyLoss()
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(self.model.parameters())
        self.x = torch.randn(8, 16)
        self.y = torch.randint(0, 4, (8,))

    def update(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def step(self, number: int) -> None:
        raise NotImplementedError

    def between(self, number: int) -> None:
        """After a step."""


class Plain(Kind):
    def step(self, number: int) -> None:
        self.update(self.x, self.y)


class PlainZeroLast(Kind):
    """The order of PyTorch's quick start, and the loss is looked at."""

    def step(self, number: int) -> None:
        loss = self.loss(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        if loss.item() < 0:
            raise ValueError


class Loading(Kind):
    def __init__(self) -> None:
        super().__init__()
        self.batches = iter(loader(30000))

    def step(self, number: int) -> None:
        x, y = next(self.batches)
        self.update(x, y)


class Epochs(Loading):
    """Three epochs: the iterator ends and begins again, with an evaluation phase between."""

    def __init__(self) -> None:
        super().__init__()
        self.data = loader(12)
        self.test = loader(5)
        self.batches = iter(self.data)

    def between(self, number: int) -> None:
        if number % 12 != 11:
            return
        try:
            next(self.batches)
        except StopIteration:
            pass
        with torch.no_grad():
            for x, y in self.test:
                (self.model(x).argmax(1) == y).float().mean().item()
        self.batches = iter(self.data)


class Accumulation(Kind):
    def step(self, number: int) -> None:
        for _ in range(4):
            (self.loss(self.model(self.x), self.y) / 4).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class LoadingAccumulation(Loading):
    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        for _ in range(4):
            x, y = next(self.batches)
            (self.loss(self.model(x), y) / 4).backward()
        self.optimizer.step()


class TwoOptimizers(Kind):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)
        self.second = torch.optim.SGD(self.head.parameters(), lr=0.01)

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.second.zero_grad()
        self.loss(self.head(self.model(self.x)), self.y).backward()
        self.optimizer.step()
        self.second.step()


class Gan(Kind):
    critic_steps = 1

    def __init__(self) -> None:
        super().__init__()
        self.generator = mlp(8, 32, 16)
        self.critic = mlp(16, 32, 1)
        self.of_generator = torch.optim.Adam(self.generator.parameters())
        self.of_critic = torch.optim.Adam(self.critic.parameters())
        self.judge = nn.BCEWithLogitsLoss()
        self.real = torch.ones(8, 1)
        self.fake = torch.zeros(8, 1)

    def step(self, number: int) -> None:
        for _ in range(self.critic_steps):
            self.of_critic.zero_grad()
            made = self.generator(torch.randn(8, 8)).detach()
            loss = self.judge(self.critic(self.x), self.real) + self.judge(self.critic(made), self.fake)
            loss.backward()
            self.of_critic.step()
        self.of_generator.zero_grad()
        self.judge(self.critic(self.generator(torch.randn(8, 8))), self.real).backward()
        self.of_generator.step()


class CriticGan(Gan):
    critic_steps = 5


class Lbfgs(Kind):
    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.LBFGS(self.model.parameters(), lr=0.01, max_iter=4)

    def step(self, number: int) -> None:
        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = self.loss(self.model(self.x), self.y)
            loss.backward()
            return loss

        self.x = torch.randn(8, 16)
        self.optimizer.step(closure)


class Evaluation(Loading):
    def step(self, number: int) -> None:
        with torch.no_grad():
            x, y = next(self.batches)
            (self.model(x).argmax(1) == y).sum().item()


class BareEvaluation(Kind):
    def __init__(self) -> None:
        super().__init__()
        self.model = mlp(layers=6)

    def step(self, number: int) -> None:
        with torch.no_grad():
            self.model(self.x)


class Generation(Kind):
    """A token a step, with a growing cache."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(16, 48), nn.Linear(16, 16)]) for _ in range(4)])
        self.head = nn.Linear(16, 50)
        self.start()

    def start(self) -> None:
        self.token = torch.zeros(1, dtype=torch.long)
        self.cache: list[list[torch.Tensor]] = [[] for _ in self.layers]

    @torch.no_grad()
    def one(self) -> None:
        hidden = self.embedding(self.token)
        for (mix, out), cache in zip(self.layers, self.cache):
            query, key, value = mix(hidden).chunk(3, -1)
            cache[:] = [torch.cat([cache[0], key]), torch.cat([cache[1], value])] if cache else [key, value]
            hidden = hidden + out((query @ cache[0].t()).softmax(-1) @ cache[1])
        self.token = self.head(hidden).argmax(-1)

    def step(self, number: int) -> None:
        self.one()


class Prompts(Generation):
    """A whole answer a step: the outer loop goes over prompts."""

    def step(self, number: int) -> None:
        self.start()
        for _ in range(random.randint(6, 14)):
            self.one()


class Rollouts(Kind):
    """As PPO: a policy acts for a while, then several updates from what it did."""

    updates = 6

    def __init__(self) -> None:
        super().__init__()
        self.policy = mlp(4, 32, 2)
        self.optimizer = torch.optim.Adam(self.policy.parameters())

    def step(self, number: int) -> None:
        states, actions = [], []
        state = torch.randn(4)
        with torch.no_grad():
            for _ in range(random.randint(30, 60)):
                action = torch.multinomial(self.policy(state).softmax(-1), 1)
                states.append(state)
                actions.append(action)
                state = state * 0.9 + 0.1 * action.float()
        seen, did = torch.stack(states), torch.cat(actions)
        for _ in range(self.updates):
            self.optimizer.zero_grad()
            self.loss(self.policy(seen), did).backward()
            self.optimizer.step()


class Reinforce(Rollouts):
    updates = 1


class VariableLength(Kind):
    """A cell over sequences of all lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(16, 16)
        self.head = nn.Linear(16, 4)
        self.optimizer = torch.optim.SGD([*self.cell.parameters(), *self.head.parameters()], lr=0.01)

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        hidden = torch.zeros(8, 16)
        for _ in range(random.randint(2, 25)):
            hidden = self.cell(self.x, hidden)
        self.loss(self.head(hidden), self.y).backward()
        self.optimizer.step()


class Branches(Kind):
    """Layers that are dropped at random, and a second loss now and then."""

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        x = self.x
        if random.random() < 0.5:
            x = torch.tanh(x) + x.sin()
        loss = self.loss(self.model(x), self.y)
        if random.random() < 0.3:
            loss = loss + self.model(x).square().mean()
        loss.backward()
        if random.random() < 0.4:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class Warmup(Kind):
    """The first steps do more."""

    def step(self, number: int) -> None:
        if number < 8:
            for _ in range(10):
                torch.mm(self.x, self.x.t()).exp().cumsum(0)
        self.update(self.x, self.y)


class Logging(Kind):
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[torch.Tensor] = []

    def step(self, number: int) -> None:
        self.losses.append(self.update(self.x, self.y).detach())
        if number % 10 == 9:
            torch.stack(self.losses[-10:]).mean().item()


class EvaluatesBetween(Kind):
    """An evaluation phase in the middle, without a DataLoader."""

    def step(self, number: int) -> None:
        self.update(self.x, self.y)

    def between(self, number: int) -> None:
        if number == 14:
            with torch.no_grad():
                for _ in range(20):
                    self.loss(self.model(self.x), self.y).item()


class HandMade(Kind):
    """No optimizer at all."""

    def step(self, number: int) -> None:
        self.loss(self.model(self.x), self.y).backward()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter -= 0.01 * parameter.grad
                parameter.grad = None


class Fast(Kind):
    """About 100 us."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.zeros(4, requires_grad=True)
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1)

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        self.weight.sum().backward()
        self.optimizer.step()


class Slow(Kind):
    """Three seconds."""

    def step(self, number: int) -> None:
        self.optimizer.zero_grad()
        loss = self.loss(self.model(self.x), self.y)
        time.sleep(2.7)
        loss.backward()
        time.sleep(0.3)
        self.optimizer.step()


class Annotated(Kind):
    def step(self, number: int) -> None:
        with torch.autograd.profiler.record_function("one round"):
            with torch.autograd.profiler.record_function("training"):
                self.update(self.x, self.y)


class OwnProfiler(Kind):
    """The job steps a profiler of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.annotation = None

    def step(self, number: int) -> None:
        with torch.autograd.profiler.record_function(f"ProfilerStep#{number}"):
            self.update(self.x, self.y)
            self.update(self.x, self.y)


KINDS = {
    "plain": Plain, "zero_last": PlainZeroLast, "loading": Loading, "epochs": Epochs, "accumulation": Accumulation,
    "loading_accumulation": LoadingAccumulation, "two_optimizers": TwoOptimizers, "gan": Gan, "critic_gan": CriticGan,
    "lbfgs": Lbfgs, "evaluation": Evaluation, "bare_evaluation": BareEvaluation, "generation": Generation,
    "prompts": Prompts, "rollouts": Rollouts, "reinforce": Reinforce, "variable": VariableLength, "branches": Branches,
    "warmup": Warmup, "logging": Logging, "evaluates_between": EvaluatesBetween, "hand_made": HandMade, "fast": Fast,
    "slow": Slow, "annotated": Annotated, "own_profiler": OwnProfiler, "two_threads": Plain,
}


def go_round(job: Kind, steps: int, stop: threading.Event, times: list[tuple[int, int]]) -> None:
    number = 0
    while number < steps or not (steps or stop.is_set()):
        began = time.monotonic_ns()
        job.step(number)
        times.append((began, time.monotonic_ns()))
        job.between(number)
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="?", choices=KINDS, default=os.environ.get("PROFTRACE_STEPS_KIND", "plain"))
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    make: Callable[[], Kind] = KINDS[options.kind]
    job = make()
    other = make() if options.kind == "two_threads" else None
    make().step(0)  # PyTorch sets itself up
    times: list[tuple[int, int]] = []
    print(f"READY {os.getpid()}", flush=True)
    sys.stdin.readline()
    stop = threading.Event()
    if not options.steps:
        threading.Thread(target=lambda: (sys.stdin.readline(), stop.set()), daemon=True).start()
    beside = None
    if other is not None:
        beside = threading.Thread(target=go_round, args=(other, options.steps * 2, stop, []))
        beside.start()
    go_round(job, options.steps, stop, times)
    if beside is not None:
        beside.join()
    print(f"OFFSET {time.time_ns() - time.monotonic_ns()}")
    print(f"TID {threading.get_native_id()}")
    print(f"STEPS {json.dumps(times)}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

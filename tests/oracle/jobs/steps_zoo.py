#!/usr/bin/env python3
"""Loops of many shapes in turn, each with known steps, for measuring step detection (tests/bench/step_zoo.py):

    steps_zoo.py [--seed S] [--seeds N] [KIND ...]

Prints `READY PID`, waits for a line, runs every kind with every seed, and prints for each of them `LOOP {"kind", "seed", "begin",
"end", "steps"}` in CLOCK_MONOTONIC nanoseconds; `TID n` is the thread's. It ends when stdin does. A seed chooses a loop's model,
its optimizer, how many steps it goes, and how often it logs, evaluates, saves or samples. A step is one pass of the outer loop,
and one optimizer step where gradients are accumulated over passes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from typing import Any, Callable

import torch
from torch import nn

from steps_zoo_loops import *  # noqa: F403, the kinds
from steps_zoo_loops import Loop, Plain, Recurrent, mlp

torch.set_num_threads(1)
PAUSE_S = 0.08  # that no step has, before and after each loop


class AllOptimizers(Loop):
    """A step of one optimizer after the other, each of another class, in every pass."""

    def run(self) -> None:
        self.count = self.random.choice([2, 3, 5, 8])
        kinds = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad,
                 torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam]
        self.random.shuffle(kinds)
        optimizers = [kind(self.model.parameters(), lr=1e-4) for kind in kinds[:self.random.randint(4, 9)]]
        for _ in self.passes(range(self.count)):
            for optimizer in optimizers:
                optimizer.zero_grad()
                self.forward(self.x, self.y).backward()
                optimizer.step()


class Alternates(Loop):
    """One of two optimizers in each pass, in turn, on new data."""

    def run(self) -> None:
        other = mlp()
        pairs = [(self.model, self.optimizer), (other, self.make_optimizer(other))]
        for i, (x, y) in enumerate(self.passes(self.loader(self.count))):
            model, optimizer = pairs[i % 2]
            optimizer.zero_grad()
            self.loss(model(x), y).backward()
            optimizer.step()


class Gan(Loop):
    critics = (1,)
    loads = False

    def run(self) -> None:
        generator, critic = mlp(8, 32, 16, self.random.randint(1, 3)), mlp(16, 32, 1, self.random.randint(1, 3))
        of_generator = torch.optim.Adam(generator.parameters())
        of_critic = torch.optim.Adam(critic.parameters())
        judge = nn.BCEWithLogitsLoss()
        critics = self.random.choice(self.critics)
        real, fake = torch.ones(8, 1), torch.zeros(8, 1)
        for x, _ in self.passes(self.loader(self.count)) if self.loads else self.passes([(self.x, self.y)] * self.count):
            for _ in range(critics):
                of_critic.zero_grad()
                made = generator(torch.randn(8, 8)).detach()
                loss = judge(critic(x), real) + judge(critic(made), fake)
                loss.backward()
                of_critic.step()
            of_generator.zero_grad()
            judge(critic(generator(torch.randn(8, 8))), real).backward()
            of_generator.step()


class GanLoading(Gan):
    loads = True


class CriticGan(Gan):
    critics = (2, 3, 5)


class CriticGanFlat(Loop):
    """WGAN's form: the critic learns from every batch, the generator at every n-th."""

    def run(self) -> None:
        generator, critic = mlp(8, 32, 16), mlp(16, 32, 1)
        of_generator = torch.optim.RMSprop(generator.parameters())
        of_critic = torch.optim.RMSprop(critic.parameters())
        every = self.random.choice([2, 3, 5])
        for i, (x, _) in enumerate(self.passes(self.loader(self.count))):
            of_critic.zero_grad()
            loss = critic(generator(torch.randn(8, 8)).detach()).mean() - critic(x).mean()
            loss.backward()
            of_critic.step()
            with torch.no_grad():
                for parameter in critic.parameters():
                    parameter.clamp_(-0.1, 0.1)
            if i % every == every - 1:
                of_generator.zero_grad()
                (-critic(generator(torch.randn(8, 8))).mean()).backward()
                of_generator.step()


class Lbfgs(Loop):
    def run(self) -> None:
        optimizer = torch.optim.LBFGS(self.model.parameters(), lr=0.01, max_iter=self.random.choice([3, 5, 20]),
                                      line_search_fn=self.random.choice([None, "strong_wolfe"]))

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = self.forward(self.x, self.y)
            loss.backward()
            return loss

        for i in self.passes(range(min(self.count, 14))):
            loss = optimizer.step(closure)
            if i % 3 == 0:
                loss.item()


class Inner(Loop):
    """Several updates on each batch."""

    def run(self) -> None:
        updates = self.random.choice([2, 3, 5])
        for x, y in self.passes(self.loader(self.count)):
            for _ in range(updates):
                self.update(x, y)


class Meta(Loop):
    """As MAML: inner steps by hand, an outer step of the optimizer."""

    def run(self) -> None:
        model = mlp(layers=1)
        optimizer = torch.optim.Adam(model.parameters())
        inner = self.random.randint(1, 3)
        for _ in self.passes(range(self.count)):
            optimizer.zero_grad()
            for _ in range(2):
                weights = list(model.parameters())
                for _ in range(inner):
                    hidden = torch.relu(nn.functional.linear(self.x, weights[0], weights[1]))
                    loss = self.loss(nn.functional.linear(hidden, weights[2], weights[3]), self.y)
                    grads = torch.autograd.grad(loss, weights, create_graph=True)
                    weights = [weight - 0.1 * grad for weight, grad in zip(weights, grads)]
                hidden = torch.relu(nn.functional.linear(self.x, weights[0], weights[1]))
                self.loss(nn.functional.linear(hidden, weights[2], weights[3]), self.y).backward()
            optimizer.step()


class Teacher(Loop):
    def run(self) -> None:
        teacher = mlp(layers=4)
        for x, _ in self.passes(self.loader(self.count)):
            with torch.no_grad():
                wanted = teacher(x).softmax(1)
            self.optimizer.zero_grad()
            nn.functional.kl_div(self.model(x).log_softmax(1), wanted).backward()
            self.optimizer.step()


class Penalty(Loop):
    """A penalty on gradients: backward passes of backward passes."""

    def run(self) -> None:
        model = mlp()
        optimizer = self.make_optimizer(model)
        for _ in self.passes(range(self.count)):
            x = torch.randn(8, 16, requires_grad=True)
            out = model(x)
            slope, = torch.autograd.grad(out.sum(), x, create_graph=True)
            optimizer.zero_grad()
            (self.loss(out, self.y) + slope.norm()).backward()
            optimizer.step()


class Tasks(Loop):
    """One of several heads, at random."""

    def run(self) -> None:
        body = mlp(16, 32, 16)
        heads = nn.ModuleList([nn.Linear(16, 4), mlp(16, 16, 4, 1), mlp(16, 16, 4, 3)])
        optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()])
        for _ in self.passes(range(self.count)):
            optimizer.zero_grad()
            self.loss(self.random.choice(list(heads))(body(self.x)), self.y).backward()
            optimizer.step()


class Sequences(Loop):
    """A cell over sequences of all lengths."""

    def run(self) -> None:
        cell, head = nn.LSTMCell(16, 16), nn.Linear(16, 4)
        optimizer = self.make_optimizer(nn.ModuleList([cell, head]))
        for _ in self.passes(range(self.count)):
            optimizer.zero_grad()
            hidden = torch.zeros(8, 16), torch.zeros(8, 16)
            for _ in range(self.random.randint(2, 30)):
                hidden = cell(self.x, hidden)
            self.loss(head(hidden[0]), self.y).backward()
            optimizer.step()


class Curriculum(Loop):
    """The model grows in the middle, twice."""

    def run(self) -> None:
        for i in self.passes(range(self.count)):
            if i in (self.count // 3, 2 * self.count // 3):
                self.model = mlp(layers=3 + i // 3)
                self.optimizer = self.make_optimizer(self.model)
            self.update()


class Warms(Loop):
    def run(self) -> None:
        for i in self.passes(range(self.count)):
            for _ in range(10 if i < 4 else 0):
                torch.mm(self.x, self.x.t()).exp().cumsum(0)
            self.update()


class Pauses(Loop):
    def run(self) -> None:
        for i in self.passes(range(self.count)):
            if i == self.count // 2:
                time.sleep(0.3)
            self.update()


class Phases(Loop):
    """Trains, then only evaluates."""

    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.update()
        self.evaluate(self.random.randint(10, 40))


class HandMade(Loop):
    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.forward(self.x, self.y).backward()
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None


class HandMadeEvaluates(Loop):
    def run(self) -> None:
        for i in self.passes(range(self.count)):
            self.forward(self.x, self.y).backward()
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter.sub_(parameter.grad, alpha=0.01)
                    parameter.grad.zero_()
                if i % self.every == 0:
                    self.model(self.x).argmax(1).eq(self.y).sum().item()


class Generator(nn.Module):
    """A small language model with a cache."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(16, 48), nn.Linear(16, 16)]) for _ in range(layers)])
        self.head = nn.Linear(16, 50)
        self.cache: list[list[torch.Tensor]] = []

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        if not self.cache:
            self.cache = [[] for _ in self.layers]
        hidden = self.embedding(tokens)
        for (mix, out), cache in zip(self.layers, self.cache):
            query, key, value = mix(hidden).chunk(3, -1)
            cache[:] = [torch.cat([cache[0], key], -2), torch.cat([cache[1], value], -2)] if cache else [key, value]
            hidden = hidden + out((query @ cache[0].transpose(-1, -2)).softmax(-1) @ cache[1])
        return self.head(hidden[..., -1:, :])

    @torch.no_grad()
    def generate(self, prompt: torch.Tensor, count: int, way: str) -> None:
        self.cache = []
        beams = 3 if way == "beam" else 1
        tokens = prompt.repeat(beams, 1)
        scores = torch.zeros(beams)
        for _ in range(count):
            logits = self(tokens)[:, -1]
            if way == "greedy":
                tokens = logits.argmax(-1, keepdim=True)
            elif way == "sample":
                values, places = torch.topk(logits / 0.8, 20)
                tokens = places.gather(-1, torch.multinomial(values.softmax(-1), 1))
            elif way == "beam":
                total = (logits.log_softmax(-1) + scores[:, None]).view(-1)
                scores, best = torch.topk(total, beams)
                tokens = (best % 50)[:, None]
                order = torch.div(best, 50, rounding_mode="floor")
                for cache in self.cache:
                    cache[:] = [part.index_select(0, order) for part in cache]
            else:
                candidates = torch.topk(logits, 4).indices[0]
                near = torch.stack([nn.functional.cosine_similarity(self.embedding.weight[c], self.embedding.weight, dim=-1).max()
                                    for c in candidates])
                tokens = candidates[(logits[0, candidates] - near).argmax()].view(1, 1)
            if way != "beam" and (tokens == 49).all():
                break
        self.cache = []


class Tokens(Loop):
    """A token a step."""

    def run(self) -> None:
        model = Generator(self.random.randint(2, 6))
        token = torch.zeros(1, 1, dtype=torch.long)
        with torch.no_grad():
            for _ in self.passes(range(self.count * 2)):
                token = model(token)[:, -1].argmax(-1, keepdim=True)


class Answers(Loop):
    """An answer of some length a step, always in the same way."""

    ways = (("greedy",), ("sample",), ("beam",), ("contrast",))
    lengths = (5, 14)

    def run(self) -> None:
        model = Generator(self.random.randint(2, 4))
        ways = self.random.choice(self.ways)
        for _ in self.passes(range(min(self.count, 20))):
            for way in ways:
                model.generate(torch.randint(0, 49, (1, self.random.randint(3, 8))), self.random.randint(*self.lengths), way)


class AnswersEven(Answers):
    lengths = (8, 8)


class AnswersWays(Answers):
    """Four ways in turn are one step."""

    ways = (("greedy", "beam", "sample", "contrast"), ("greedy", "sample"), ("beam", "greedy", "contrast"))
    lengths = (6, 6)


class AnswersMixed(Loop):
    """Prompts of changing kinds: any way for each."""

    def run(self) -> None:
        model = Generator(2)
        for _ in self.passes(range(min(self.count, 20))):
            model.generate(torch.randint(0, 49, (1, self.random.randint(3, 8))), self.random.randint(4, 12),
                           self.random.choice(["greedy", "sample", "beam", "contrast"]))


class TrainsAndGenerates(Loop):
    """A generation after every so many training steps."""

    every_choices = (1, 1, 2, 3)
    ways = ("greedy", "sample")

    def run(self) -> None:
        model = Generator(2)
        every, way = self.random.choice(self.every_choices), self.random.choice(self.ways)
        optimizer = self.make_optimizer(model)
        tokens = torch.randint(0, 49, (4, 9))
        first = self.random.random() < 0.5
        for i in self.passes(range(self.count)):
            if first:
                optimizer.zero_grad()
            self.loss(model(tokens[:, :-1])[:, -1], tokens[:, -1]).backward()
            model.cache = []
            optimizer.step()
            if not first:
                optimizer.zero_grad()
            if i % every == every - 1:
                model.generate(tokens[:1, :4], 5, way)


class Evaluation(Loop):
    def run(self) -> None:
        with torch.no_grad():
            for x, y in self.passes(self.loader(self.count)):
                (self.model(x).argmax(1) == y).sum().item()


class EvaluationBare(Loop):
    def run(self) -> None:
        with torch.no_grad():
            for _ in self.passes(range(self.count)):
                self.model(self.x)


class Requests(Loop):
    """A server: requests of several models' kinds at uneven times."""

    def run(self) -> None:
        models = [mlp(layers=2), mlp(layers=5), Recurrent()]
        with torch.no_grad():
            for _ in self.passes(range(self.count)):
                time.sleep(self.random.random() * 0.004)
                self.random.choice(models)(torch.randn(1, 16)).softmax(1).tolist()


class Diffusion(Loop):
    """Images by a fixed number of denoising steps each."""

    def run(self) -> None:
        model = mlp(16, 32, 16)
        inner = self.random.choice([5, 10, 20])
        with torch.no_grad():
            for _ in self.passes(range(min(self.count, 14))):
                x = torch.randn(4, 16)
                for i in range(inner):
                    noise = model(x)
                    x = x - 0.1 * noise + (0.01 * torch.randn_like(x) if i < inner - 1 else 0)
                x.clamp(-1, 1).mul(127).to(torch.uint8)


class Encodes(Loop):
    """Embeddings of texts of all lengths, kept."""

    def run(self) -> None:
        model = nn.Sequential(nn.Embedding(50, 8), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)).eval()
        kept = []
        with torch.no_grad():
            for _ in self.passes(range(self.count)):
                kept.append(model(torch.randint(0, 50, (2, self.random.randint(3, 20)))).mean(1))


class Rollouts(Loop):
    updates = (3, 4, 6)

    def run(self) -> None:
        policy = mlp(4, 32, 2, self.random.randint(1, 2))
        optimizer = torch.optim.Adam(policy.parameters())
        updates = self.random.choice(self.updates)
        for _ in self.passes(range(min(self.count, 20))):
            states, actions = [], []
            state = torch.randn(4)
            with torch.no_grad():
                for _ in range(self.random.randint(15, 50)):
                    action = torch.multinomial(policy(state).softmax(-1), 1)
                    states.append(state)
                    actions.append(action)
                    state = state * 0.9 + 0.1 * action.float()
            seen, did = torch.stack(states), torch.cat(actions)
            for _ in range(updates):
                optimizer.zero_grad()
                self.loss(policy(seen), did).backward()
                optimizer.step()


class Reinforce(Rollouts):
    updates = (1,)


class Actors(Loop):
    """As A2C: torch.distributions, a fixed horizon, one update with two losses."""

    def run(self) -> None:
        body, act, value = mlp(4, 16, 16, 1), nn.Linear(16, 2), nn.Linear(16, 1)
        optimizer = torch.optim.Adam(nn.ModuleList([body, act, value]).parameters())
        state = [0.1] * 4
        for _ in self.passes(range(min(self.count, 20))):
            logs, values, rewards = [], [], []
            for _ in range(self.random.choice([5, 5, 8])):
                hidden = body(torch.tensor(state))
                policy = torch.distributions.Categorical(logits=act(hidden))
                action = policy.sample()
                logs.append(policy.log_prob(action))
                values.append(value(hidden))
                state = [0.9 * part + 0.1 * action.item() for part in state]
                rewards.append(state[0])
            advantage = torch.tensor(rewards) - torch.cat(values)
            loss = -(torch.stack(logs) * advantage.detach()).sum() + advantage.square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


class Replay(Loop):
    """As DQN: acts once, learns from a sample of what was, and copies weights now and then."""

    def run(self) -> None:
        net, target = mlp(4, 32, 2), mlp(4, 32, 2)
        optimizer = torch.optim.Adam(net.parameters())
        seen = [torch.randn(4) for _ in range(20)]
        for i in self.passes(range(self.count)):
            with torch.no_grad():
                action = net(seen[-1]).argmax().item()
            seen.append(torch.randn(4) + action)
            x = torch.stack(self.random.sample(seen, 8))
            with torch.no_grad():
                goal = target(x).max(1).values
            loss = (net(x).max(1).values - goal).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if i % 5 == 4:
                target.load_state_dict(net.state_dict())


class Annotated(Loop):
    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            with torch.autograd.profiler.record_function("forward"):
                self.optimizer.zero_grad()
                loss = self.forward(self.x, self.y)
            with torch.autograd.profiler.record_function("backward"):
                loss.backward()
            with torch.autograd.profiler.record_function("optimize"):
                self.optimizer.step()


class Chaos(Loop):
    """No loop: any operators in any order. No steps."""

    def run(self) -> None:
        x = torch.rand(8, 8)
        calls: list[Callable[[], Any]] = [
            lambda: x.exp(), lambda: x.mm(x), lambda: x.sum(), lambda: x.softmax(1), lambda: torch.randn(3), lambda: x.t(),
            lambda: x.sort(), lambda: x.cumsum(0), lambda: x.tanh(), lambda: x + 1, lambda: x.mul(2), lambda: x.norm().item()]
        for _ in range(self.random.randint(200, 900)):
            self.random.choice(calls)()


KINDS: dict[str, type[Loop]] = {
    kind.__name__: kind for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Loop) and kind is not Loop}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    Plain(1).run()  # PyTorch sets itself up
    print(f"READY {os.getpid()}", flush=True)
    sys.stdin.readline()
    print(f"OFFSET {time.time_ns() - time.monotonic_ns()}")
    print(f"TID {threading.get_native_id()}")
    for seed in range(options.seed, options.seed + options.seeds):
        for kind in options.kind or KINDS:
            loop = KINDS[kind](seed)
            time.sleep(PAUSE_S)
            began = time.monotonic_ns()
            loop.run()
            ended = time.monotonic_ns()
            time.sleep(PAUSE_S)
            facts = {"kind": kind, "seed": seed, "begin": began, "end": ended, "steps": loop.times}
            print(f"LOOP {json.dumps(facts)}", flush=True)
    print("DONE", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

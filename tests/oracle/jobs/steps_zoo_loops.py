"""What the loops of steps_zoo.py share, and those of one optimizer."""

from __future__ import annotations

import io
import random
import time
from typing import Any, Iterable, Iterator

import torch
from torch import nn


class Loop:
    """What the kinds share: choices by the seed, a model, an optimizer, and the steps' times."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        torch.manual_seed(seed)
        self.times: list[tuple[int, int]] = []
        self.count = self.random.choice([6, 9, 14, 20, 30, 40])
        self.every = self.random.choice([2, 2, 3, 4, 5, 7, 10])
        self.model = self.make_model()
        self.loss = nn.CrossEntropyLoss()
        self.x = torch.randn(8, 16)
        self.y = torch.randint(0, 4, (8,))
        self.zero = self.random.choice(["first", "last", "model", "by hand"])
        self.optimizer = self.make_optimizer(self.model)

    def make_model(self) -> nn.Module:
        which = self.random.randrange(5)
        if which == 0:
            return mlp(layers=self.random.randint(1, 8))
        if which == 1:
            return nn.Sequential(nn.Unflatten(1, (1, 16)), nn.Conv1d(1, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Flatten(), nn.Linear(56, 4))
        if which == 2:
            layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            return nn.Sequential(nn.Unflatten(1, (2, 8)), nn.TransformerEncoder(layer, self.random.randint(1, 3)), nn.Flatten(),
                                 nn.Linear(16, 4))
        if which == 3:
            return Recurrent()
        return nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 4))

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        kinds = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
        more: dict[str, Any] = {}
        if self.random.random() < 0.3:
            more["foreach"] = self.random.random() < 0.5
        return self.random.choice(kinds)(model.parameters(), lr=1e-3, **more)

    def passes(self, what: Iterable[Any], record: bool = True) -> Iterator[Any]:
        """Each item of `what`, fetched and worked on: one step."""
        iterator = iter(what)
        while True:
            began = time.monotonic_ns()
            try:
                item = next(iterator)
            except StopIteration:
                return
            yield item
            if record:
                self.times.append((began, time.monotonic_ns()))

    def clear(self) -> None:
        if self.zero == "model":
            self.model.zero_grad()
        elif self.zero == "by hand":
            for parameter in self.model.parameters():
                parameter.grad = None
        else:
            self.optimizer.zero_grad()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.loss(self.model(x), y)

    def update(self, x: torch.Tensor | None = None, y: torch.Tensor | None = None) -> torch.Tensor:
        if self.zero != "last":
            self.clear()
        loss = self.forward(self.x if x is None else x, self.y if y is None else y)
        loss.backward()
        self.optimizer.step()
        if self.zero == "last":
            self.clear()
        return loss

    def loader(self, batches: int, size: int = 8) -> Any:
        data = torch.utils.data.TensorDataset(torch.randn(batches * size, 16), torch.randint(0, 4, (batches * size,)))
        return torch.utils.data.DataLoader(data, batch_size=size, shuffle=self.random.random() < 0.5)

    @torch.no_grad()
    def evaluate(self, batches: int = 3) -> None:
        self.model.eval()
        for _ in range(batches):
            (self.model(self.x).argmax(1) == self.y).float().mean().item()
        self.model.train()

    @torch.no_grad()
    def evaluate_loader(self, loader: Any) -> None:
        self.model.eval()
        right = 0
        for x, y in loader:
            right += (self.model(x).argmax(1) == y).sum().item()
        self.model.train()

    def run(self) -> None:
        raise NotImplementedError


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(4, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.zeros(x.shape[0], 8)
        for part in x.view(-1, 4, 4).unbind(1):
            hidden = self.cell(part, hidden)
        return self.head(hidden)


def mlp(inputs: int = 16, hidden: int = 32, outputs: int = 4, layers: int = 2) -> nn.Sequential:
    parts: list[nn.Module] = [nn.Linear(inputs, hidden), nn.ReLU()]
    for _ in range(layers - 1):
        parts += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, outputs))


class Plain(Loop):
    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.update()


class Random(Loop):
    """New data in every step, made on the spot; the loss is looked at."""

    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.update(torch.randn(8, 16), torch.randint(0, 4, (8,))).item()


class Loading(Loop):
    def run(self) -> None:
        for x, y in self.passes(self.loader(self.count)):
            self.update(x, y)


class Epochs(Loop):
    def run(self) -> None:
        data, test = self.loader(self.random.randint(3, 9)), self.loader(self.random.randint(2, 6))
        for _ in range(self.random.randint(2, 5)):
            for x, y in self.passes(data):
                self.update(x, y)
            self.evaluate_loader(test)


class EpochsOnly(Loop):
    def run(self) -> None:
        data = self.loader(self.random.randint(3, 9))
        for _ in range(self.random.randint(2, 5)):
            for x, y in self.passes(data):
                self.update(x, y)


class EpochsBare(Loop):
    """Epochs over tensors, without a DataLoader, and an evaluation after each."""

    def run(self) -> None:
        parts = self.random.randint(3, 9)
        x, y = torch.randn(8 * parts, 16), torch.randint(0, 4, (8 * parts,))
        for _ in range(self.random.randint(2, 5)):
            order = torch.randperm(8 * parts)
            for i in self.passes(range(parts)):
                part = order[8 * i:8 * i + 8]
                self.update(x[part], y[part])
            self.evaluate(2)


class Accumulation(Loop):
    def run(self) -> None:
        parts = self.random.choice([2, 3, 4, 8])
        for _ in self.passes(range(self.count)):
            if self.zero != "last":
                self.clear()
            for _ in range(parts):
                (self.forward(self.x, self.y) / parts).backward()
            self.optimizer.step()
            if self.zero == "last":
                self.clear()


class AccumulationLoading(Loop):
    """The flat form: an optimizer step after every so many batches."""

    def run(self) -> None:
        parts = self.random.choice([2, 3, 4])
        began = time.monotonic_ns()
        for i, (x, y) in enumerate(self.loader(self.count * parts)):
            (self.forward(x, y) / parts).backward()
            if i % parts == parts - 1:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.times.append((began, time.monotonic_ns()))
                began = time.monotonic_ns()


class EvaluatesEvery(Loop):
    def run(self) -> None:
        for i in self.passes(range(self.count)):
            self.update()
            if i % self.every == self.every - 1:
                self.evaluate(self.random.randint(1, 4))


class EvaluatesOnce(Loop):
    """One pass without gradients after every second or third step."""

    def run(self) -> None:
        every = self.random.choice([2, 3])
        for i in self.passes(range(self.count)):
            self.update()
            if (i + 1) % every == 0:
                with torch.no_grad():
                    self.model(self.x).softmax(1)


class EvaluatesLoading(Loop):
    def run(self) -> None:
        test = self.loader(self.random.randint(2, 5))
        for i, (x, y) in enumerate(self.passes(self.loader(self.count))):
            self.update(x, y)
            if i % self.every == self.every - 1:
                self.evaluate_loader(test)


class EvaluatesLoaderOnly(Loop):
    """Training data without a DataLoader, test data with one."""

    def run(self) -> None:
        test = self.loader(self.random.randint(2, 5))
        for i in self.passes(range(self.count)):
            self.update(torch.randn(8, 16), torch.randint(0, 4, (8,)))
            if i % self.every == self.every - 1:
                self.evaluate_loader(test)


class EvaluatesAlways(Loop):
    """A validation loss after each step."""

    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.update()
            self.evaluate(1)


class Logs(Loop):
    def run(self) -> None:
        losses = []
        for i in self.passes(range(self.count)):
            losses.append(self.update().detach())
            if i % self.every == self.every - 1:
                torch.stack(losses).mean().item()
                losses.clear()


class LogsNorms(Loop):
    """Looks at every parameter now and then."""

    def run(self) -> None:
        for i in self.passes(range(self.count)):
            self.update()
            if i % self.every == self.every - 1:
                for parameter in self.model.parameters():
                    parameter.detach().norm().item()


class Saves(Loop):
    def run(self) -> None:
        for i in self.passes(range(self.count)):
            self.update()
            if i % self.every == self.every - 1:
                torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}, io.BytesIO())


class Copies(Loop):
    """Keeps the best weights, now and then."""

    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.update()
            if self.random.random() < 0.3:
                _ = {name: value.detach().clone() for name, value in self.model.state_dict().items()}


class Averages(Loop):
    """A moving average of the weights after each step."""

    def run(self) -> None:
        average = [parameter.detach().clone() for parameter in self.model.parameters()]
        for _ in self.passes(range(self.count)):
            self.update()
            with torch.no_grad():
                for kept, parameter in zip(average, self.model.parameters()):
                    kept.mul_(0.9).add_(parameter, alpha=0.1)


class Clips(Loop):
    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.optimizer.zero_grad()
            self.forward(self.x, self.y).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()


class Scheduled(Loop):
    def run(self) -> None:
        schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 3)
        for i in self.passes(range(self.count)):
            self.update()
            schedule.step()
            if i == 0:
                self.optimizer.param_groups[0]["lr"] *= 0.5


class Skips(Loop):
    """As AMP: now and then the gradients are thrown away."""

    def run(self) -> None:
        for _ in self.passes(range(self.count)):
            self.optimizer.zero_grad()
            self.forward(self.x, self.y).backward()
            if self.random.random() < 0.9:
                self.optimizer.step()


class SkipsLoading(Loop):
    def run(self) -> None:
        for x, y in self.passes(self.loader(self.count)):
            self.optimizer.zero_grad()
            loss = self.forward(x, y)
            if self.random.random() < 0.1:
                continue
            loss.backward()
            self.optimizer.step()


class TwoOptimizers(Loop):
    def run(self) -> None:
        head = nn.Linear(4, 4)
        second = self.make_optimizer(head)
        for _ in self.passes(range(self.count)):
            self.optimizer.zero_grad()
            second.zero_grad()
            self.loss(head(self.model(self.x)), self.y).backward()
            self.optimizer.step()
            second.step()


class ThreeOptimizers(Loop):
    """As SAC: two critics, an actor, and weights that follow."""

    def run(self) -> None:
        nets = [mlp(16, 24, 1, 2), mlp(16, 24, 1, 2), mlp(16, 24, 16, 2)]
        optimizers = [torch.optim.Adam(net.parameters()) for net in nets]
        target = [parameter.detach().clone() for parameter in nets[0].parameters()]
        for _ in self.passes(range(self.count)):
            x = torch.randn(8, 16)
            for net, optimizer in zip(nets[:2], optimizers):
                loss = (net(x) - 1).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss = -nets[0](nets[2](x)).mean()
            optimizers[2].zero_grad()
            loss.backward()
            optimizers[2].step()
            with torch.no_grad():
                for kept, parameter in zip(target, nets[0].parameters()):
                    kept.mul_(0.99).add_(parameter, alpha=0.01)


class GreedyActs(Loop):
    """As a policy that takes the best action, told in one of the ways that people write, and learns several times from what it saw."""

    ways: dict[str, Any] = {
        "argmax": lambda values: values.argmax().item(),
        "argmax, viewed": lambda values: values.argmax(-1).view(1, 1).item(),
        "max": lambda values: values.max(-1)[1].item(),
        "max, viewed": lambda values: values.max(-1)[1].view(1, 1).item(),
        "max, listed": lambda values: values.unsqueeze(0).max(1).indices.tolist()[0],
        "topk": lambda values: values.topk(1)[1].squeeze().item(),
    }

    def run(self) -> None:
        act = self.ways[self.random.choice(sorted(self.ways))]
        policy = mlp(4, 32, 2, self.random.randint(1, 2))
        optimizer = torch.optim.Adam(policy.parameters())
        for _ in self.passes(range(min(self.count, 20))):
            states, actions = [], []
            state = torch.randn(4)
            with torch.no_grad():
                for _ in range(self.random.randint(15, 50)):
                    action = act(policy(state))
                    states.append(state)
                    actions.append(action)
                    state = state * 0.9 + 0.1 * action
            seen, did = torch.stack(states), torch.tensor(actions)
            for _ in range(4):
                optimizer.zero_grad()
                self.loss(policy(seen), did).backward()
                optimizer.step()


class EvaluatesByMax(Loop):
    """Now and then a look at loss and accuracy, where the best class is taken right before the loss is fetched."""

    def run(self) -> None:
        right = torch.zeros(())
        for i in self.passes(range(self.count)):
            self.update()
            if i % self.every:
                continue
            with torch.no_grad():
                for _ in range(4):
                    made = self.model(self.x)
                    loss = self.loss(made, self.y)
                    best = made.max(1)[1] if self.count > 14 else made.argmax(1)
                    loss.item()
                    right += (best == self.y).sum()


class LooksByMax(Loop):
    """The best class of what was learned from is taken behind the update, and the loss is fetched."""

    def run(self) -> None:
        for i in self.passes(range(self.count)):
            self.optimizer.zero_grad()
            made = self.model(self.x)
            loss = self.loss(made, self.y)
            loss.backward()
            self.optimizer.step()
            if i % self.every == 0:
                best = torch.max(made, 1)[1]
                loss.item()
                (best == self.y).sum().item()


class EvaluatesFetched(Loop):
    """Predictions of an evaluation's DataLoader are fetched, by argmax, max or topk; training loads as well, or makes its data."""

    def run(self) -> None:
        way = self.random.choice(["argmax", "max", "topk"])
        test = self.loader(3)
        made = self.random.random() < 0.5
        for i, (x, y) in enumerate(self.passes([(self.x, self.y)] * self.count if made else self.loader(self.count))):
            self.update(x, y)
            if i % self.every:
                continue
            with torch.no_grad():
                for seen, _ in test:
                    out = self.model(seen)
                    best = out.argmax(1) if way == "argmax" else out.max(1)[1] if way == "max" else out.topk(1)[1]
                    best.tolist()

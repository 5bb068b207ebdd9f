"""Ordinary training jobs of one thread."""

from __future__ import annotations

from typing import Iterable

import torch
from torch import nn
from torch.nn import functional

from workload import Context, Workload


class Training(Workload):
    """A model, an optimizer, fixed inputs, one loss."""

    def __init__(self, context: Context, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(context)
        self.model = model
        self.optimizer = optimizer

    def loss(self) -> torch.Tensor:
        raise NotImplementedError

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def tensors(self) -> Iterable[torch.Tensor]:
        return self.model.state_dict().values()


class Mlp(Training):
    def __init__(self, context: Context) -> None:
        model = nn.Sequential(
            nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 64), nn.GELU(),
            nn.Linear(64, 10))
        super().__init__(context, model, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9))
        self.inputs = torch.randn(16, 32)
        self.targets = torch.randint(0, 10, (16,))

    def loss(self) -> torch.Tensor:
        with torch.autograd.profiler.record_function("forward"):
            return functional.cross_entropy(self.model(self.inputs), self.targets)


class TinyOps(Training):
    """Workload A of the slow-down measurements: many operators of about a microsecond."""

    def __init__(self, context: Context) -> None:
        layers: list[nn.Module] = []
        for _ in range(6):
            layers += [nn.Linear(64, 64), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(64, 64))
        super().__init__(context, model, torch.optim.SGD(model.parameters(), 0.01))
        self.inputs = torch.randn(8, 64)
        self.targets = torch.randn(8, 64)

    def loss(self) -> torch.Tensor:
        return functional.mse_loss(self.model(self.inputs), self.targets)


class MuchPython(TinyOps):
    """A step of it calls 20 000 functions of Python that call no operator, as loading and tokenizing do."""

    def loss(self) -> torch.Tensor:
        words = [self.word(number) for number in range(5000)]
        self.targets[0, 0] = len(words) % 2
        return super().loss()

    def word(self, number: int) -> int:
        return self.letter(number) + self.letter(number >> 3) + self.letter(number >> 5)

    @staticmethod
    def letter(number: int) -> int:
        return number * 31 % 26


class Transformer(Training):
    """Workload B: a TransformerEncoder with Adam; d=256, 4 heads, ff 1024, sequence 64, batch 8."""

    def __init__(self, context: Context) -> None:
        layer = nn.TransformerEncoderLayer(d_model=256, nhead=4, dim_feedforward=1024, batch_first=True)
        model = nn.TransformerEncoder(layer, num_layers=1)
        super().__init__(context, model, torch.optim.Adam(model.parameters(), 1e-4))
        self.inputs = torch.randn(8, 64, 256)
        self.targets = torch.randn(8, 64, 256)

    def loss(self) -> torch.Tensor:
        return functional.mse_loss(self.model(self.inputs), self.targets)


class ConvNet(Training):
    def __init__(self, context: Context) -> None:
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, stride=2, groups=2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(16, 10))
        super().__init__(context, model, torch.optim.AdamW(model.parameters(), 1e-3))
        self.inputs = torch.randn(4, 3, 16, 16)
        self.targets = torch.randint(0, 10, (4,))

    def loss(self) -> torch.Tensor:
        return functional.cross_entropy(self.model(self.inputs), self.targets)


class LstmModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(48, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.embedding(tokens))[0])


class Lstm(Training):
    def __init__(self, context: Context) -> None:
        model = LstmModel()
        super().__init__(context, model, torch.optim.RMSprop(model.parameters(), 1e-3))
        self.tokens = torch.randint(0, 50, (4, 12))

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def loss(self) -> torch.Tensor:
        scores = self.model(self.tokens)
        return functional.cross_entropy(scores[:, :-1].reshape(-1, 50), self.tokens[:, 1:].reshape(-1))

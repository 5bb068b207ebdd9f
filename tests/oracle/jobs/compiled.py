"""torch.compile on the CPU: compiled regions, graph breaks, backward through AOTAutograd, recompilation in the window."""

from __future__ import annotations

from typing import Iterable

import torch
from torch import nn

from workload import Context, Workload


def broken(value: torch.Tensor) -> torch.Tensor:
    """Two graphs with a break between them."""
    value = value.sin() * 2
    torch._dynamo.graph_break()
    return value.cos().sum()


class Compiled(Workload):
    @staticmethod
    def missing() -> str:
        return "" if hasattr(torch, "compile") else "this PyTorch has no torch.compile"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 4))
        self.model = torch.compile(model)
        self.optimizer = torch.optim.SGD(model.parameters(), 0.01)
        self.broken = torch.compile(broken)
        self.eager = torch.compile(lambda value: (value * 3).relu().sum(), backend="eager")
        self.value = torch.randn(3, 8)
        self.rows = 3

    def step(self) -> None:
        self.optimizer.zero_grad()
        result = self.model(self.value).pow(2).sum()
        result.backward()
        self.optimizer.step()
        with torch.no_grad():
            self.total += self.model(self.value).sum().double()
        self.total += self.broken(self.value).double()
        self.total += self.eager(self.value).double()

    def run(self, steps: int) -> None:
        super().run(steps)
        # Another shape: compiled while recorded.
        self.total += self.eager(torch.ones(5, 8)).double()

    def tensors(self) -> Iterable[torch.Tensor]:
        yield self.total
        yield from self.model.state_dict().values()

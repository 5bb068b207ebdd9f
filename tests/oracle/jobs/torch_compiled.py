"""torch.compile as trainers use it: a transformer with lengths that change, gradient checkpointing, custom operators, cond, and
functions that break graphs."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from libraries import Library

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 16)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 40)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        from torch.utils.checkpoint import checkpoint
        return self.head(checkpoint(self.block, self.table(tokens), use_reentrant=False))


@torch.library.custom_op("proftrace_oracle::scaled", mutates_args=())
def scaled(value: torch.Tensor, factor: float) -> torch.Tensor:
    return value * factor


@scaled.register_fake
def _(value: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(value)


def backward_of_scaled(ctx: Any, grad: torch.Tensor) -> Any:
    return grad * ctx.factor, None


def context_of_scaled(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.factor = inputs[1]


scaled.register_autograd(backward_of_scaled, setup_context=context_of_scaled)


class Dynamic(Library):
    """Lengths that change."""

    def prepare(self) -> None:
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.compiled = torch.compile(self.model, dynamic=True)
        self.length = 5

    def step(self) -> None:
        self.length = 5 + (self.length - 4) % 4
        tokens = torch.randint(0, 40, (2, self.length))
        functional.cross_entropy(self.compiled(tokens).flatten(0, 1), tokens.flatten()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()


class Broken(Library):
    """Graph breaks, custom operators, control flow in graphs, an AOT backend and a backend of one's own."""

    def prepare(self) -> None:
        self.model = nn.Linear(6, 6)

        @torch.compile
        def broken(value: torch.Tensor) -> torch.Tensor:
            value = self.model(value).sin()
            if value.sum() > 1e9:
                value = value + 1
            number = float(value.detach().abs().max().item() * 0 + 2)
            print(end="")
            return scaled(value.cos(), number).relu()

        @torch.compile(backend="aot_eager", fullgraph=True)
        def chosen(value: torch.Tensor) -> torch.Tensor:
            return torch.cond(value.sum() > 0, lambda v: v.sin(), lambda v: v.cos(), (value,))

        @torch.compile(backend="eager")
        def plain(value: torch.Tensor) -> torch.Tensor:
            return torch.func.vmap(lambda row: row.softmax(0))(value) + torch.rand(6)

        self.functions = [broken, chosen, plain]

    def step(self) -> None:
        for function in self.functions:
            value = torch.rand(3, 6, requires_grad=True)
            result = function(value)
            result.sum().backward()
            self.add(result)
        self.model.zero_grad()

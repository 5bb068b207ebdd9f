#!/usr/bin/env python3
"""An ordinary training job that knows nothing of proftrace: attach to it by PID.

A small network of convolutions and a Transformer encoder learns to tell made-up pictures apart, fed by a DataLoader with
two workers. Once a second it prints how long a step takes. It runs until it is stopped, or for --seconds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

CLASSES = 4
SIDE = 24


class Pictures(Dataset):
    """Pictures of stripes: the class is their direction and width, with noise over it."""

    def __len__(self) -> int:
        return 20_000

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        kind = number % CLASSES
        across = torch.arange(SIDE, dtype=torch.float32).expand(SIDE, SIDE)
        stripes = torch.sin((across if kind % 2 else across.t()) * (0.5 if kind < 2 else 1.5))
        return (stripes + 0.3 * torch.randn(SIDE, SIDE)).unsqueeze(0), kind


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        layer = nn.TransformerEncoderLayer(d_model=32, nhead=4, dim_feedforward=64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.head = nn.Linear(32, CLASSES)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        with record_function("features"):
            features = self.features(pictures)
        with record_function("encoder"):
            tokens = self.encoder(features.flatten(2).transpose(1, 2))
        return self.head(tokens.mean(1))


class StepClock:
    """Prints the median step time of each second."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.steps = 0
        self.printed = self.last = time.monotonic()

    def step(self, loss: float) -> None:
        now = time.monotonic()
        self.times.append(now - self.last)
        self.last = now
        self.steps += 1
        if now - self.printed >= 1:
            median_ms = 1e3 * statistics.median(self.times)
            print(f"step {self.steps}: loss {loss:.3f}, median step {median_ms:.2f} ms", flush=True)
            self.times.clear()
            self.printed = now


def train(seconds: float) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Pictures(), batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    clock = StepClock()
    end = time.monotonic() + seconds if seconds else float("inf")
    while True:
        for pictures, kinds in loader:
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(pictures), kinds)
            loss.backward()
            optimizer.step()
            clock.step(loss.item())
            if time.monotonic() > end:
                return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.0, help="0 = until it is stopped")
    options = parser.parse_args()
    print(f"training with torch {torch.__version__}, PID {os.getpid()}", flush=True)
    train(options.seconds)


if __name__ == "__main__":
    main()

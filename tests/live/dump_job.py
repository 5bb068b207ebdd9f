"""Trains a small model on one thread while others run Python, wait and sleep; prints a checksum of every weight, and how long
the steps took. The argument: how many steps."""

from __future__ import annotations

import hashlib
import sys
import threading
import time

import torch
from torch import nn


def spin(stop: threading.Event) -> None:
    total = 0
    while not stop.wait(0.001):
        total += sum(number * number for number in range(1000))


def main() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.TransformerEncoderLayer(64, 4, 64, dropout=0.1), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters())
    stop = threading.Event()
    threads = [threading.Thread(target=spin, args=(stop,), name="spinner"),
               threading.Thread(target=stop.wait, name="waiter")]
    for thread in threads:
        thread.start()
    print("READY", flush=True)
    sys.stdin.readline()
    begin = time.monotonic()
    for _ in range(int(sys.argv[1])):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 1, 32)).square().mean()
        loss.backward()
        optimizer.step()
    elapsed_s = time.monotonic() - begin
    stop.set()
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    print(f"DONE {digest.hexdigest()} {elapsed_s:.3f}", flush=True)
    sys.stdin.readline()
    for thread in threads:
        thread.join()


main()

"""Steps of a training loop, to which one thing can be added. Commands on stdin, one a line:

    start KIND   DONE kind=…; from now on steps are of that kind

`usual` is the loop as it is; each other kind adds one thing that takes longer (ADDED in compare_test.py)."""

from __future__ import annotations

import os
import threading
import time

import torch

torch.set_num_threads(1)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.Linear(256, 256)
        self.decoder = torch.nn.Linear(256, 256)
        self.is_wide = False

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.encoder(batch).relu()
        if self.is_wide:
            # Calls from one place that follow each other are one row.
            hidden = self.decoder(hidden)
            hidden = self.decoder(hidden)
            hidden = self.decoder(hidden)
            hidden = self.decoder(hidden)
        return self.decoder(hidden)


class Loop:
    def __init__(self) -> None:
        self.kind = "usual"
        self.is_over = False

    def take_commands(self) -> None:
        # Not by sys.stdin: a fork while it is read leaves the child with its lock held.
        rest = b""
        while data := os.read(0, 1000):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self.kind = line.decode().split()[-1]
                print(f"DONE kind={self.kind}", flush=True)
        self.is_over = True

    def run(self) -> None:
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), 0.001)
        batch = torch.ones(64, 256)
        row, wide = batch[0], torch.ones(384, 384)
        while not self.is_over:
            net.is_wide = self.kind == "decoder"
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
            if self.kind == "matmul":
                torch.matmul(wide, wide)
            elif self.kind == "sleep":
                time.sleep(0.02)
            elif self.kind == "python":
                sum(i * i for i in range(60_000))
            elif self.kind == "sigmoids":
                for _ in range(300):
                    torch.sigmoid(row)


if __name__ == "__main__":
    loop = Loop()
    print(f"READY {os.getpid()}", flush=True)
    threading.Thread(target=loop.take_commands, daemon=True).start()
    loop.run()

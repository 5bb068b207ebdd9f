#!/usr/bin/env python3
"""A training loop for the flight recorder's tests: numbered steps, which a line on stdin makes slow once, fork workers, or end.

`slow SECONDS` | `fail` (an allocation that cannot be) | `child CODE` (a child that works and exits with it) | `crash` | `stop`
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import torch
from torch.autograd.profiler import record_function


def work_in_child(code: int) -> None:
    pid = os.fork()
    if pid == 0:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            torch.ones(4).sqrt()
        os._exit(code)
    os.waitpid(pid, 0)


class Items(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(0.005)
        return torch.full((8,), float(number)).sqrt()


def main() -> None:
    torch.set_num_threads(1)
    lines: list[str] = []

    def read() -> None:
        for line in sys.stdin:
            lines.append(line)
        lines.append("stop")

    threading.Thread(target=read, daemon=True).start()
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    data = torch.rand(4, 8)

    def step(pause_s: float = 0.02) -> None:
        optimizer.zero_grad()
        with record_function(f"at {time.time_ns()}"):
            loss = model(data).sum()
        time.sleep(pause_s)
        loss.backward()
        optimizer.step()

    step()
    print(f"READY {os.getpid()}", flush=True)
    while True:
        if not lines:
            step()
            continue
        command, *arguments = lines.pop(0).split()
        if command == "stop":
            break
        if command == "slow":
            step(float(arguments[0]))
        elif command == "fail":
            try:
                torch.empty(1 << 60)
            except RuntimeError:
                pass
        elif command == "child":
            work_in_child(int(arguments[0]))
        elif command == "epochs":
            for _ in range(int(arguments[0])):
                for _ in torch.utils.data.DataLoader(Items(), batch_size=4, num_workers=2):
                    step(0.001)
                threads = [threading.Thread(target=lambda: model(data)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        elif command == "crash":
            os.kill(os.getpid(), signal.SIGKILL)
        print(f"DONE {command}", flush=True)


if __name__ == "__main__":
    main()

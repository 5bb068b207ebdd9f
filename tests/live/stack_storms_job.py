"""stacks_job.py's annotations where stacks are hard to read: on threads that come and go, in signal handlers, in finalizers that the collector of garbage
runs, in code that is made and forgotten, in forked children, beside threads of C++. "storm N" on
stdin; "fork N" does it in a child."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time
from typing import Any

import stacks_job
import torch
from stacks_job import mark

stacks_job.lock = threading.RLock()  # type: ignore[assignment]  # a handler may come while it is held


@torch.jit.script
def neg_often(value: torch.Tensor, count: int) -> torch.Tensor:
    for _ in range(count):
        value = torch.neg(value)
    return value


@torch.jit.script
def on_another_thread(value: torch.Tensor) -> torch.Tensor:
    future = torch.jit.fork(neg_often, value, 50)
    return torch.jit.wait(future)


class Finalized:
    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        mark("finalizer")


def on_signal(*_: Any) -> None:
    mark("signal handler")


def short_thread(depth: int) -> None:
    if depth:
        short_thread(depth - 1)
    mark("short thread")


def made_code(number: int) -> None:
    names: dict[str, Any] = {"mark": mark}
    exec(f"def made_{number % 7}():\n" + "\n" * (number % 5) + f"    mark('made code')\nmade_{number % 7}()", names)  # pylint: disable=exec-used


def generate(count: int) -> Any:
    for _ in range(count):
        mark("generator")
        yield


def raising(depth: int) -> None:
    if depth:
        return raising(depth - 1)
    mark("before an exception")
    torch.ones(2) @ torch.ones(3)


def storm(has_pool: bool = True) -> None:
    threads = [threading.Thread(target=short_thread, args=(i % 9,)) for i in range(24)]
    for thread in threads:
        thread.start()
    signal.raise_signal(signal.SIGUSR1)
    for i in range(30):
        Finalized()
        made_code(i)
        if i % 10 == 0:
            gc.collect()
    for _ in generate(5):
        if has_pool:
            on_another_thread(stacks_job.X)
    for i in range(4):
        try:
            raising(i)
        except RuntimeError:
            mark("after an exception")
    for thread in threads:
        thread.join()


def write_truth() -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump(stacks_job.truth, file)
    return file.name


def in_child(rounds: int) -> None:
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1] != 0:
            raise SystemExit("a forked child failed")
        return
    stacks_job.truth.clear()
    time.sleep(0.5)  # until it is recorded
    for _ in range(rounds):
        storm(has_pool=False)  # it did not come along
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGPROF, on_signal)
    signal.signal(signal.SIGUSR1, on_signal)
    print(f"READY {os.getpid()}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "storm":
            stacks_job.truth.clear()
            signal.setitimer(signal.ITIMER_PROF, 0.002, 0.002)
            for _ in range(int(words[1])):
                storm()
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(f"DONE truth={write_truth()}", flush=True)
        elif words[0] == "fork":
            in_child(int(words[1]))
            print("DONE ok=1", flush=True)


if __name__ == "__main__":
    main()

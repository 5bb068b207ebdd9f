"""Collects garbage in several ways; a line on stdin asks for one of the rounds.

Prints READY PID; then, a line a round, JSON: the collections as gc.callbacks saw them, and as torch.profiler recorded them in the same run,
each [PID, TID, begin, end] in nanoseconds of Unix time. torch's is null where torch has none.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch

Row = list[int]


class Watch:
    """A callback of the garbage collector's."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.begin_ns = 0

    def __call__(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self.begin_ns = time.time_ns()
        else:
            self.rows.append([os.getpid(), threading.get_native_id(), self.begin_ns, time.time_ns()])


class Doubled(torch.autograd.Function):
    """Collects in both of its directions."""

    @staticmethod
    def forward(_context: object, tensor: torch.Tensor) -> torch.Tensor:
        gc.collect(0)
        return tensor * 2

    @staticmethod
    def backward(_context: object, gradient: torch.Tensor) -> torch.Tensor:
        gc.collect(1)
        return gradient * 2


class Restless:
    """Asks for a collection while it is collected."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        gc.collect()


def work() -> None:
    for generation in range(3):
        torch.ones(3)
        gc.collect(generation)
    with torch.autograd.profiler.record_function("range"):
        gc.collect()
    Doubled.apply(torch.ones(3, requires_grad=True)).sum().backward()
    thread = threading.Thread(target=lambda: (torch.ones(3), gc.collect()))
    thread.start()
    thread.join()
    kept = [[] for _ in range(5000)]  # the allocations begin collections
    del kept
    Restless()
    gc.collect()


def torchs_rows() -> "list[Row] | None":
    config = getattr(torch._C._profiler, "_ExperimentalConfig", None)
    try:
        profile = torch.profiler.profile(with_stack=True, experimental_config=config(record_python_gc_info=True))
    except TypeError:
        work()
        return None
    with profile:
        work()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        trace = json.loads(path.read_text(encoding="utf-8"))
    rows = [event for event in trace["traceEvents"] if event.get("name") == "Python GC"]
    assert {row["cat"] for row in rows} == {"python_function"}
    base_ns = trace["baseTimeNanoseconds"]
    return [[row["pid"], row["tid"], base_ns + int(row["ts"] * 1000), base_ns + int((row["ts"] + row["dur"]) * 1000)] for row in rows]


def round_of(watch: Watch, line: str) -> dict[str, object]:
    if line == "fork":
        read, write = os.pipe()
        watch.rows.clear()
        child = os.fork()
        if child == 0:
            time.sleep(0.5)
            watch.rows.clear()
            work()
            os.write(write, json.dumps(watch.rows).encode())
            os._exit(0)
        os.close(write)
        with open(read, encoding="utf-8") as answer:
            seen = json.load(answer)
        os.waitpid(child, 0)
        return {"seen": seen, "torch": None}
    gc.collect()
    watch.rows.clear()
    begin_ns = time.time_ns()
    theirs = torchs_rows()
    end_ns = max(row[3] for row in theirs) if theirs else time.time_ns()
    # The profiler's own beginning and end collect, too.
    return {"seen": [row for row in watch.rows if row[2] >= begin_ns], "torch": theirs, "end": end_ns}


def main() -> None:
    torch.set_num_threads(1)
    work()
    torchs_rows()
    watch = Watch()
    gc.callbacks.append(watch)
    print(f"READY {os.getpid()}", flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        print(json.dumps(round_of(watch, line.strip())), flush=True)


if __name__ == "__main__":
    main()

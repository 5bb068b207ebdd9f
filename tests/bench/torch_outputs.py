#!/usr/bin/env python3
"""torch.profiler over N steps of tiny_ops: how long each step to its outputs takes. Prints one JSON line.

    torch_outputs.py STEPS DIRECTORY        (outputs.py --torch runs it)
"""

from __future__ import annotations

import gzip
import json
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Callable

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "oracle/jobs"))

from models import TinyOps  # noqa: E402
from workload import Context  # noqa: E402


def compress(source: Path, target: Path) -> None:
    """As export_chrome_trace does for a name that ends in .gz; a trace can be exported once only."""
    with source.open("rb") as plain, gzip.open(target, "wb") as packed:
        shutil.copyfileobj(plain, packed)


def main() -> None:
    steps, out = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    job = TinyOps(Context(out=".", profiled=False, seed=1, steps=1, handshake=False))
    job.warm_up()
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        seconds[name] = time.perf_counter() - start
        return result

    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    for _ in range(steps):
        job.step()
    timed("stop", profiler.stop)
    trace = out / "torch.json"
    timed("trace.json", lambda: profiler.export_chrome_trace(str(trace)))
    timed("gzip of it", lambda: compress(trace, out / "torch.json.gz"))
    events = timed("events()", profiler.events)
    averages = timed("key_averages()", profiler.key_averages)
    timed("table()", lambda: averages.table(sort_by="self_cpu_time_total", row_limit=100))
    print(json.dumps({
        "events": len(events), "seconds": seconds,
        "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}))


if __name__ == "__main__":
    main()

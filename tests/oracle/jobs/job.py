#!/usr/bin/env python3
"""A PyTorch job for the tests: prints READY and its PID, waits for `go`, works, prints a checksum and DONE.

    job.py WORKLOAD --mode profile --out DIR --steps N   torch.profiler inside: its answer is written to DIR
    job.py WORKLOAD --mode plain --steps N               the same steps without torch.profiler
    job.py WORKLOAD --mode loop --seconds T              steps for T seconds (0 = until killed)
    job.py WORKLOAD --mode time                          `run N` and `profile N` on stdin; prints step times
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time

import torch

import profiles
import timing
from libraries import LIBRARIES
from workload import Context, Workload, checksum, say, wait_for_go

# Imported when chosen: what a module does to PyTorch when it is imported concerns its own workloads only.
WORKLOADS = {
    "mlp": ("models", "Mlp"),
    "transformer": ("models", "Transformer"),
    "convnet": ("models", "ConvNet"),
    "lstm": ("models", "Lstm"),
    "tiny_ops": ("models", "TinyOps"),
    "much_python": ("models", "MuchPython"),
    "dataloader": ("parallel", "Loading"),
    "dataloader_spawn": ("parallel", "LoadingSpawned"),
    "dataloader_forkserver": ("parallel", "LoadingServed"),
    "multiprocessing": ("parallel", "Shared"),
    "two_threads": ("parallel", "TwoThreads"),
    "exceptions": ("raising", "Exceptions"),
    "boxed": ("boxed", "Boxed"),
    "scripted": ("scripts", "Scripted"),
    "runtimes": ("runtimes", "Runtimes"),
    "functions": ("functions", "Functions"),
    "families": ("families", "Families"),
    "compiled": ("compiled", "Compiled"),
    "distributed": ("distributed", "Distributed"),
    "extension": ("extension", "Extension"),
    "futures": ("futures", "Futures"),
    "overlaps": ("overlaps", "Overlaps"),
    "flows": ("flows", "Flows"),
    "random": ("randomized", "Randomized"),
    "memory": ("memory", "Memory"),
    "crossing": ("crossing", "Crossing"),
}


def workload_class(name: str) -> type[Workload]:
    module, workload = (WORKLOADS | LIBRARIES)[name]
    return getattr(importlib.import_module(module), workload)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=sorted(WORKLOADS | LIBRARIES))
    parser.add_argument("--mode", choices=["profile", "plain", "loop", "time"], default="plain")
    parser.add_argument("--out", default=".", help="where torch.profiler's answer goes")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="", help="where tensors are made that ask for no device")
    parser.add_argument("--no-wait", action="store_true", help="start at once, without a runner on stdin")
    return parser.parse_args()


def run_window(workload: Workload, options: argparse.Namespace) -> None:
    profile = None
    if options.mode == "profile":
        profile = profiles.Profile(options.out, all_threads=workload.threads_have_profiles)
        profile.start()
    with profiles.markers():
        workload.run(options.steps)
    if profile is not None:
        profile.stop()


def run_loop(workload: Workload, seconds: float) -> None:
    end = time.monotonic() + seconds if seconds else float("inf")
    while time.monotonic() < end:
        workload.step()


def main() -> int:
    options = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    if options.device:
        torch.set_default_device(options.device)
    context = Context(
        out=options.out, profiled=options.mode == "profile", seed=options.seed, steps=options.steps,
        handshake=not options.no_wait)
    chosen = workload_class(options.workload)
    if chosen.missing():
        say(f"NOT APPLICABLE {chosen.missing()}")
        return 0
    workload = chosen(context)
    workload.warm_up()
    say(f"READY {os.getpid()}")
    if options.mode == "time":
        timing.serve(workload, sys.stdin)
        return 0
    if not options.no_wait:
        wait_for_go()
    if options.mode == "loop":
        run_loop(workload, options.seconds)
    else:
        workload.before_window()
        run_window(workload, options)
        workload.finish()
    say(f"CHECKSUM {checksum(workload.tensors())}")
    say("DONE")
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The same training on a GPU, recorded in all ways that proftrace has: each must have the kernels that torch.profiler has in a run of its own.

    python3 tests/gpu/check_ways.py --proftrace PROFTRACE --out FOLDER [--python PY]

By CUPTI after an attach; started by proftrace (CUDA_INJECTION64_PATH); by jumps (--tier patch); with all that a recording can have; by the calls of CUDA
alone. And what each costs a launch, beside torch.profiler: a step of 500 small kernels. Exit code: 0 all right, 1 something differs.
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import signal
import statistics
import sys

import check_gpu
from check_gpu import GpuJob, Recording, Reference, events, key, of_device

KIND = "ranges"
ALL = ("--all", "--activities", "cpu,cuda,syscalls,sched", "--gpu", "agent")
WAYS = {"attached": ("--gpu", "agent"), "automatic": (), "patch": ("--tier", "patch", "--gpu", "agent"), "everything": ALL,
        "patch_everything": ("--tier", "patch", *ALL)}
COSTS = {"operators": ("--gpu", "off"), "operators and agent": ("--gpu", "agent"), "operators and launch calls": ("--gpu", "launch"),
         "patch": ("--tier", "patch", "--gpu", "off"), "patch and agent": ("--tier", "patch", "--gpu", "agent")}
LAUNCHES = 500
ROUNDS = 3


def check_way(arguments: argparse.Namespace, reference: Reference, name: str, options: tuple[str, ...]) -> list[str]:
    job = GpuJob(arguments, KIND).wait_until_ready()
    recording = Recording(arguments, job.pid, arguments.out / name, options)
    seconds, _ = job.train()
    summary = recording.stop()
    trace = events(arguments.out / name / "trace.json.gz")
    print(f"{name}: step {seconds * 1e6:.1f} us, {summary['proftrace']['gpu']}, events {summary['events']}, ledger {summary['gpu']['ledger']}")
    return reference.differences(trace) + ["the job failed"] * bool(job.end())


def check_launch_calls(arguments: argparse.Namespace, reference: Reference) -> list[str]:
    job = GpuJob(arguments, KIND).wait_until_ready()
    recording = Recording(arguments, job.pid, arguments.out / "launch", ("--gpu", "launch"))
    job.train()
    summary = recording.stop()
    calls = check_gpu.call_names(events(arguments.out / "launch/trace.json.gz"))
    print(f"launch: {summary['proftrace']['gpu']}, {dict(calls)}; torch.profiler: {dict(reference.calls)}")
    launched = sum(count for name, count in calls.items() if "Launch" in name)
    expected = sum(count for name, count in reference.calls.items() if "Launch" in name)
    return [f"{launched} launches, torch.profiler has {expected}"] * (launched != expected) + ["the job failed"] * bool(job.end())


def check_started(arguments: argparse.Namespace, reference: Reference) -> list[str]:
    """By CUDA_INJECTION64_PATH, from the first call on: more than the reference, which has no warm-up."""
    out = arguments.out / "started"
    command = [str(arguments.proftrace), "record", "-q", "--gpu", "agent", "--format", check_gpu.FORMATS, "-o", str(out), "--"]
    job = GpuJob(arguments, KIND, command=command).wait_until_ready()
    job.train("last")
    code = job.process.wait(60)
    summary = json.loads((out / "summary.json").read_text())
    trace = events(out / "trace.json.gz")
    print(f"started: {code}, {summary['proftrace']['gpu']}, events {summary['events']}, categories "
          f"{collections.Counter(event.get('cat') for event in trace)}")
    if not summary["events"]["markers"]:
        return ["no ranges of NVTX"]
    missing = reference.work - collections.Counter(map(key, of_device(trace)))
    return [f"missing: {dict(missing)}"] * bool(missing) + check_gpu.check_links(trace) + ["the job failed"] * bool(code)


def check_costs(arguments: argparse.Namespace) -> list[str]:
    times: dict[str, list[float]] = collections.defaultdict(list)
    ours, theirs = (GpuJob(arguments, "launches", steps=40) for _ in range(2))
    for job in (ours, theirs):
        job.wait_until_ready().train()
    for number in range(ROUNDS):
        times["nothing"].append(ours.train()[0])
        for name, options in COSTS.items():
            recording = Recording(arguments, ours.pid, arguments.out / f"cost{number}-{name.replace(' ', '_')}", options)
            times[name].append(ours.train()[0])
            recording.process.send_signal(signal.SIGINT)
            recording.process.wait()
            shutil.rmtree(recording.out)
        times["nothing, afterwards"].append(ours.train()[0])
        times["nothing, the other job"].append(theirs.train()[0])
        times["torch.profiler, GPU"].append(theirs.train("cuda")[0])
        times["torch.profiler, both"].append(theirs.train("both")[0])
    for name, seconds in times.items():
        print(f"  {name}: {statistics.median(seconds) / LAUNCHES * 1e9:.0f} ns a launch")
    return []


def main() -> int:
    parser = check_gpu.arguments_of(__doc__, steps=30)
    parser.add_argument("ways", nargs="*", metavar="WAY")
    arguments = parser.parse_args()
    reference = Reference(arguments, KIND)
    checks = {name: lambda name=name, options=options: check_way(arguments, reference, name, options) for name, options in WAYS.items()}
    checks |= {"launch": lambda: check_launch_calls(arguments, reference), "started": lambda: check_started(arguments, reference),
               "costs": lambda: check_costs(arguments)}
    return check_gpu.run_checks({name: check for name, check in checks.items() if name in (arguments.ways or checks)})


if __name__ == "__main__":
    sys.exit(main())

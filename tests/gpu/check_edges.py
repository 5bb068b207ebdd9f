#!/usr/bin/env python3
"""What a GPU's job can be doing when proftrace comes or goes, and what else it can have: neither it nor the recording may suffer.

    python3 tests/gpu/check_edges.py --proftrace PROFTRACE --out FOLDER [--python PY] [--cupti FOLDER] [EDGE...]

A stop while the GPU has work for a quarter of a second (all is recorded), and for longer than proftrace waits (what is not is counted); attaches while a
CUDA graph is captured; a second recording; two processes on one GPU; CUPTI of other versions (a folder that other_cupti.py has made; preloaded); MPS; a job
under Nsight Compute. Exit code: 0 all right, 1 something differs.
"""

from __future__ import annotations

import argparse
import collections
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import check_gpu
from check_gpu import CALLS, GpuJob, Recording, Reference, events, key, of_device

STOP_S = 6.0  # a second for the GPU, and what writing takes
OTHER_CUPTI_KINDS = ("mlp", "graphs", "copies", "streams")


def lost(summary: dict) -> int:
    ledger = summary["gpu"]["ledger"]
    return ledger["ring_dropped"] + ledger["cupti_dropped"] + ledger["unknown"] + ledger["malformed"] + ledger["unread"]


def launches_without_work(trace: list[dict]) -> tuple[int, int]:
    calls = {event["args"]["correlation"] for event in trace if event.get("cat") in CALLS and "LaunchKernel" in event["name"]}
    return len(calls), len(calls - {event["args"]["correlation"] for event in of_device(trace)})


def check_queue(arguments: argparse.Namespace, kind: str, may_miss: bool) -> list[str]:
    job = GpuJob(arguments, kind).wait_until_ready()
    job.say("until")
    time.sleep(1)
    recording = Recording(arguments, job.pid, arguments.out / kind)
    time.sleep(1)
    begin = time.monotonic()
    summary = recording.stop()
    took = time.monotonic() - begin
    job.stop_training()
    faults = ["the job failed"] * bool(job.end())
    launches, missing = launches_without_work(events(arguments.out / kind / "trace.json.gz"))
    print(f"{kind}: stopped in {took:.2f} s; {launches} launches, {missing} of them without their kernel; {summary['gpu']['ledger']}; "
          f"{summary['unsupported']}")
    if not launches or (missing and not may_miss):
        faults.append(f"{missing} of {launches} launches have no kernel")
    if missing and not any("GPU" in gap["feature"] or "CUPTI" in gap["feature"] for gap in summary["unsupported"]):
        faults.append("nothing is said of kernels that are missing")
    return faults + [f"{took:.1f} s to stop"] * (took > STOP_S)


def check_captured(arguments: argparse.Namespace) -> list[str]:
    faults = []
    job = GpuJob(arguments, "captured").wait_until_ready()
    job.say("until")
    for number in range(5):
        recording = Recording(arguments, job.pid, arguments.out / f"captured{number}")
        time.sleep(0.6)
        summary = recording.stop()
        replayed = collections.Counter(event["name"] for event in of_device(events(recording.out / "trace.json.gz")))
        print(f"captured: {summary['proftrace']['gpu']}, {sum(replayed.values())} kernels, {summary['gpu']['ledger']}")
        if not replayed or lost(summary):
            faults.append(f"attach {number}: {summary['unsupported']}")
    job.stop_training()
    return faults + ["the job failed"] * bool(job.end())


def check_second(arguments: argparse.Namespace) -> list[str]:
    reference, faults = Reference(arguments, "mlp"), []
    job = GpuJob(arguments, "mlp").wait_until_ready()
    for number in range(3):
        recording = Recording(arguments, job.pid, arguments.out / f"second{number}")
        job.train()
        recording.stop()
        trace = events(recording.out / "trace.json.gz")
        faults += [f"recording {number}: {fault}" for fault in reference.differences(trace)]
        numbered = sum("External id" in event["args"] for event in of_device(trace))
        print(f"second: {len(of_device(trace))} device rows, {numbered} with the number of a row")
        # All but the copy of the loss, which no operator of the training asks for, have one.
        faults += [f"recording {number}: {numbered} have numbers"] * (numbered < len(of_device(trace)) - 1)
    return faults + ["the job failed"] * bool(job.end())


def check_two(arguments: argparse.Namespace) -> list[str]:
    reference, faults = Reference(arguments, "mlp"), []
    jobs = [GpuJob(arguments, "mlp") for _ in range(2)]
    pids = [job.wait_until_ready().pid for job in jobs]
    recording = Recording(arguments, pids[0], arguments.out / "two", ("-p", str(pids[1]), "--gpu", "agent"))
    for job in jobs:
        job.say("go")
    for job in jobs:
        job.hear()
    summary = recording.stop()
    trace = events(recording.out / "trace.json.gz")
    by_call = {(event["pid"], event["args"]["correlation"]) for event in trace if event.get("cat") in CALLS and "correlation" in event.get("args", {})}
    for pid in pids:
        work = [event for event in of_device(trace) if (pid, event["args"]["correlation"]) in by_call]
        print(f"two: {len(work)} device rows have a correlation id of {pid}'s; all: {len(of_device(trace))}")
    doubled = collections.Counter({name: 2 * count for name, count in reference.work.items()})
    faults += check_gpu.differing(doubled, collections.Counter(map(key, of_device(trace))))
    return faults + [f"lost: {summary['gpu']}"] * bool(lost(summary)) + ["a job failed"] * any(job.end() for job in jobs)


def check_cupti(arguments: argparse.Namespace, folder: Path) -> list[str]:
    preload = ":".join(map(str, [folder.parent / "libmissing.so", *sorted(folder.glob("*.so*"))]))
    faults = []
    for kind in OTHER_CUPTI_KINDS:
        reference = Reference(arguments, kind)
        job = GpuJob(arguments, kind, command=["env", f"LD_PRELOAD={preload}"]).wait_until_ready()
        recording = Recording(arguments, job.pid, arguments.out / f"{kind}-{folder.name}")
        job.train()
        summary = recording.stop()
        if job.end():
            faults.append(f"{kind}: the job failed")
        if summary["proftrace"]["gpu"] != "agent":
            faults.append(f"{kind}: no agent: {summary['unsupported']}")
            continue
        found = reference.differences(events(recording.out / "trace.json.gz"))
        print(f"CUPTI {folder.name} ({summary['gpu']['agents'][0]['cupti_version']}), {kind}: {sum(reference.work.values())} device rows, "
              f"{len(found)} differences, {summary['gpu']['ledger']}, {summary['gpu']['clocks']}", flush=True)
        faults += [f"{kind}: {fault}" for fault in found[:4]]
    return faults


def check_mps(arguments: argparse.Namespace) -> list[str]:
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        print("mps: not on this machine")
        return []
    reference = Reference(arguments, "mlp")
    folders = {name: str(arguments.out / name.lower()) for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")}
    for folder in folders.values():
        os.makedirs(folder)
    environment = {**os.environ, **folders}
    subprocess.run([control, "-d"], env=environment, check=True, timeout=20)
    try:
        job = GpuJob(arguments, "mlp", command=["env", *(f"{name}={folder}" for name, folder in folders.items())]).wait_until_ready()
        servers = subprocess.run([control], input="get_server_list\n", env=environment, capture_output=True, text=True, timeout=20).stdout.split()
        recording = Recording(arguments, job.pid, arguments.out / "mps")
        job.train()
        summary = recording.stop()
        print(f"mps: servers {servers}, {summary['proftrace']['gpu']}, {summary['events']}, {summary['unsupported']}")
        return [*reference.differences(events(recording.out / "trace.json.gz")), *["the job failed"] * bool(job.end())]
    finally:
        subprocess.run([control], input="quit\n", env=environment, text=True, timeout=20, check=False)


def check_ncu(arguments: argparse.Namespace) -> list[str]:
    """Whether there are kernels is between CUPTI and it; the job must not suffer."""
    if shutil.which("ncu") is None:
        print("ncu: not on this machine")
        return []
    log = arguments.out / "ncu.log"
    command = ["ncu", "--log-file", str(log), "--section", "LaunchStats", "--launch-skip", "100", "--launch-count", "200", "--target-processes", "all"]
    job = GpuJob(arguments, "mlp", command=command).wait_until_ready()
    recording = Recording(arguments, job.pid, arguments.out / "ncu", ())
    job.train()
    summary = recording.stop()
    profiled = log.read_text().count("Launch Statistics")
    print(f"ncu: {profiled} kernels in its report; {summary['proftrace']['gpu']}, {summary['events']}, {summary['unsupported']}")
    return ["the job failed"] * bool(job.end())


def main() -> int:
    parser = check_gpu.arguments_of(__doc__, steps=50)
    parser.add_argument("--cupti", type=Path)
    parser.add_argument("edges", nargs="*", metavar="EDGE")
    arguments = parser.parse_args()
    checks: dict[str, Callable[[], list[str]]] = {"queued": lambda: check_queue(arguments, "queued", may_miss=False),
                                                  "deep": lambda: check_queue(arguments, "deep", may_miss=True)}
    for name, check in (("captured", check_captured), ("second", check_second), ("two", check_two), ("ncu", check_ncu), ("mps", check_mps)):
        checks[name] = lambda check=check: check(arguments)
    for folder in sorted(arguments.cupti.glob("*/")) if arguments.cupti else []:
        checks[folder.name] = lambda folder=folder: check_cupti(arguments, folder)
    return check_gpu.run_checks({name: check for name, check in checks.items() if name in (arguments.edges or checks)})


if __name__ == "__main__":
    sys.exit(main())

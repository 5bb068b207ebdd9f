#!/usr/bin/env python3
"""How `proftrace merge` does with much: one trace of torch.profiler of many sizes, plain and as .gz, and many ranks. Prints seconds of processor time, rows a
second and the most memory, for each output. Example: merge_scale.py BINARY --directory /var/tmp/scale --sizes 1,10 --gz 1 --ranks 100,1000

The traces are made up as torch 2.11 writes them: operators inside of Python functions, kernels with their launches and arrows, an all-reduce of NCCL with its
number in each step. Files are deleted when they have been measured."""

from __future__ import annotations

import argparse
import concurrent.futures
import gzip
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

BASE_NS = 1_764_000_000_000_000_000
STEP_US = 10_000
OPERATORS = 24  # of a step, each with a Python function, a launch, a kernel and an arrow
DESCRIPTORS = 64  # that a merge of 1 000 ranks may have open

HEAD = ('{{\n  "schemaVersion": 1,\n  "deviceProperties": [\n    {{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150754820096}}\n  ],\n'
        '  "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}, "pg_count": 1, "pg_config": [{{"pg_name": "0", '
        '"pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": {world}, "ranks": [{ranks}]}}]}},\n'
        '  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": {base},\n  "host_name": "node{node}",\n  "traceEvents": [\n')
# "@" stands for the number of the block of steps: times, ids and steps go on from block to block.
OPERATOR = (
    '  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::{name}", "pid": {pid}, "tid": {pid},\n    "ts": @{begin:07d}.{part:03d}, "dur": 60.417,\n'
    '    "args": {{\n      "External id": @{id:05d}, "Record function id": 0, "Concrete Inputs": ["", "", ""], "Input type": ["float", "float", ""], '
    '"Input Strides": [[1024, 1], [1, 1024], []], "Input Dims": [[64, 1024], [1024, 1024], []], "Ev Idx": @{id:05d}\n    }}\n  }},\n'
    '  {{\n    "ph": "X", "cat": "python_function", "name": "torch/nn/modules/module.py(1775): _call_impl", "pid": {pid}, "tid": {pid},\n'
    '    "ts": @{begin:07d}.{part:03d}, "dur": 70.208,\n    "args": {{\n      "Python parent id": 12, "Python id": @{id:05d}, "Ev Idx": @{id:05d}\n    }}\n  }},\n'
    '  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {pid}, "tid": {pid},\n    "ts": @{launch:07d}.{part:03d}, "dur": 4.125,\n'
    '    "args": {{\n      "External id": @{id:05d}, "cbid": 211, "correlation": @{id:05d}\n    }}\n  }},\n'
    '  {{\n    "ph": "s", "id": @{id:05d}, "pid": {pid}, "tid": {pid}, "ts": @{launch:07d}.{part:03d},\n    "cat": "ac2g", "name": "ac2g"\n  }},\n'
    '  {{\n    "ph": "X", "cat": "kernel", "name": "void at::native::vectorized_elementwise_kernel<4, at::native::{name}_kernel>(int)", "pid": 0, '
    '"tid": 7,\n    "ts": @{kernel:07d}.{part:03d}, "dur": 41.119,\n    "args": {{\n      "External id": @{id:05d}, "device": 0, "context": 1, "stream": 7, '
    '"correlation": @{id:05d}, "grid": [1024, 1, 1], "block": [128, 1, 1]\n    }}\n  }},\n'
    '  {{\n    "ph": "f", "id": @{id:05d}, "pid": 0, "tid": 7, "ts": @{kernel:07d}.{part:03d},\n    "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }},\n')
STEP = ('  {{\n    "ph": "X", "cat": "user_annotation", "name": "ProfilerStep#@{step:03d}", "pid": {pid}, "tid": {pid},\n'
        '    "ts": @{begin:07d}.{part:03d}, "dur": 9000.500,\n    "args": {{\n      "External id": @{id:05d}, "Ev Idx": @{id:05d}\n    }}\n  }},\n'
        '  {{\n    "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "pid": 0, "tid": 20,\n'
        '    "ts": @{entered:07d}.{part:03d}, "dur": {duration}.250,\n    "args": {{\n      "External id": @{id:05d}, "device": 0, "context": 1, "stream": 20, '
        '"correlation": @{id:05d}, "Collective name": "allreduce", "In msg nelems": 1048576, "Out msg nelems": 1048576, "Group size": {world}, '
        '"dtype": "Float", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[{ranks}]", '
        '"Seq": @{step:03d}\n    }}\n  }},\n')
TAIL = ('  {{\n    "ph": "M", "name": "process_name", "pid": {pid}, "tid": 0,\n    "args": {{"name": "python3"}}\n  }}\n  ],\n'
        '  "traceName": "rank{rank}.json"\n}}\n')
NAMES = ("addmm", "mul", "add", "native_layer_norm", "gelu", "linear", "transpose", "copy_")
ROWS_A_STEP = 2 + 6 * OPERATORS
STEPS_A_BLOCK = 1000  # at most
FIRST_BLOCK = 100  # a number may not begin with a zero


def step_text(rank: int, world: int, step: int, ranks: str) -> str:
    begin = step * STEP_US + (step * 7919) % 500  # no two steps are equally long
    pid, part, id = 4700 + rank % 8, step % 1000, step * (OPERATORS + 1)
    parts = []
    for number in range(OPERATORS):
        at = begin + number * 300
        parts.append(OPERATOR.format(name=NAMES[number % len(NAMES)], pid=pid, begin=at, part=part, id=id + number, launch=at + 20, kernel=at + 35))
    entered = begin + 8000 + (step * 104729 + rank * 7907) % 400
    parts.append(STEP.format(step=step, pid=pid, begin=begin, part=part, id=id + OPERATORS, entered=entered, duration=begin + 8500 - entered, world=world,
                             ranks=ranks))
    return "".join(parts)


def write_trace(path: Path, rank: int, world: int, steps: int) -> int:
    """Returns how many rows it has."""
    ranks = ", ".join(map(str, range(min(world, 30)))) + (", ..." if world > 30 else "")
    block = [step_text(rank, world, step, ranks) for step in range(min(steps, STEPS_A_BLOCK))]
    opened = gzip.open(path, "wt", compresslevel=1) if path.suffix == ".gz" else path.open("w")
    with opened as out:
        out.write(HEAD.format(rank=rank, world=world, ranks=", ".join(map(str, range(world))), base=BASE_NS + rank // 8 * 1_000_003, node=rank // 8))
        for first in range(0, steps, STEPS_A_BLOCK):
            text = "".join(block[:steps - first])
            out.write(text.replace("@", str(FIRST_BLOCK + first // STEPS_A_BLOCK)))
        out.write(TAIL.format(pid=4700 + rank % 8, rank=rank))
    return ROWS_A_STEP * steps + 1


def merge(binary: Path, inputs: list[Path], output: Path, options: list[str], rows: int, what: str) -> None:
    began = time.monotonic()
    command = [str(binary), "merge", *map(str, inputs), "-o", str(output), *options]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(["sh", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "sh", *command], stderr=said, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        said.seek(0)
        text = said.read()
    cpu_s = usage.ru_utime + usage.ru_stime
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        raise SystemExit(f"{' '.join(command[:3])} … ended with {code}: {text}")
    size = sum(entry.stat().st_size for entry in output.rglob("*")) if output.is_dir() else output.stat().st_size
    print(f"| {what} | {output.name} | {rows:,} | {time.monotonic() - began:.1f} s | {cpu_s:.1f} s | {rows / cpu_s / 1e6:.2f} M/s | {usage.ru_maxrss / 1024:.0f} MB "
          f"| {size / 1e9:.2f} GB |", flush=True)
    shutil.rmtree(output) if output.is_dir() else output.unlink()


def write_ranks(traces: list[Path], steps: int) -> int:
    return sum(write_trace(trace, rank, len(traces), steps) for rank, trace in enumerate(traces))


def written(traces: list[Path], steps: int) -> int:
    """Writes them in a process of its own: what we run is told to have had our memory."""
    with concurrent.futures.ProcessPoolExecutor(1) as pool:
        return pool.submit(write_ranks, traces, steps).result()


def steps_of(size: float) -> int:
    return max(1, int(size * 1e9 / len(step_text(0, 1, 0, "0").replace("@", "100"))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path)
    parser.add_argument("--directory", type=Path, default=Path("/var/tmp/merge_scale"))
    parser.add_argument("--sizes", default="", help="of one trace, in GB: 1,10")
    parser.add_argument("--gz", default="", help="of one trace as .gz, in GB before it is packed")
    parser.add_argument("--ranks", default="", help="how many ranks: 100,1000")
    parser.add_argument("--steps", type=int, default=20, help="of each rank")
    parser.add_argument("--outputs", default="merged.json,merged.pftrace,corrected")
    arguments = parser.parse_args()
    outputs = arguments.outputs.split(",")
    arguments.directory.mkdir(parents=True)
    out = arguments.directory / "out"
    out.mkdir()
    print("| input | output | rows | time | processor time | rows by processor time | most memory | output's size |\n|---|---|---|---|---|---|---|---|")
    try:
        for suffix, sizes in ((".json", arguments.sizes), (".json.gz", arguments.gz)):
            for size in (float(word) for word in sizes.split(",") if word):
                trace = arguments.directory / f"rank0{suffix}"
                rows = written([trace], steps_of(size))
                for name in outputs:
                    merge(arguments.binary, [trace], out / name, [], rows, f"{suffix}, {size:g} GB")
                trace.unlink()
        for count in (int(word) for word in arguments.ranks.split(",") if word):
            folder = arguments.directory / "ranks"
            folder.mkdir()
            traces = [folder / f"rank{rank}.json" for rank in range(count)]
            rows = written(traces, arguments.steps)
            for name in outputs:
                merge(arguments.binary, traces, out / name, [], rows, f"{count} ranks, {sum(t.stat().st_size for t in traces) / 1e9:.2f} GB")
            shutil.rmtree(folder)
    finally:
        shutil.rmtree(arguments.directory)


if __name__ == "__main__":
    main()

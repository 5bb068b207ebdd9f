#!/usr/bin/env python3
"""Whether names that never repeat cost memory without an end, in the process that records.

    sudo unique_names.py --python PYTHON [--seconds 60] [--what annotations] [more options of proftrace]
    unique_names.py --replay 24 [--what annotations]     the outputs of made-up captures of 3, 6, 12 and 24 hours

The job makes a new name of each kind of --what in each step, as fast as it can: a number in an annotation, a function by
exec(), an nn.Module with a class of its own, a file, a number as an operator's argument, a class of autograd nodes.
Prints the anonymous memory of the tracer over the steps, and what it grew by a step over the last half.

A made-up job (tests/bench/unique_names.cc) has ten steps a second. Prints the peak of anonymous memory of each output.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/oracle"))

from process import LineReader  # noqa: E402

KINDS = ("annotations", "functions", "modules", "files", "inputs", "nodes")
OUTPUTS = (("csv", "a.csv"), ("chrome", "trace.json.gz"), ("flamegraph", "a.html"), ("report", "r.html"))
WAIT_S = 120.0
JOB = """
import os, sys, tempfile, time, torch
torch.set_num_threads(1)
kinds, longest_s, folder = set(sys.argv[1].split(",")), float(sys.argv[2]), tempfile.mkdtemp()
data, leaf = torch.ones(4), torch.ones(4, requires_grad=True)


class Block(torch.nn.Module):
    def forward(self, x):
        return x.neg()


def step(i):
    data.add(data)
    if "functions" in kinds:
        scope = {"data": data}
        exec(compile(f"def made_{i}():\\n    return data.neg()\\n", f"/made/file_{i}.py", "exec"), scope)
        scope[f"made_{i}"]()
    if "modules" in kinds:
        type(f"Block{i}", (Block,), {})()(data)
    if "files" in kinds:
        name = f"{folder}/sample_{i}.txt"
        with open(name, "w") as file:
            file.write("x")
        os.unlink(name)
    if "inputs" in kinds:
        data.add(data, alpha=i + 0.5)
    if "nodes" in kinds:
        made = type(f"Node{i}", (torch.autograd.Function,), {
            "forward": staticmethod(lambda ctx, x: x.clone()), "backward": staticmethod(lambda ctx, g: g)})
        made.apply(leaf).sum().backward()


print("READY", os.getpid(), flush=True)
sys.stdin.readline()
count, end = 0, time.monotonic() + longest_s
told = time.monotonic()
while time.monotonic() < end:
    for _ in range(16):
        count += 1
        if "annotations" in kinds:
            with torch.profiler.record_function(f"step {count}"):
                step(count)
        else:
            step(count)
    if time.monotonic() - told > 1:
        told = time.monotonic()
        print("STEPS", count, flush=True)
print("DONE", count, flush=True)
os.rmdir(folder)
"""


def memory_kib(pid: int) -> int:
    """The anonymous memory of a process: its tables, and no mapped file or ring."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    match = re.search(r"RssAnon:\s*(\d+) kB", status)
    assert match is not None
    return int(match.group(1))


def peak_of(command: list[str]) -> tuple[float, float]:
    """The highest anonymous memory in MiB of a command and its reader, looked at every 20 ms, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
            peak = max(peak, sum(memory_kib(pid) for pid in [process.pid, *map(int, children)]))
        except (AssertionError, FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
        time.sleep(0.02)
    if process.wait() != 0:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return peak / 1024, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def replay(options: argparse.Namespace) -> None:
    generator = options.proftrace.resolve().parent / "unique_names" if options.generator is None else options.generator
    hours = [options.replay / part for part in (8, 4, 2, 1)]
    with tempfile.TemporaryDirectory(prefix="proftrace-names-") as folder:
        captures = [Path(folder) / f"{number}.ptrec" for number in range(len(hours))]
        for capture, length in zip(captures, hours):
            subprocess.run([str(generator), str(capture), str(int(length * 36_000)), options.what], check=True)
        print(f"{options.what}; MiB (processor time, s)\n\n| hours | " + " | ".join(f"{length:g}" for length in hours) + " |")
        print("|---|" + "---|" * len(hours))
        print("| capture | " + " | ".join(f"{capture.stat().st_size / 2**20:.1f}" for capture in captures) + " |", flush=True)
        for form, name in OUTPUTS:
            cells = []
            for capture in captures:
                target = Path(folder) / name
                peak, seconds = peak_of([str(options.proftrace), "export", str(capture), "--format", form, "-o", str(target)])
                cells.append(f"{peak:.0f} ({seconds:.1f})")
                shutil.rmtree(target) if target.is_dir() else target.unlink()
            print(f"| {form} | " + " | ".join(cells) + " |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--what", default="annotations", help=f"of {', '.join(KINDS)}, joined by commas")
    parser.add_argument("--keep", type=Path, help="where the recording is to stay")
    parser.add_argument("--replay", type=float, help="hours")
    parser.add_argument("--generator", type=Path, help="unique_names, where it is not beside proftrace")
    options, more = parser.parse_known_args()
    if options.replay is not None:
        replay(options)
        return 0
    job = subprocess.Popen([options.python, "-c", JOB, options.what, str(options.seconds)], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert job.stdin is not None and job.stdout is not None
    lines = LineReader(job.stdout)
    pid = lines.wait(r"READY (\d+)", WAIT_S).group(1)
    out = Path(tempfile.mkdtemp(prefix="proftrace-names-"))
    tracer = subprocess.Popen([str(options.proftrace), "record", "-p", pid, "-o", str(out / "result"), "--format", "none", *more],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    errors = LineReader(tracer.stderr)
    looks: list[tuple[int, int]] = []
    try:
        errors.wait(r"recording PID", WAIT_S)
        job.stdin.write(b"go\n")
        job.stdin.flush()
        while True:
            word, steps = lines.wait(r"(STEPS|DONE) (\d+)", WAIT_S).groups()
            looks.append((int(steps), memory_kib(tracer.pid)))
            if word == b"DONE" or word == "DONE":
                break
        tracer.send_signal(signal.SIGINT)
        tracer.wait(WAIT_S)
        job.wait(WAIT_S)
    finally:
        for process in (tracer, job):
            if process.poll() is None:
                process.kill()
                process.wait()
    print(f"{options.what} {' '.join(more)}: {looks[-1][0]} steps in {options.seconds:.0f} s")
    for steps, kib in looks[:: max(1, len(looks) // 8)]:
        print(f"  {steps:9d} steps {kib / 1024:8.1f} MiB")
    half = looks[len(looks) // 2]
    grown = (looks[-1][1] - half[1]) * 1024 / max(1, looks[-1][0] - half[0])
    print(f"  at the end {looks[-1][1] / 1024:.1f} MiB; over the last half {grown:.0f} bytes a step")
    for capture in out.rglob("capture.ptrec"):
        print(f"  {capture.name}: {capture.stat().st_size / looks[-1][0]:.0f} bytes a step")
    for summary in out.rglob("summary.json"):
        told = json.loads(summary.read_text(encoding="utf-8"))
        print("  lost", told["ledger"]["ring_lost"], "unsupported", [entry for entry in told["unsupported"] if "names" in str(entry)])
    if options.keep is not None:
        shutil.copytree(out, options.keep, dirs_exist_ok=True)
    shutil.rmtree(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

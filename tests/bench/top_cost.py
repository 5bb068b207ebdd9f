#!/usr/bin/env python3
"""What `proftrace top` costs: a job of tiny operators alone and beside it, turn by turn.

    sudo tests/bench/top_cost.py --python PYTHON [--rounds 5] [--rates 100000,0] [--top "--tier patch"]

A rate is operators a second that the job is held to; 0 = as many as it can. Prints medians: the job's rate alone and beside top, what
top tells of its cost, the processor time of the process that records and of the one that shows, and how long a refresh takes.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OPERATORS_A_STEP = 1000
TICKS = os.sysconf("SC_CLK_TCK")
JOB = """
import mmap, struct, sys, time, torch
torch.set_num_threads(1)
rate, operators = float(sys.argv[2]), int(sys.argv[3])
file = open(sys.argv[1], "r+b")
steps = mmap.mmap(file.fileno(), 8)
data, more = torch.ones(4), torch.ones(4)
parameter = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([parameter], lr=0.1)
count, due = 0, time.monotonic()
with torch.no_grad():
    while True:
        for _ in range(operators):
            data.add_(more)
        optimizer.step()
        count += 1
        steps[:] = struct.pack("Q", count)
        if rate > 0:
            due = max(due + operators / rate, time.monotonic() - 0.1)
            time.sleep(max(0.0, due - time.monotonic()))
"""


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def viewer_of(pid: int) -> int:
    """The child that reads captures: the one with a filter of system calls and two threads."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        status = Path(f"/proc/{child}/status").read_text()
        if "Seccomp:\t2\n" in status and "Threads:\t2\n" in status:
            return int(child)
    raise SystemExit("top has no process that shows")


class Steps:
    def __init__(self, path: str) -> None:
        self.memory = mmap.mmap(os.open(path, os.O_RDWR), 8)

    def rate(self, seconds: float) -> float:
        """Operators a second."""
        begin, first = time.monotonic(), struct.unpack("Q", self.memory[:8])[0]
        time.sleep(seconds)
        last = struct.unpack("Q", self.memory[:8])[0]
        return (last - first) * OPERATORS_A_STEP / (time.monotonic() - begin)


def beside_top(binary: Path, job: int, steps: Steps, seconds: float, more: list[str]) -> dict[str, float]:
    with tempfile.TemporaryFile() as shown:
        top = subprocess.Popen([str(binary), "top", "-p", str(job), "--json", "--rows", "10", *more], stdout=shown,
                               stderr=subprocess.PIPE, text=True)
        assert top.stderr is not None
        while "recording" not in (line := top.stderr.readline()):
            if not line:
                raise SystemExit("top ended")
        time.sleep(12)  # until the window is full
        viewer = viewer_of(top.pid)
        before = cpu_s(top.pid), cpu_s(viewer)
        rate = steps.rate(seconds)
        used = cpu_s(top.pid) - before[0], cpu_s(viewer) - before[1]
        top.terminate()
        top.wait(60)
        shown.seek(0)
        last = json.loads(shown.read().splitlines()[-1])
    return {"rate": rate, "recorder": 100 * used[0] / seconds, "viewer": 100 * used[1] / seconds,
            "told": last["cost"]["overhead_percent"], "refresh_s": last["refresh_s"], "interval_s": last["interval_s"],
            "window_s": last["window_s"], "lost": last["lost"]}


def measure(arguments: argparse.Namespace, rate: float) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(8))
        file.flush()
        job = subprocess.Popen([arguments.python, "-c", JOB, file.name, str(rate), str(OPERATORS_A_STEP)])
        try:
            steps = Steps(file.name)
            time.sleep(5)
            alone, beside = [steps.rate(arguments.seconds)], []
            for _ in range(arguments.rounds):
                beside.append(beside_top(arguments.proftrace, job.pid, steps, arguments.seconds, arguments.top.split()))
                time.sleep(1)
                alone.append(steps.rate(arguments.seconds))
                neighbours = (alone[-2] + alone[-1]) / 2
                beside[-1]["slowdown"] = 100 * (neighbours / beside[-1]["rate"] - 1)
        finally:
            job.kill()
            job.wait()
    median = {name: statistics.median(turn[name] for turn in beside) for name in beside[0]}
    noise = max(abs(a / b - 1) for a, b in zip(alone, alone[1:]))
    print(f"held to {rate:.0f}: alone {statistics.median(alone):.0f} operators/s (neighbours differ by up to {100 * noise:.0f} %), "
          f"beside top {median['rate']:.0f}, slow-down {median['slowdown']:.0f} % (told {median['told']:.0f} %), recording "
          f"{median['recorder']:.0f} % and view {median['viewer']:.0f} % of a processor, a refresh {median['refresh_s']:.2f} s every "
          f"{median['interval_s']:.2f} s, window {median['window_s']:.1f} s, lost {median['lost']:.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rates", default="100000,0")
    parser.add_argument("--top", default="", help="more options of top")
    arguments = parser.parse_args()
    for rate in arguments.rates.split(","):
        measure(arguments, float(rate))


if __name__ == "__main__":
    main()

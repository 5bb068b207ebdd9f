#!/usr/bin/env python3
"""What a recording says that it costs the job, beside what the job's own clock says.

    sudo told_cost.py --python PYTHON [--rounds 5] [--seconds 2] [--tier bpf] [--busy N] [mlp wide tiny inference transformer matmul threads]

A job does steps for ever and tells its CPU time (process_time) and its steps. It is left alone and recorded in turns. Of each recording:
its CPU time a step over that of the quiet stretches before and after it, less 1 ("real"), and `estimated_overhead_percent` ("told").
Printed: the medians over the rounds, told / real, and what that makes a hit cost: the CPU time that a step took more, by its hits.
--busy N: beside N programs that do nothing but compute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/live"))

from told_cost import CostJob  # noqa: E402

KINDS = ["mlp", "wide", "tiny", "inference", "transformer", "matmul", "threads"]

def record(options: argparse.Namespace, job: CostJob, out: Path) -> tuple[float, float, dict[str, Any]]:
    """The begin and the end of a recording, as times, and its summary."""
    command = [str(options.proftrace), "record", "-p", str(job.pid), "-d", f"{options.seconds}s", "-o", str(out), "--format", "none",
               "-q", "--no-progress", "--tier", options.tier, *options.more]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    begin = summary["window"]["start_unix_ns"] / 1e9
    return begin, begin + summary["window"]["duration_ns"] / 1e9, summary


def measure(options: argparse.Namespace, kind: str) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in ("quiet_us", "real", "told", "ratio", "real_ns", "told_ns", "noise")}
    with tempfile.TemporaryDirectory(prefix="proftrace-told-") as folder:
        with CostJob(options.python, kind, Path(folder)) as job:
            before = job.quiet(options.seconds)
            for number in range(options.rounds):
                begin, end, summary = record(options, job, Path(folder) / f"result{number}")
                recorded, steps = job.cpu_us_a_step(begin + 0.1, end - 0.05)
                after = job.quiet(options.seconds)
                left = (before + after) / 2
                cost = summary["cost"]
                seconds = max(0.01, end - begin - 0.15)
                hits = (cost["probe_hits"] + cost.get("jumps", 0)) * seconds / (end - begin) / steps
                found["quiet_us"].append(left)
                found["noise"].append(100 * abs(after / before - 1))
                found["real"].append(100 * (recorded / left - 1))
                found["told"].append(cost["estimated_overhead_percent"])
                found["ratio"].append(found["told"][-1] / found["real"][-1])
                found["real_ns"].append(1e3 * (recorded - left) / hits)
                found["told_ns"].append(cost["ns_per_jump"] if cost.get("jumps") else cost["probe_ns_per_hit"])
                if options.verbose:
                    print(kind, {name: round(values[-1], 2) for name, values in found.items()}, cost["basis"], file=sys.stderr, flush=True)
                before = after
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=[], help="default: all")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--tier", default="bpf")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--more", action="append", default=[], help="an option for proftrace")
    parser.add_argument("--verbose", action="store_true", help="each round, too")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("told_cost.py needs root: uprobes and BPF", file=sys.stderr)
        return 4
    others = [subprocess.Popen([sys.executable, "-c", "while True: sum(range(100000))"]) for _ in range(options.busy)]
    try:
        print(f"tier {options.tier}, load {os.getloadavg()[0]:.1f}, {options.busy} busy programs beside\n")
        print("| job | quiet step, us of CPU | real | told | told / real | a hit, real | told | quiet stretches differ by |")
        print("|---|---|---|---|---|---|---|---|")
        for kind in options.kinds or KINDS:
            row = measure(options, kind)
            print(f"| {kind} | {row['quiet_us']:.0f} | {row['real']:+.1f} % | {row['told']:+.1f} % | {row['ratio']:.2f} | "
                  f"{row['real_ns']:.0f} ns | {row['told_ns']:.0f} ns | {row['noise']:.1f} % |", flush=True)
    finally:
        for other in others:
            other.kill()
            other.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())

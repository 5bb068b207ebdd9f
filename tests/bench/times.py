#!/usr/bin/env python3
"""How close proftrace's operator times are to torch.profiler's, each taken alone.

    sudo times.py --python PYTHON [--rounds 5] [mlp transformer ...]

In each round the same job runs once under torch.profiler and once under proftrace, in turn. A name's time is the median
over its calls, after each profiler's own cost is taken off:
- proftrace's: one hit for the row itself (the end of the begin's trap and the start of the end's), two for each row
  below it, at the cost of a hit that the recording measured in the job (probe_ns_per_hit);
- torch.profiler's: what it takes for a row, for each row below. That is measured in the same round: the CPU
  time of a step with it less that without, in one process, over the rows of a step. What lies inside a row itself is small and stays.
Printed: the median over the rounds' ratios for each name, and over the names their median and spread: for all names, for
those without rows below them (leaves: torch.profiler's figure is then as it gives it), and for those with.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))
import run_oracle  # noqa: E402

Durations = dict[str, list[float]]
BEGIN, END = "proftrace.window.begin", "proftrace.window.end"


def torch_cost_ns(options: argparse.Namespace, workload: str, out: Path) -> float:
    """What torch.profiler takes for a row."""
    with run_oracle.Job(options.python, workload, "time", out, options.steps, 1) as job:
        job.lines.wait(r"READY (\d+)", run_oracle.START_S)

        def ask(command: str) -> dict[str, float]:
            assert job.process.stdin is not None
            job.process.stdin.write(f"{command} {options.steps}\n".encode())
            job.process.stdin.flush()
            return json.loads(job.lines.wait(r"^\{.*\}$", run_oracle.WORK_S).group(0))

        rows = ask("count")["operators_per_step"]
        with_it, without = [], []
        for _ in range(5):
            without.append(ask("run")["cpu_us"])
            with_it.append(ask("profile")["cpu_us"])
    return 1e3 * (statistics.median(with_it) - statistics.median(without)) / rows


def below_each(parents: list[int | None]) -> list[int]:
    """How many rows lie below each; a parent comes before its children."""
    below = [0] * len(parents)
    for i in range(len(parents) - 1, -1, -1):
        parent = parents[i]
        if parent is not None:
            below[parent] += 1 + below[i]
    return below


def torch_times(options: argparse.Namespace, workload: str, out: Path, row_ns: float) -> tuple[Durations, set[str]]:
    """Durations by name, and the names that have rows below them."""
    with run_oracle.Job(options.python, workload, "profile", out, options.steps, 1) as job:
        pid = int(job.lines.wait(r"READY (\d+)", run_oracle.START_S).group(1))
        job.go()
        job.lines.wait(r"DONE", run_oracle.WORK_S)
        job.process.wait(run_oracle.STOP_S)
    lines = (out / f"oracle-{pid}.jsonl").read_text(encoding="utf-8").splitlines()[1:]
    rows = [json.loads(line) for line in lines]
    below = below_each([row["parent"] if row["parent"] >= 0 else None for row in rows])
    durations: Durations = {}
    for row, inside in zip(rows, below):
        durations.setdefault(row["name"], []).append(row["end_ns"] - row["start_ns"] - row_ns * inside)
    return durations, {row["name"] for row, inside in zip(rows, below) if inside}


def our_times(options: argparse.Namespace, workload: str, out: Path) -> tuple[Durations, Durations, float]:
    """Durations by name with the capture's cost taken off, and as recorded; the cost of a hit."""
    with run_oracle.Job(options.python, workload, "loop", out, options.steps, 1) as job:
        pid = int(job.lines.wait(r"READY (\d+)", run_oracle.START_S).group(1))
        job.go()
        with run_oracle.Tracer(options.proftrace, pid, out / "result") as tracer:
            tracer.wait_until_recording(pid)
            time.sleep(options.seconds)
            if tracer.stop() != 0:
                raise SystemExit(f"proftrace failed: {tracer.lines.tail()}")
    summary = json.loads((out / "result" / "summary.json").read_text(encoding="utf-8"))
    hit_ns = summary["cost"]["probe_ns_per_hit"]
    with (out / "result" / "events.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    below = below_each([int(row["parent_id"]) if row["parent_id"] else None for row in rows])
    corrected: Durations = {}
    raw: Durations = {}
    for row, inside in zip(rows, below):
        if row["end"] != "return":
            continue
        duration = float(row["duration_ns"])
        raw.setdefault(row["name"], []).append(duration)
        corrected.setdefault(row["name"], []).append(duration - hit_ns * (1 + 2 * inside))
    return corrected, raw, hit_ns


def compare(options: argparse.Namespace, workload: str) -> None:
    ratios: dict[str, list[float]] = {}
    plain: dict[str, list[float]] = {}
    parents: set[str] = set()
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            row_ns = torch_cost_ns(options, workload, Path(folder))
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            theirs, parents = torch_times(options, workload, Path(folder), row_ns)
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            ours, raw, hit_ns = our_times(options, workload, Path(folder))
        print(f"{workload}: torch.profiler {row_ns:.0f} ns a row, proftrace {hit_ns:.0f} ns a hit", flush=True)
        for name, durations in theirs.items():
            if name in ours and name not in (BEGIN, END):
                reference = statistics.median(durations)
                ratios.setdefault(name, []).append(statistics.median(ours[name]) / reference)
                plain.setdefault(name, []).append(statistics.median(raw[name]) / reference)
    print(f"{workload}, {options.rounds} rounds, ours / torch.profiler's:")
    whole = {name: statistics.median(values) for name, values in ratios.items()}
    as_recorded = {name: statistics.median(values) for name, values in plain.items()}
    for title, names in (("all", set(whole)), ("leaves", set(whole) - parents), ("with rows below", parents & set(whole))):
        if names:
            values = sorted(whole[name] for name in names)
            print(f"  {title:16} {len(names):4} names: median {statistics.median(values):.3f}, "
                  f"quarter to three quarters {values[len(values) // 4]:.2f} to {values[3 * len(values) // 4]:.2f}; "
                  f"as recorded {statistics.median(as_recorded[name] for name in names):.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=run_oracle.ROOT / "build/release/bin/proftrace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40, help="under torch.profiler")
    parser.add_argument("--seconds", type=float, default=1.5, help="under proftrace")
    parser.add_argument("workloads", nargs="*", default=["mlp", "transformer"])
    options = parser.parse_args()
    for workload in options.workloads:
        compare(options, workload)
    return 0


if __name__ == "__main__":
    sys.exit(main())

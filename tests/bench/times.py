#!/usr/bin/env python3
"""How close proftrace's operator times are to torch.profiler's, each taken alone.

    sudo times.py --python PYTHON [--rounds 5] [mlp transformer ...]

In each round the same job runs once under torch.profiler and once under proftrace, in turn. An operator's time is the
median over its calls; of proftrace's, what the capture itself took is taken off first: one hit for the span itself (the
end of the begin's trap and the start of the end's), two for each operator below it, at the cost of a hit that the
recording measured. torch.profiler's times are as it gives them. Printed: the median over the rounds' ratios for each
name, and their median and spread over the names, plainly and for names that make up the job's time.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
from pathlib import Path

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))
import run_oracle  # noqa: E402

Durations = dict[str, list[float]]
BEGIN, END = "proftrace.window.begin", "proftrace.window.end"


def run_job(options: argparse.Namespace, workload: str, mode: str, out: Path, traced: bool) -> int:
    with run_oracle.Job(options.python, workload, mode, out, options.steps, 1) as job:
        pid = int(job.lines.wait(r"READY (\d+)", run_oracle.START_S).group(1))
        if not traced:
            job.go()
            job.lines.wait(r"DONE", run_oracle.WORK_S)
        else:
            with run_oracle.Tracer(options.proftrace, pid, out / "result") as tracer:
                tracer.wait_until_recording(pid)
                job.go()
                job.lines.wait(r"DONE", run_oracle.WORK_S)
                if tracer.stop() != 0:
                    raise SystemExit(f"proftrace failed: {tracer.lines.tail()}")
        job.process.wait(run_oracle.STOP_S)
    return pid


def torch_times(options: argparse.Namespace, workload: str, out: Path) -> Durations:
    pid = run_job(options, workload, "profile", out, traced=False)
    durations: Durations = {}
    for line in (out / f"oracle-{pid}.jsonl").read_text(encoding="utf-8").splitlines()[1:]:
        event = json.loads(line)
        durations.setdefault(event["name"], []).append(event["end_ns"] - event["start_ns"])
    return durations


def our_times(options: argparse.Namespace, workload: str, out: Path) -> tuple[Durations, Durations]:
    """Durations by name: with the capture's cost taken off, and as recorded."""
    run_job(options, workload, "plain", out, traced=True)
    summary = json.loads((out / "result" / "summary.json").read_text(encoding="utf-8"))
    hit_ns = summary["cost"]["probe_ns_per_hit"]
    with (out / "result" / "events.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    below = dict.fromkeys((row["id"] for row in rows), 0)
    for row in reversed(rows):
        if row["parent_id"]:
            below[row["parent_id"]] += 1 + below[row["id"]]
    bounds = [int(row["start_ns"]) for name in (BEGIN, END) for row in rows if row["name"] == name]
    corrected: Durations = {}
    raw: Durations = {}
    for row in rows:
        if bounds and not bounds[0] <= int(row["start_ns"]) <= bounds[-1]:
            continue
        duration = float(row["duration_ns"])
        raw.setdefault(row["name"], []).append(duration)
        corrected.setdefault(row["name"], []).append(duration - hit_ns * (1 + 2 * below[row["id"]]))
    return corrected, raw


def compare(options: argparse.Namespace, workload: str) -> None:
    ratios: dict[str, list[float]] = {}
    plain: dict[str, list[float]] = {}
    share: dict[str, float] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            theirs = torch_times(options, workload, Path(folder))
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            ours, raw = our_times(options, workload, Path(folder))
        for name, durations in theirs.items():
            if name in ours and name not in (BEGIN, END):
                reference = statistics.median(durations)
                ratios.setdefault(name, []).append(statistics.median(ours[name]) / reference)
                plain.setdefault(name, []).append(statistics.median(raw[name]) / reference)
                share[name] = sum(durations)
    whole = {name: statistics.median(values) for name, values in ratios.items()}
    as_recorded = [statistics.median(values) for values in plain.values()]
    total = max(share.values())
    large = [ratio for name, ratio in whole.items() if share[name] >= 0.01 * total]
    print(f"{workload}: {len(whole)} names, {options.rounds} rounds: corrected median "
          f"{statistics.median(whole.values()):.3f}, as recorded {statistics.median(as_recorded):.3f}; "
          f"{len(large)} names with 1 % of the time or more: corrected median {statistics.median(large):.3f}, "
          f"from {min(large):.2f} to {max(large):.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=run_oracle.ROOT / "build/release/bin/proftrace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("workloads", nargs="*", default=["mlp", "transformer"])
    options = parser.parse_args()
    for workload in options.workloads:
        compare(options, workload)
    return 0


if __name__ == "__main__":
    sys.exit(main())

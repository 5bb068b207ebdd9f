#!/usr/bin/env python3
"""How close proftrace's operator times are to torch.profiler's, of the same calls.

    sudo times.py --python PYTHON [--rounds 5] [mlp transformer ...]

In each round one job is recorded by both over the same window, and its rows are paired as the oracle pairs them. What is
compared is a name's time in the table: the mean over its calls, and their median. From ours is taken what lies in our row
and not in torch.profiler's:
- one hit of a probe (the end of the begin's trap and the start of the end's), as the recording measured it (probe_ns_per_hit):
  what the rows below cost both profilers have alike;
- what torch.profiler itself takes for a row: the CPU time of a step of tiny operators with it, less that without.
Printed: the median over the rounds' ratios for each name, and over the names their median and spread: for all names, and for
those that take at least 5 us, where what is taken off is no large part.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

ORACLE = Path(__file__).resolve().parents[1] / "oracle"
sys.path.insert(0, str(ORACLE))
import compare  # noqa: E402
import model  # noqa: E402
import run_oracle  # noqa: E402

LONG_NS = 5_000
FEWEST_CALLS = 5


def torch_cost_ns(options: argparse.Namespace, out: Path) -> float:
    """What torch.profiler takes for a row."""
    with run_oracle.Job(options.python, "tiny_ops", "time", out, options.steps, 1) as job:
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


def pairs_by_name(out: Path) -> dict[str, list[tuple[int, int]]]:
    """torch.profiler's duration and ours, of each call in the window; ns."""
    ours = model.read_events(out / "result" / "events.csv")
    durations: dict[str, list[tuple[int, int]]] = {}
    for oracle in model.read_oracles(out):
        for key, theirs in oracle.threads.items():
            window = model.window(theirs, "torch.profiler")
            mine = model.window(ours[key], "proftrace") if key in ours else None
            if window is None or mine is None:
                continue
            if oracle.deduplicated:
                mine = model.without_only_children(mine)
            for left, right in compare.pair_up(window, mine):
                if left is not None and right is not None and mine[right].end == "return":
                    durations.setdefault(window[left].name, []).append((window[left].duration_ns, mine[right].duration_ns))
    return durations


def spread(title: str, ratios: list[float], raw: list[float]) -> str:
    values = sorted(ratios)
    return (f"  {title:24} {len(values):4} names: median {statistics.median(values):.3f}, "
            f"quarter to three quarters {values[len(values) // 4]:.3f} to {values[3 * len(values) // 4]:.3f}; "
            f"as recorded {statistics.median(raw):.3f}")


def measure(options: argparse.Namespace, workload: str) -> None:
    # By name: a ratio for each round.
    found: dict[str, dict[str, list[float]]] = {"mean": {}, "median": {}, "mean, raw": {}, "median, raw": {}}
    long: set[str] = set()
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            row_ns = torch_cost_ns(options, Path(folder))
        with tempfile.TemporaryDirectory(prefix="proftrace-times-") as folder:
            problems, _ = run_oracle.record(options, workload, Path(folder))
            if problems:
                raise SystemExit("\n".join(problems))
            summary = json.loads((Path(folder) / "result" / "summary.json").read_text(encoding="utf-8"))
            pairs = pairs_by_name(Path(folder))
        hit_ns = summary["cost"]["probe_ns_per_hit"]
        print(f"{workload}: torch.profiler {row_ns:.0f} ns a row, proftrace {hit_ns:.0f} ns a hit", flush=True)
        for name, calls in pairs.items():
            if len(calls) < FEWEST_CALLS:
                continue
            for how, average in (("mean", statistics.mean), ("median", statistics.median)):
                theirs, ours = average([call[0] for call in calls]), average([call[1] for call in calls])
                found[how].setdefault(name, []).append((ours - hit_ns - row_ns) / theirs)
                found[how + ", raw"].setdefault(name, []).append(ours / theirs)
                if theirs >= LONG_NS:
                    long.add(name)
    print(f"{workload}, {options.rounds} rounds, ours / torch.profiler's:")
    whole = {how: {name: statistics.median(rounds) for name, rounds in names.items()} for how, names in found.items()}
    for how in ("mean", "median"):
        for title, names in (("all", set(whole[how])), ("5 us and more", long)):
            print(spread(f"{how} call, {title}", [whole[how][name] for name in names],
                         [whole[how + ", raw"][name] for name in names]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=run_oracle.ROOT / "build/release/bin/proftrace")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("workloads", nargs="*", default=["mlp", "transformer"])
    options = parser.parse_args()
    options.seed, options.memory, options.shapes = 1, False, False
    for workload in options.workloads:
        measure(options, workload)
    return 0


if __name__ == "__main__":
    sys.exit(main())

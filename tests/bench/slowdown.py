#!/usr/bin/env python3
"""What recording costs the job: every configuration in turn, in one run, on one long-lived job per workload.

    sudo slowdown.py --python PYTHON [--rounds 9] [tiny_ops transformer]

Each round visits, in this order: untraced, the kernel's floor (the same probes with an empty program), untraced,
proftrace, untraced, torch.profiler with its defaults. A tracer attaches while the job is idle, the steps run, the tracer
is stopped. With --before another build's proftrace in turn with this one's, by the CPU time of the job's thread too. With
--memory also --profile-memory (of the floor too) and torch.profiler(profile_memory=True), and what an allocation or free costs
over the default; with --shapes also --record-shapes and record_shapes=True, and what an operator does; with --stacks
also --with-stack and with_stack=True; with --sample proftrace with and without --sample 99Hz; with --jumps also --tier patch. The result, twice: the median of the rounds' medians, its ratio to the untraced neighbours in the same round, and the extra
time per operator; and the same from the quiet steps (quiet_us). Ratios are from one run; absolute times are this machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, TypeVar

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/oracle"))

from process import LineReader  # noqa: E402

JOB = ROOT / "tests/oracle/jobs/job.py"
STEPS = {"tiny_ops": (600, 300), "transformer": (14, 7), "much_python": (150, 75)}  # recorded, untraced
DEFAULT = ["tiny_ops", "transformer"]
CONFIGURATIONS = ["floor", "proftrace", "torch.profiler"]
BEFORE_CONFIGURATIONS = ["before", "proftrace"]
MEMORY_CONFIGURATIONS = ["floor", "floor, memory", "proftrace", "proftrace, memory", "torch.profiler", "torch.profiler, memory"]
SHAPES_CONFIGURATIONS = ["proftrace", "proftrace, shapes", "torch.profiler", "torch.profiler, shapes"]
STACKS_CONFIGURATIONS = ["proftrace", "proftrace, stacks", "torch.profiler", "torch.profiler, stacks"]
SAMPLE_CONFIGURATIONS = ["proftrace", "proftrace, sample"]
JUMPS_CONFIGURATIONS = ["proftrace", "proftrace, jumps", "torch.profiler"]
FEATURES = {"memory": "--profile-memory", "shapes": "--record-shapes", "stacks": "--with-stack",
            "sample": "--sample=99Hz", "jumps": "--tier=patch"}  # a configuration's last word
WAIT_S = 300.0
Work = TypeVar("Work")


class Target:
    """A job that answers `run N`, `profile N` and `count N`."""

    def __init__(self, python: str, workload: str) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        self.process = subprocess.Popen([python, str(JOB), workload, "--mode", "time"], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
        assert self.process.stdout is not None
        self.lines = LineReader(self.process.stdout)
        self.pid = int(self.lines.wait(r"READY (\d+)", WAIT_S).group(1))

    def ask(self, command: str, steps: int) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{command} {steps}\n".encode())
        self.process.stdin.flush()
        return json.loads(self.lines.wait(r"\{.*\}", WAIT_S).group(0))

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.lines.close()


def traced(binary: Path, target: Target, work: Callable[[int], Work], *more: str, switches: str = ""
           ) -> tuple[Work, dict[str, Any]]:
    """What `work` gives while the job is recorded (it is called with the tracer's PID), and the summary.json."""
    out = Path(tempfile.mkdtemp(prefix="proftrace-bench-"))
    command = [str(binary), "record", "-p", str(target.pid), "-o", str(out), "--format", "none", *more]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env={**os.environ, "PROFTRACE_TEST_SWITCHES": switches})
    assert tracer.stderr is not None
    lines = LineReader(tracer.stderr)
    try:
        lines.wait(r"recording PID", WAIT_S)
        done = work(tracer.pid)
        tracer.send_signal(signal.SIGINT)
        if tracer.wait(WAIT_S) != 0:
            raise SystemExit(f"proftrace ended with {tracer.returncode}: {lines.tail()}")
        return done, json.loads((out / "summary.json").read_text(encoding="utf-8"))
    finally:
        if tracer.poll() is None:
            tracer.kill()
            tracer.wait()
        lines.close()
        shutil.rmtree(out, ignore_errors=True)


def measure(options: argparse.Namespace, workload: str) -> dict[str, Any]:
    recorded, untraced = STEPS[workload]
    target = Target(options.python, workload)
    operators = target.ask("count", 1)["operators_per_step"]
    configurations = (MEMORY_CONFIGURATIONS if options.memory else
                      SHAPES_CONFIGURATIONS if options.shapes else
                      STACKS_CONFIGURATIONS if options.stacks else
                      SAMPLE_CONFIGURATIONS if options.sample else
                      JUMPS_CONFIGURATIONS if options.jumps else
                      BEFORE_CONFIGURATIONS if options.before else CONFIGURATIONS)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ["untraced", *configurations]}
    ratios: dict[str, list[float]] = {name: [] for name in ["untraced", *configurations]}
    lost = 0
    memory_events = 0.0
    tracer_cpu: list[float] = []
    for number in range(options.rounds):
        before = target.ask("run", untraced)
        for name in configurations:
            feature = name.split()[-1] if name.split()[-1] in FEATURES else None
            if name.startswith("torch.profiler"):
                times = target.ask(feature or "profile", recorded // 2)
            else:
                is_floor = name.startswith("floor")
                more = [FEATURES[feature]] if feature else []
                binary = options.before if name == "before" else options.proftrace
                times, summary = traced(binary, target, lambda _: target.ask("run", recorded), *more,
                                        switches="empty-program" if is_floor else "")
                if feature == "memory" and not is_floor:
                    memory_events = summary["events"]["memory"] / recorded
                if not is_floor:
                    lost += summary["ledger"]["ring_lost"]
                if name == "proftrace":
                    tracer_cpu.append(summary["cost"]["tracer_cpu_s"] / max(summary["window"]["duration_ns"] / 1e9, 1e-9))
            after = target.ask("run", untraced)
            neighbours = statistics.fmean([before["median_us"], after["median_us"]])
            rows[name].append(times)
            ratios[name].append(times["median_us"] / neighbours)
            rows["untraced"].append(after)
            ratios["untraced"].append(after["median_us"] / before["median_us"])
            before = after
        print(f"{workload}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    target.close()
    return {"workload": workload, "operators": operators, "rows": rows, "ratios": ratios, "lost": lost, "memory_events": memory_events,
            "tracer_cpu": statistics.median(tracer_cpu)}


def spread(values: list[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}"


def quarters(extra_us: list[float], operators: float) -> str:
    low, _, high = (value * 1e3 / operators for value in statistics.quantiles(extra_us, n=4))
    return f"half of them {low:.0f} to {high:.0f}"


def quiet_us(rows: list[dict[str, Any]]) -> float:
    """The tenth percentile of all steps of all rounds. On a host that runs at two speeds (a busy neighbour on the same core) a
    median is of whichever speed the run met more; this is of the faster one, and does not fall with the number of steps as a
    minimum does."""
    return statistics.quantiles([time_us for row in rows for time_us in row["times_us"]], n=10)[0]


def over_default(result: dict[str, Any], feature: str, events: float, what: str) -> list[str]:
    """What a feature costs over the same tracer without it, in ns an event, by both estimates."""
    base = statistics.median(row["median_us"] for row in result["rows"]["untraced"])
    lines = []
    for name in [name for name in result["rows"] if f"{name}, {feature}" in result["rows"]]:
        pairs = zip(result["ratios"][name], result["ratios"][f"{name}, {feature}"])
        extra = statistics.median(with_it - without for without, with_it in pairs) * base
        quiet = quiet_us(result["rows"][f"{name}, {feature}"]) - quiet_us(result["rows"][name])
        lines += ["", f"{name}: {quiet * 1e3 / events:.0f} ns {what} over its default by the quiet steps, {extra * 1e3 / events:.0f} by "
                      "the ratios"]
    return lines


def markdown(result: dict[str, Any]) -> str:
    untraced = result["rows"]["untraced"]
    base = statistics.median(row["median_us"] for row in untraced)
    lines = [f"**{result['workload']}**, {result['operators']:.0f} operators a step; {result['lost']} records lost; "
             f"proftrace's own CPU {100 * result['tracer_cpu']:.0f} % of a core while attached", "",
             "| configuration | step, median µs | ratio to its neighbours, median | lowest to highest | ns an operator | quiet step µs | "
             "ratio to untraced | ns an operator |", "|---|---|---|---|---|---|---|---|"]
    for name, rows in result["rows"].items():
        ratio = statistics.median(result["ratios"][name])
        quiet = quiet_us(rows)
        cells = [name, f"{statistics.median(row['median_us'] for row in rows):.1f}", f"{ratio:.3f}", spread(result["ratios"][name]),
                 f"{(ratio - 1) * base * 1e3 / result['operators']:.0f}", f"{quiet:.1f}", f"{quiet / quiet_us(untraced):.3f}",
                 f"{(quiet - quiet_us(untraced)) * 1e3 / result['operators']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    if "before" in result["rows"]:
        extra = [with_it["cpu_us"] - without["cpu_us"]
                 for without, with_it in zip(result["rows"]["before"], result["rows"]["proftrace"])]
        lines += ["", f"over the build before: {statistics.median(extra) * 1e3 / result['operators']:.0f} ns of the job's CPU an "
                      f"operator (median of the rounds), {quarters(extra, result['operators'])}"]
    if result["memory_events"]:
        lines += over_default(result, "memory", result["memory_events"], f"an allocation or free ({result['memory_events']:.0f} a step)")
    lines += over_default(result, "shapes", result["operators"], "an operator for shapes")
    lines += over_default(result, "stacks", result["operators"], "an operator for stacks")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", default=[], help="tiny_ops, transformer (default: both), much_python")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--before", type=Path, help="another build's proftrace, to compare with")
    parser.add_argument("--memory", action="store_true", help="what memory costs over the defaults")
    parser.add_argument("--shapes", action="store_true", help="what shapes cost over the defaults")
    parser.add_argument("--stacks", action="store_true", help="what Python stacks cost over the defaults")
    parser.add_argument("--sample", action="store_true", help="what samples cost over the defaults")
    parser.add_argument("--jumps", action="store_true", help="what --tier patch costs")
    parser.add_argument("--json", type=Path, help="also write the raw figures here")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("slowdown.py needs root: uprobes and BPF", file=sys.stderr)
        return 4
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} CPUs, kernel {platform.release()}, load {load:.1f} at the start\n")
    results = [measure(options, name) for name in options.workload or DEFAULT]
    for result in results:
        print(markdown(result) + "\n")
    if options.json:
        options.json.write_text(json.dumps(results), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

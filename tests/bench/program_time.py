#!/usr/bin/env python3
"""What the kernel says of the time in our own programs, in ns an operator of a job: the part of a trap that is ours.

    sudo program_time.py --python PYTHON [--rounds 5] [tiny_ops transformer]

The kernel counts each program's runs and time itself (kernel.bpf_stats_enabled, for this time only; bpf(2), BPF_ENABLE_STATS), and
/proc/TRACER/fdinfo tells them. Each round records the same steps of one long-lived job with an empty program (the floor), with the
default, with --record-shapes, with --profile-memory. The empty program's figure is what the counting itself takes: "over the floor" is
without it. With --before another build's proftrace in turn with this one's. Unlike the times of steps (slowdown.py), it does not hold
what the trap costs and what a neighbour on the core takes.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from slowdown import ROOT, STEPS, Target, traced  # noqa: E402

SWITCH = Path("/proc/sys/kernel/bpf_stats_enabled")
CONFIGURATIONS = {"floor": ["empty-program"], "default": [], "shapes": ["--record-shapes"], "memory": ["--profile-memory"],
                  "floor of memory": ["empty-program", "--profile-memory"]}


def programs(pid: int) -> tuple[int, int]:
    """Runs and nanoseconds of all BPF programs that a process holds."""
    seen: dict[int, tuple[int, int]] = {}
    for entry in Path(f"/proc/{pid}/fdinfo").iterdir():
        text = entry.read_text(encoding="utf-8")
        fields = dict(re.findall(r"^(prog_id|run_time_ns|run_cnt):\s*(\d+)$", text, re.MULTILINE))
        if "run_cnt" in fields:
            seen[int(fields["prog_id"])] = (int(fields["run_cnt"]), int(fields["run_time_ns"]))
    return sum(count for count, _ in seen.values()), sum(time for _, time in seen.values())


def record(binary: Path, target: Target, steps: int, more: list[str]) -> tuple[float, float]:
    """Runs and nanoseconds of our programs a step."""

    def work(tracer: int) -> tuple[float, float]:
        target.ask("run", 10)  # the first hits of each site are slower
        before = programs(tracer)
        target.ask("run", steps)
        after = programs(tracer)
        return (after[0] - before[0]) / steps, (after[1] - before[1]) / steps

    switches = [word for word in more if not word.startswith("-")]
    return traced(binary, target, work, *(word for word in more if word not in switches), switches=",".join(switches))[0]


def measure(options: argparse.Namespace, workload: str) -> None:
    target = Target(options.python, workload)
    operators = target.ask("count", 1)["operators_per_step"]
    steps = STEPS[workload][0]
    binaries = {"": options.proftrace, " before": options.before}
    runs = {name + which: (binaries[which], more) for name, more in CONFIGURATIONS.items()
            for which in (["", " before"] if options.before and "floor" not in name else [""])}
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for number in range(options.rounds):
        for name, (binary, more) in runs.items():
            rows[name].append(record(binary, target, steps, more))
        print(f"{workload}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    target.close()

    def over(name: str, base: str) -> list[float]:
        return [with_it[1] - without[1] for with_it, without in zip(rows[name], rows[base])]

    def figure(values: list[float], per: float) -> str:
        return f"{statistics.median(values) / per:.0f} ({min(values) / per:.0f} to {max(values) / per:.0f})"

    events = statistics.median(row[0] for row in rows["floor of memory"]) - statistics.median(row[0] for row in rows["floor"])
    print(f"**{workload}**, {operators:.0f} operators and {events:.0f} allocations and frees a step\n")
    print("| configuration | hits a step | ns a hit, median | over | ns an operator, median (lowest to highest) |\n|---|---|---|---|---|")
    bases = {"floor": "", "default": "floor", "shapes": "default", "memory": "floor of memory"}
    bases |= {f"{name} before": "default before" if base == "default" else base for name, base in bases.items()}
    for name, base in [(name, bases[name]) for name in rows if name in bases]:
        hits = statistics.median(row[0] for row in rows[name])
        cells = [name, f"{hits:.0f}", f"{statistics.median(time / count for count, time in rows[name]):.0f}", base or "nothing",
                 figure(over(name, base) if base else [row[1] for row in rows[name]], operators)]
        print("| " + " | ".join(cells) + " |")
    memory = [a - b for a, b in zip(over("memory", "floor of memory"), over("default", "floor"))]
    print(f"\nmemory over the default, each over its floor: {figure(memory, max(events, 1))} ns an allocation or free\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", default=[], help="tiny_ops, transformer; default: both")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--before", type=Path, help="another build's proftrace, to compare with")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("program_time.py needs root: uprobes and BPF", file=sys.stderr)
        return 4
    print(f"{os.cpu_count()} CPUs, kernel {platform.release()}, load {os.getloadavg()[0]:.1f} at the start\n")
    was = SWITCH.read_text(encoding="utf-8")
    SWITCH.write_text("1", encoding="utf-8")
    try:
        for name in options.workload or sorted(STEPS):
            measure(options, name)
    finally:
        SWITCH.write_text(was, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

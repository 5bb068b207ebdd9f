#!/usr/bin/env python3
"""One long recording: whether every record is accounted for, and what it takes.

    sudo soak.py --python PYTHON [--events 10000000] [--workload tiny_ops] [more options of proftrace]

The ledger, which is made of the capture, must add up, and nothing may be unknown or unreadable; else the exit code is 1.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from slowdown import ROOT, Target, traced  # noqa: E402

STEPS_AT_ONCE = 500


def peak_mib(pid: int) -> float:
    """The largest resident set of a process so far, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    match = re.search(r"VmHWM:\s*(\d+) kB", status)
    assert match is not None
    return int(match.group(1)) / 1024


def failures(ledger: dict[str, int], begun: int) -> list[str]:
    """What is not as it has to be, where `begun` operators were executed at least."""
    sums = {"records": ("decoded", "unknown", "malformed"), "begins": ("closed", "end_by_exception", "end_lost", "truncated")}
    found = [f"{name} is {ledger[name]}, {' + '.join(parts)} are {sum(ledger[part] for part in parts)}"
             for name, parts in sums.items() if ledger[name] != sum(ledger[part] for part in parts)]
    found += [f"{name} is {ledger[name]}" for name in ("unknown", "malformed", "unnamed", "read_failed") if ledger[name] != 0]
    if ledger["ring_lost"] == 0 and ledger["begins"] < begun:
        found.append(f"{ledger['begins']} begins of {begun} operators, and nothing was lost")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--events", type=int, default=10_000_000, help="operators at least")
    parser.add_argument("--workload", default="tiny_ops")
    options, more = parser.parse_known_args()
    target = Target(options.python, options.workload)
    operators = target.ask("count", 1)["operators_per_step"]
    steps = 0
    peaks: list[float] = []

    def work(tracer: int) -> None:
        nonlocal steps
        while steps * operators < options.events:
            target.ask("run", STEPS_AT_ONCE)
            steps += STEPS_AT_ONCE
            peaks.append(peak_mib(tracer))

    _, summary = traced(options.proftrace, target, work, *more)
    target.close()
    ledger = summary["ledger"]
    seconds = summary["window"]["duration_ns"] / 1e9
    print(f"{ledger['begins']} spans, {ledger['records']} records in {seconds:.1f} s ({ledger['records'] / seconds / 1e3:.0f} k/s); "
          f"lost {ledger['ring_lost']}, truncated {ledger['truncated']}; "
          f"proftrace's CPU {summary['cost']['tracer_cpu_s'] / seconds * 100:.1f} % of a core; "
          f"resident at most {peaks[0]:.0f} MiB after {100 * STEPS_AT_ONCE / steps:.0f} %, {peaks[-1]:.0f} MiB at the end")
    found = failures(ledger, int(steps * operators))
    for what in found:
        print(f"FAILED: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""How long injections stop a program, also where more processes want to run than there are processors.

    sudo python3 tests/bench/injection_stops.py [--count 100] [--busy 4] [--tools FOLDER] [KIND...]

KIND: of tests/support/injection/target.c. `wait` is the part of the longest stop until the last thread stood still.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = (0.5, 0.9, 0.99, 1.0)


def spread(values: list[float]) -> str:
    return ", ".join(f"{sorted(values)[min(len(values) - 1, int(len(values) * part))]:.2f}" for part in PARTS) if values else "none"


def measure(arguments: argparse.Namespace, kind: str) -> None:
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(arguments.busy)]
    target = subprocess.Popen([arguments.tools / "injection_target", kind, "600"], stdout=subprocess.PIPE, text=True)
    assert target.stdout is not None and target.stdout.readline() == "ready\n"
    answers = []
    try:
        for _ in range(arguments.count):
            run = subprocess.run([arguments.tools / "inject", arguments.tools / "libinjected.so", "injected", str(target.pid),
                                  "injection_target:safe_point"], capture_output=True, text=True)
            answers.append(dict(line.split(maxsplit=1) for line in run.stdout.splitlines()))
    finally:
        for process in (target, *busy):
            process.kill()
            process.wait()
    done = [answer for answer in answers if "result" in answer]
    stops = [float(answer["stop_us"]) / 1e3 for answer in done]
    print(f"{kind}, {arguments.busy} busy processes, load {os.getloadavg()[0]:.1f}: {len(done)} injections, {len(answers) - len(done)} refused; "
          f"{sum(stop > 10 for stop in stops)} stops over 10 ms")
    for name, values in (("longest stop, ms", stops), ("of that wait, ms", [float(answer["wait_us"]) / 1e3 for answer in done if "wait_us" in answer]),
                         ("stops", [float(answer["stops"]) for answer in done]), ("whole injection, ms", [float(answer["total_ms"]) for answer in done])):
        print(f"  {name}: median, p90, p99, max {spread(values)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--busy", type=int, default=2 * (os.cpu_count() or 1))
    parser.add_argument("--tools", type=Path, default=ROOT / "build/release/tests/support/injection")
    parser.add_argument("kinds", nargs="*", default=["plain", "threads"])
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        measure(arguments, kind)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What recording adds to one tiny operator, in nanoseconds: tier patch and torch.profiler, each against no profiler at all, in turns in the same job. The
fastest batch of some hundreds is what the machine's other work disturbs least. Needs root."""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JOB = Path(__file__).with_name("operator_job.py")
BATCHES = 1500
PROFILED_BATCHES = 300  # torch.profiler keeps all in memory


class Job:
    def __init__(self, python: str, threads: int) -> None:
        self.process = subprocess.Popen([python, str(JOB), str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1)
        self.process.stdout.readline()

    def ask(self, line: str) -> list[float]:
        self.process.stdin.write(line + "\n")
        return [float(word) for word in self.process.stdout.readline().split()]


def recorded(job: Job, binary: Path, kind: str, options: list[str]) -> list[float]:
    folder = tempfile.mkdtemp()
    tracer = subprocess.Popen([str(binary), "-p", str(job.process.pid), "-o", folder, "--format", "none", *options],
                              stderr=subprocess.PIPE, text=True)
    while "recording PID" not in (line := tracer.stderr.readline()):
        if not line:
            raise SystemExit(f"proftrace ended: {tracer.wait()}")
    times = job.ask(f"{kind} {BATCHES}")
    tracer.send_signal(signal.SIGINT)
    said = tracer.communicate()[1]
    if " 0 records lost" not in said:
        print(said.strip())
    shutil.rmtree(folder)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, nargs="+", default=[ROOT / "build/release/bin/proftrace"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shapes", action="store_true", help="also with what operators are called with")
    parser.add_argument("--stacks", action="store_true", help="with the stacks of Python, some frames deep and 33 frames deeper")
    parser.add_argument("options", nargs="*", default=["--tier", "patch"], help="of proftrace (default: --tier patch)")
    arguments = parser.parse_args()
    job = Job(arguments.python, arguments.threads)
    times: dict[tuple[str, str], list[list[float]]] = {}
    for _ in range(arguments.rounds):
        for kind in ("plain", "deep") if arguments.stacks else ("plain", "gradients"):
            times.setdefault((kind, "untraced"), []).append(job.ask(f"{kind} {BATCHES}"))
            for word in ("stacks",) if arguments.stacks else ("profiler", "shapes")[:1 + arguments.shapes]:
                times.setdefault((kind, f"torch.profiler, {word}"), []).append(job.ask(f"{kind} {PROFILED_BATCHES} {word}"))
            for binary in arguments.proftrace:
                ways = ([], ["--with-stack"]) if arguments.stacks else ([], ["--record-shapes"])[:1 + arguments.shapes]
                for more in ways:
                    times.setdefault((kind, " ".join([str(binary), *more])), []).append(recorded(job, binary, kind, arguments.options + more))
    job.process.kill()
    job.process.wait()
    for (kind, way), found in times.items():
        fastest, tenth = (min(column) for column in zip(*found))
        base, base_tenth = (min(column) for column in zip(*times[kind, "untraced"]))
        print(f"{kind:<10} {way:<50} fastest batch {fastest - base:+7.1f} ns an operator, fastest tenth {tenth - base_tenth:+7.1f}; "
              f"untraced {base:.0f}")


if __name__ == "__main__":
    main()

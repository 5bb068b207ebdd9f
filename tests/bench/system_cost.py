#!/usr/bin/env python3
"""What --activities costs: nanoseconds that each system call takes longer, beside strace (and DFTracer where its library is given), and the time of two busy
threads with the scheduler recorded. Alternating, medians. Needs root and the built system_job."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BINARY = ROOT / "build/release/bin/proftrace"
JOB = ROOT / "build/release/tests/support/system/system_job"


def run(mode: str, threads: int, rounds: int, folder: Path, activities: str | None, prefix: tuple[str, ...] = (),
        preload: str | None = None) -> tuple[int, int, str]:
    """Nanoseconds that the work took, those of processors, and what proftrace said of it."""
    environment = dict(os.environ)
    if preload:
        environment.update(LD_PRELOAD=preload, DFTRACER_ENABLE="1", DFTRACER_INIT="PRELOAD", DFTRACER_DATA_DIR="all",
                           DFTRACER_LOG_FILE=str(folder / "dft"))
    job = subprocess.Popen([*prefix, str(JOB), mode, str(threads), str(rounds), str(folder)], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, text=True, env=environment)
    pid = job.stdout.readline().split()[1]
    tracer = None
    if activities:
        out = folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        tracer = subprocess.Popen([str(BINARY), "-p", pid, "--activities", activities, "--format", "none", "-o", str(out)],
                                  stderr=subprocess.PIPE, text=True)
        tracer.stderr.readline()
    job.stdin.write("\n")
    job.stdin.flush()
    took, on_cpu = map(int, job.stdout.readline().split()[1:])
    job.stdout.readline()
    said = ""
    if tracer:
        tracer.send_signal(signal.SIGINT)
        said = tracer.communicate()[1].splitlines()[0]
    job.stdin.write("\n")
    job.stdin.close()
    job.wait()
    return took, on_cpu, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dftracer", help="libdftracer_preload.so")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        ways = {"untraced": {}, "io (not recorded)": {"activities": "io"}, "syscalls": {"activities": "syscalls"},
                "syscalls,sched": {"activities": "syscalls,sched"}}
        print("one thread, getppid()")
        times: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, options in ways.items():
                took, on_cpu, said = run("storm", 1, 1000, folder, options.get("activities"))
                times[way].append(took / 1e6)
        base = statistics.median(times["untraced"])
        for way, figures in times.items():
            print(f"  {way:20} {statistics.median(figures):8.0f} ns a call, {statistics.median(figures) - base:+6.0f}"
                  f"   fastest {min(figures):6.0f}")
        print("files, pipes, sockets, memory on tmpfs (39 calls in 10 rounds), a round")
        ways = {"untraced": {}, "syscalls": {"activities": "syscalls"}, "io": {"activities": "io"},
                "strace -f": {"prefix": ("strace", "-f", "-q", "-o", "/dev/null")}}
        if arguments.dftracer:
            ways["DFTracer"] = {"preload": arguments.dftracer}
        times = {way: [] for way in ways}
        on_cpus: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(arguments.rounds):
            for way, options in ways.items():
                count = 2000 if "prefix" in options else 20000
                took, on_cpu, said = run("mix", 1, count, folder, options.get("activities"), options.get("prefix", ()),
                                 options.get("preload"))
                times[way].append(took / count)
                on_cpus[way].append(on_cpu / count)
        base = statistics.median(times["untraced"])
        # Without the sleeps in it, which a busy machine makes longer.
        cpu_base = statistics.median(on_cpus["untraced"])
        for way, figures in times.items():
            print(f"  {way:20} {statistics.median(figures):8.0f} ns a round, {statistics.median(figures) - base:+7.0f},"
                  f" {(statistics.median(figures) - base) / 3.9:+7.0f} a call; processor time"
                  f" {(statistics.median(on_cpus[way]) - cpu_base) / 3.9:+7.0f} a call")
        for mode, threads, count, what in (("futex", 2, 20000, "two threads that take turns (futex), a turn"),
                                           ("compute", 6, 200, "six threads that compute on every core, a million rounds")):
            print(what)
            times = {"untraced": [], "sched": []}
            for _ in range(arguments.rounds):
                for way in times:
                    took, on_cpu, said = run(mode, threads, count, folder, None if way == "untraced" else "sched")
                    times[way].append(took / count / threads)
            base = statistics.median(times["untraced"])
            for way, figures in times.items():
                print(f"  {way:20} {statistics.median(figures):8.0f} ns, ratio {statistics.median(figures) / base:.3f}")


if __name__ == "__main__":
    if os.geteuid() != 0:
        sys.exit("needs root")
    main()

#!/usr/bin/env python3
"""A busy job recorded by jumps again and again, at random moments (issue: is it safe?): record_cycles.py --threads 4 --workers 2 --cycles 300.

The job is patch_cycles.py's, with workers of a DataLoader that are forked all the time. proftrace records it with options and for times that are drawn, from
moments that are drawn: until its time is over, or it is interrupted, or killed, also in the midst of putting jumps there. Each run of the job must end with
0 and the same results as by itself; and after each cycle its files' mappings, its descriptors and its code, and its children's, must be as before."""

from __future__ import annotations

import argparse
import collections
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "live"))

import live  # noqa: E402
from live import BINARY  # noqa: E402
from kill_points_test import anonymous_text_kb  # noqa: E402
from patch_test import PatchJob, files, patch_regions  # noqa: E402

OPTIONS: tuple[tuple[str, ...], ...] = (
    (), ("--record-shapes",), ("--profile-memory",), ("--all",), ("--no-bpf",), ("--activities", "cpu,syscalls"), ("--sample", "99Hz"),
    ("--max-overhead", "1%"))
ENDS = ("its time is over", "interrupted", "killed")
SETTLED_S = 10.0
LONGEST_S = 120.0  # a recording of half a second
NO_TARGET = 3  # exit code: the job has ended


def children(pid: int) -> list[int]:
    """With theirs."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found + [grandchild for child in found if Path(f"/proc/{child}/task").exists() for grandchild in children(child)]


def mapped_files(pid: int) -> collections.Counter[str]:
    """How its libraries are mapped."""
    found: collections.Counter[str] = collections.Counter()
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and ".so" in words[5]:
            found[" ".join((words[0], words[1], words[2], words[5]))] += 1
    return found


def is_running(job: PatchJob) -> bool:
    try:
        return job.process.poll() is None and Path(f"/proc/{job.pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Before:
    """What a job has by itself."""

    def __init__(self, job: PatchJob) -> None:
        self.job = job
        self.files = files(job.pid)
        self.mapped = mapped_files(job.pid)

    def difference(self) -> str:
        """What is left in it; descriptors that its workers' tensors bring come and go."""
        end = time.monotonic() + SETTLED_S
        while True:
            found = self.look()
            if not found or not is_running(self.job) or time.monotonic() > end:
                return found if is_running(self.job) else ""
            time.sleep(0.1)

    def look(self) -> str:
        try:
            found = [f"{pid}: {changed} bytes of code, {regions}" for pid in (self.job.pid, *children(self.job.pid))
                     if (changed := live.changed_text_bytes(pid) if anonymous_text_kb(pid) else 0) + len(regions := patch_regions(pid))]
            # Libraries that it has loaded meanwhile are its own.
            if gone := self.mapped - mapped_files(self.job.pid):
                found.append(f"mapped otherwise: {sorted(gone)[:4]}")
            if (more := files(self.job.pid) - self.files) != 0:
                found.append(f"{more:+} descriptors")
            return "; ".join(found)
        except OSError:
            return ""


class Cycles:
    def __init__(self, options: argparse.Namespace, directory: Path) -> None:
        self.options = options
        self.directory = directory
        self.draw = random.Random(options.seed)
        self.kinds: collections.Counter[str] = collections.Counter()
        self.codes: collections.Counter[str] = collections.Counter()

    def record(self, pid: int) -> str:
        """One recording; what was wrong with it."""
        out = self.directory / "result"
        shutil.rmtree(out, ignore_errors=True)
        how = self.draw.choice(ENDS)
        flags = self.draw.choice(OPTIONS) + (("--with-stack",) if self.options.with_stack or self.draw.random() < 0.3 else ())
        if "--all" in flags:
            flags = ("--all",)
        seconds = self.draw.uniform(0.02, 0.5)
        command = [str(BINARY), "record", "--tier", "patch", *flags, "--format", "none", "-o", str(out), "-p", str(pid)]
        if how == "its time is over":
            command += ["-d", f"{1000 * seconds:.0f}ms"]
        tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if how != "its time is over":
            # Half of them in the midst of putting jumps there.
            time.sleep(self.draw.uniform(0, 2.5))
            tracer.send_signal(signal.SIGINT if how == "interrupted" else signal.SIGKILL)
        try:
            _, text = tracer.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            tracer.kill()
            return f"{how}, {flags}: it does not end"
        self.kinds[" ".join(flags) or "no options"] += 1
        self.codes[f"{how}: {tracer.returncode}"] += 1
        if how == "killed":
            done = subprocess.run([BINARY, "clean", "-p", str(pid)], capture_output=True, text=True, timeout=LONGEST_S)
            self.codes[f"clean: {done.returncode}"] += 1
            return "" if done.returncode in (0, NO_TARGET) else f"clean: {done.returncode}, {done.stderr}"
        # Interrupted before it records it has nothing to say.
        is_right = tracer.returncode in (0, NO_TARGET) or (how == "interrupted" and tracer.returncode > 0)
        return "" if is_right else f"{command}: {tracer.returncode}, {text[-600:]}"

    def of_job(self, job: PatchJob, most: int) -> tuple[int, str]:
        """How many until the job ends, and what went wrong."""
        before = Before(job)
        count = 0
        while count < most and is_running(job):
            wrong = self.record(job.pid) or before.difference()
            if not is_running(job):
                break
            if wrong:
                return count, wrong
            count += 1
            time.sleep(self.draw.uniform(0, 0.2))
        return count, ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2, help="of a DataLoader")
    parser.add_argument("--cycles", type=int, default=300)
    parser.add_argument("--iterations", type=int, default=4000, help="of each thread in a run")
    parser.add_argument("--with-stack", action="store_true", help="all recordings; else three of ten")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    live.LiveTest.python = os.environ.get("PROFTRACE_ORACLE_PYTHON", "/usr/bin/python3")
    arguments = options.threads, options.iterations, options.workers
    with PatchJob(*arguments) as job:
        expected = job.result()
    assert expected[0] == 0, expected
    begin = time.monotonic()
    done = runs = 0
    with tempfile.TemporaryDirectory(prefix="proftrace-cycles-") as directory:
        cycles = Cycles(options, Path(directory))
        while done < options.cycles:
            with PatchJob(*arguments) as job:
                more, wrong = cycles.of_job(job, options.cycles - done)
                done += more
                runs += 1
                result = expected if wrong else job.result()
            if wrong or result != expected:
                print(f"run {runs}, after {done} cycles: {wrong or f'{result}, not {expected}'}")
                return 1
            print(f"run {runs}: {done} cycles, {time.monotonic() - begin:.0f} s, results equal", file=sys.stderr, flush=True)
    print(f"{options.threads} threads, {options.workers} workers: {done} recordings in {runs} runs, exit 0 and results equal in each, nothing left behind")
    print(f"  {dict(sorted(cycles.codes.items()))}\n  {dict(sorted(cycles.kinds.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

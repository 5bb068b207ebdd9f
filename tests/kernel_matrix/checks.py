#!/usr/bin/env python3
"""What is checked in one kernel, by root inside of the guest: checks.py --proftrace FILE --results FILE [--quick].

Each check is a line of JSON in the results: its name, whether it passed, what was seen and how long it took. One job
(tests/live/job.py) is recorded by PID again and again: with each set of options it must give the same checksum, the same
number of operators, and be left without a probe.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
# Emulated processors are many times as slow as a quiet machine's.
os.environ.setdefault("PROFTRACE_LIVE_PATIENCE", "60")
os.environ["PROFTRACE_BINARY"] = proftrace = sys.argv[sys.argv.index("--proftrace") + 1]
sys.path.insert(0, str(ROOT / "tests/live"))

import live  # noqa: E402
from live import Job, Result, Tracer  # noqa: E402

HOST_UNFIT = 6
STEPS = "steps 5"
SYSTEM = "cpu,syscalls,io,sched,faults"
# Options whose operators must be the same in number.
QUICK_SETS = {"default": (), "shapes": ("--record-shapes",), "stacks": ("--with-stack",),
              "system": ("--activities", SYSTEM, "--sample", "99Hz"), "patch": ("--tier", "patch")}
MORE_SETS = {"modules": ("--with-modules",), "memory": ("--profile-memory",), "wakers": ("--activities", "cpu,sched", "--waker-stacks"),
             "budget": ("--max-overhead", "90%"), "all": ("--all",), "all, by jumps": ("--tier", "patch", "--all")}
ORACLES = {"oracle mlp": ("mlp",), "oracle shapes boxed": ("--shapes", "boxed"), "oracle stacks functions": ("--stacks", "functions"),
           "oracle exceptions": ("exceptions",)}
LOST = ("ring_lost", "malformed", "unknown", "end_lost", "late", "truncated", "read_failed", "inputs_unread")


# What needs bpf_loop, which older kernels than 5.17 have not, is refused there by this sentence, or left out.
HAS_LOOPS = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2]) >= (5, 17)
NEEDS_LOOPS = "needs Linux 5.17 or later"


class Failed(Exception):
    """A check did not find what should be there."""


def require(condition: bool, what: object) -> None:
    if not condition:
        raise Failed(str(what))


class Checks:
    def __init__(self, results: Path) -> None:
        self.results = results
        self.failed = 0

    def run(self, name: str, check: Callable[[], str]) -> bool:
        begin = time.monotonic()
        try:
            ok, seen = True, check()
        except (Failed, live.Stopped, OSError, subprocess.SubprocessError, KeyError, ValueError) as error:
            ok, seen = False, f"{type(error).__name__}: {error}" if not isinstance(error, Failed) else str(error)
            traceback.print_exc()
        line = {"check": name, "ok": ok, "seen": seen, "seconds": round(time.monotonic() - begin, 1)}
        with self.results.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")
        print(f"{'ok    ' if ok else 'FAILED'} {name}: {seen} ({line['seconds']} s)", flush=True)
        self.failed += not ok
        return ok


def run_doctor() -> tuple[int, str]:
    done = subprocess.run([proftrace, "doctor"], capture_output=True, text=True)
    print(done.stdout + done.stderr, flush=True)
    return done.returncode, done.stdout


def check_refusal() -> str:
    """A kernel that is too old: one sentence, and the exit code of an unfit host."""
    done = subprocess.run([proftrace, "record", "-p", str(os.getpid()), "--activities", "sched", "-o", "/tmp/refused"], capture_output=True, text=True)
    require(done.returncode == HOST_UNFIT, f"exit code {done.returncode}: {done.stderr}")
    require(re.fullmatch(r"proftrace: [^\n]+needs Linux 5.15[^\n]*\n", done.stderr) is not None, done.stderr)
    return done.stderr.strip()


def check_loads() -> str:
    done = subprocess.run([ROOT / "build/release/bin/load_programs"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    taken = [line for line in lines if line.startswith("ok ")]
    refused = [line for line in lines if line not in taken]
    if HAS_LOOPS:
        require(done.returncode == 0, "; ".join(refused))
        return f"{len(lines)} of {len(lines)} sets of programs"
    others = [line for line in refused if NEEDS_LOOPS not in line and not line.endswith((", without inputs", ", without stacks"))]
    require(not others, "; ".join(others))
    return f"{len(taken)} of {len(lines)} sets of programs whole; the others need Linux 5.17, and say so or go without"


class Recordings:
    """Of one job, with ever other options."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = Path(tempfile.mkdtemp(prefix="kernel-matrix-"))
        self.plain = job.do(STEPS)["checksum"]
        self.fds = job.do("fds")["fds"]
        self.operators: dict[str, int] = {}

    def record(self, name: str, options: tuple[str, ...], *lines: str) -> tuple[Result, list[dict[str, str]], str]:
        out = self.folder / name.replace(" ", "_")
        begin = time.monotonic()
        with Tracer("-v", "-p", self.job.pid, "-o", out, "--format", "events-csv", *options) as tracer:
            tracer.wait_until_recording()
            attached_s = time.monotonic() - begin
            ids = tracer.kernel_ids()
            begin = time.monotonic()
            answers = [self.job.do(line) for line in lines]
            worked_s = time.monotonic() - begin
            begin = time.monotonic()
            code = tracer.stop()
            stopped_s = time.monotonic() - begin
            require(code == 0, f"exit code {code}: {tracer.text()}")
        result = Result(out)
        left = live.in_kernel(ids)
        require(not left, f"left in the kernel: {left}")
        require(live.changed_text_bytes(self.job.pid) == 0, "probes are left in the code")
        lost = {key: result.ledger[key] for key in LOST if result.ledger.get(key)}
        require(not lost, f"lost: {lost}")
        require(all(answer.get("checksum", self.plain) == self.plain for answer in answers), f"other checksums: {answers}")
        return result, answers, f"attached in {attached_s:.1f} s, worked {worked_s:.1f} s, stopped in {stopped_s:.1f} s"

    def check(self, name: str, options: tuple[str, ...]) -> str:
        try:
            result, _, times = self.record(name, options, STEPS)
        except live.Stopped as refusal:
            require(not HAS_LOOPS and NEEDS_LOOPS in str(refusal), refusal)
            return f"refused: {NEEDS_LOOPS}"
        count = sum(row["category"] == "cpu_op" for row in result.events())
        self.operators[name] = count
        require(count > 0, "no operator")
        require(count == self.operators.get("default", count), f"{count} operators, {self.operators.get('default')} without options")
        cut = [gap["feature"] for gap in result.summary["unsupported"] if "took too long" in gap["reason"]]
        require(not cut, f"{count} operators, 0 lost, {times}; but the plan was cut by its limit of processor time: {cut[:1]} and {len(cut) - 1} more")
        # What this PyTorch does not let one read is the same in all kernels.
        said = [f"{gap['feature']}: {gap['reason']}" for gap in result.summary["unsupported"] if "kernel" in gap["reason"]]
        shutil.rmtree(result.path)
        return f"{count} operators, 0 lost, {times}" + (f"; {'; '.join(said)}" if said else "")

    def check_threads(self) -> str:
        result, _, times = self.record("threads", (), "crowd 6")
        tids = {row["tid"] for row in result.events() if row["category"] == "cpu_op"}
        require(len(tids) >= 6, f"operators of {len(tids)} threads")
        return f"operators of {len(tids)} threads, {times}"

    def check_others(self) -> str:
        """Another process that runs the same library is not recorded."""
        with Job() as other:
            other.tell("loop")
            result, _, times = self.record("others", (), STEPS)
            other.finish_loop()
        pids = {row["pid"] for row in result.events()}
        require(pids == {str(self.job.pid)}, f"rows of {pids}")
        return f"only PID {self.job.pid}'s rows, {times}"

    def check_children(self) -> str:
        result, _, times = self.record("children", (), "fork 2 20")
        pids = {row["pid"] for row in result.events() if row["category"] == "cpu_op"} - {str(self.job.pid)}
        require(len(pids) == 2, f"operators of {len(pids)} of 2 children")
        return f"operators of 2 children, {times}"

    def check_end(self) -> str:
        require(self.job.do("fds")["fds"] == self.fds, "descriptors are left")
        require(self.job.do(STEPS)["checksum"] == self.plain, "another checksum")
        code = self.job.end()
        require(code == 0, f"exit code {code}")
        return "the same results and descriptors, exit code 0"


def check_oracle(arguments: tuple[str, ...]) -> str:
    done = subprocess.run([sys.executable, ROOT / "tests/oracle/run_oracle.py", "--proftrace", proftrace, *arguments],
                          capture_output=True, text=True)
    require(done.returncode == 0, done.stdout[-1500:])
    return done.stdout.splitlines()[0]


def check_kernel_log() -> str:
    log = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
    bad = [line for line in log.splitlines() if re.search(r"\b(BUG|WARNING|Oops|general protection|leaking uprobe)\b", line)]
    require(not bad, bad[:3])
    return "no warning"


def check_all(checks: Checks, quick: bool, sets: list[str]) -> None:
    types = Path("/sys/kernel/btf/vmlinux")
    checks.run("BTF", lambda: f"{types.stat().st_size} bytes")
    code, said = run_doctor()
    if code == HOST_UNFIT:
        checks.run("refusal", check_refusal)
        return

    def check_doctor() -> str:
        require(code == 0, said)
        return "; ".join(re.findall(r"\[ok\] ((?:tier|probes|cost).*)", said))

    checks.run("doctor", check_doctor)
    begin = time.monotonic()
    with Job() as job:
        checks.run("import torch", lambda: f"ready in {time.monotonic() - begin:.0f} s")
        recordings = Recordings(job)
        for name in sets:
            options = {**QUICK_SETS, **MORE_SETS}[name]
            checks.run(name, lambda name=name, options=options: recordings.check(name, options))
        checks.run("threads", recordings.check_threads)
        checks.run("children", recordings.check_children)
        if not quick:
            checks.run("other processes", recordings.check_others)
        checks.run("the job after all", recordings.check_end)
    for name, arguments in ({} if quick else ORACLES).items():
        checks.run(name, lambda arguments=arguments: check_oracle(arguments))
    checks.run("programs load", check_loads)
    checks.run("kernel log", check_kernel_log)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proftrace", required=True)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", help="of the sets of options: a list of names")
    options = parser.parse_args()
    checks = Checks(options.results)
    names = options.only.split(",") if options.only else [*QUICK_SETS, *([] if options.quick else MORE_SETS)]
    check_all(checks, options.quick, names)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Runs PyTorch's own profiler tests with proftrace attached to the process that runs them, and without.

    sudo torch_own_tests.py --tests FOLDER --python PYTHON [--files test_profiler ...] [--tier bpf patch auto] [--with plain all]

FOLDER is test/profiler of PyTorch's sources; they are not here, and PYTHON must have what they import (expecttest, psutil). Each
file runs in a process of its own: first alone, then for each tier and set of options with `proftrace record -p PID` from before
the first test to after the last one. Each test must end as it did alone, the process as well, and what torch's profiles saw in
the tests must be what proftrace recorded of them (own_tests.py). A test that ended otherwise is run again, both ways, REPEATS
times: one that does not end in the same way by itself is named and not counted.
Exit code: 0 all the same, 1 something differs, 77 it cannot run here (the reason is printed).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import own_tests
import run_oracle
from process import LineReader, Stopped

HERE = Path(__file__).resolve().parent
JOB = HERE / "jobs" / "own_tests_job.py"
SKIP = 77
OPTIONS = {
    "plain": [],
    "all": ["--with-stack", "--record-shapes", "--profile-memory", "--with-modules", "--with-flops", "--python-gc"],
}
START_S, TESTS_S = 120.0, 550.0
REPEATS = 2


@dataclasses.dataclass
class Run:
    outcomes: dict[str, tuple[str, str]] = dataclasses.field(default_factory=dict)  # of each test: how it ended, and why
    status: int | None = None
    content: own_tests.Answer | None = None
    problems: list[str] = dataclasses.field(default_factory=list)

    def counts(self) -> str:
        counted = Counter(outcome for outcome, _ in self.outcomes.values())
        return ", ".join(f"{counted[name]} {name}" for name in sorted(counted, key=lambda name: (name != "ok", name)))


class TestsJob:
    """The process of the tests. Leaving the context ends it, and what is left of its children."""

    def __init__(self, options: argparse.Namespace, file: Path, out: Path, only: str, windows: bool) -> None:
        command = [options.python, str(JOB), str(file), "--out", str(out), "--only", only] + ["--windows"] * windows
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        self.errors = (out / "tests.stderr").open("w")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=environment, cwd=out, start_new_session=True)
        assert self.process.stdout is not None
        self.lines = LineReader(self.process.stdout)

    def __enter__(self) -> "TestsJob":
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.lines.close()
        self.errors.close()

    def run(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        self.lines.wait(r"^DONE$", TESTS_S)


def outcomes_of(out: Path) -> dict[str, tuple[str, str]]:
    path = out / "outcomes.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {line["test"]: (line["outcome"], line["why"]) for line in map(json.loads, lines)}


def run_alone(options: argparse.Namespace, file: Path, out: Path, only: str, windows: bool) -> Run:
    run = Run()
    try:
        with TestsJob(options, file, out, only, windows) as job:
            job.lines.wait(r"^READY \d+", START_S)
            job.run()
            run.status = job.process.wait(START_S)
    except (Stopped, subprocess.TimeoutExpired) as error:
        run.problems.append(f"alone: {error}")
    run.outcomes = outcomes_of(out)
    return run


def run_recorded(options: argparse.Namespace, file: Path, out: Path, only: str, more: list[str]) -> Run:
    run = Run()
    try:
        with TestsJob(options, file, out, only, windows=True) as job:
            pid = int(job.lines.wait(r"^READY (\d+)", START_S)[1])
            with run_oracle.Tracer(options.proftrace, pid, out / "result", more) as tracer:
                tracer.wait_until_recording(pid)
                job.run()
                code = tracer.stop()
                if code != 0:
                    run.problems.append(f"proftrace ended with {code}: {tracer.lines.tail()}")
            run.status = job.process.wait(START_S)
        run.problems += run_oracle.check_summary(out / "result" / "summary.json")
        run.content = own_tests.compare_windows(pid, out / "windows.jsonl", out / "result")
        run.problems += run.content.problems()
    except (Stopped, subprocess.TimeoutExpired, OSError, ValueError) as error:
        run.problems.append(f"{type(error).__name__}: {error}")
    run.outcomes = outcomes_of(out)
    return run


def different(alone: Run, recorded: Run) -> list[str]:
    names = alone.outcomes.keys() | recorded.outcomes.keys()
    return sorted(name for name in names
                  if alone.outcomes.get(name, ("not run", ""))[0] != recorded.outcomes.get(name, ("not run", ""))[0])


def verdict(options: argparse.Namespace, file: Path, out: Path, test: str, more: list[str], alone: Run, recorded: Run) -> str:
    """Empty where the test ends now so, now so by itself."""
    only = "^" + re.escape(test) + "$"
    both: tuple[set[str], set[str]] = (set(), set())
    both[0].add(alone.outcomes.get(test, ("not run", ""))[0])
    both[1].add(recorded.outcomes.get(test, ("not run", ""))[0])
    for repeat in range(REPEATS):
        folders = [out / f"again-{way}-{repeat}" for way in ("alone", "recorded")]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        both[0].add(run_alone(options, file, folders[0], only, windows=False).outcomes.get(test, ("not run", ""))[0])
        both[1].add(run_recorded(options, file, folders[1], only, more).outcomes.get(test, ("not run", ""))[0])
    why = recorded.outcomes.get(test, ("", "the process ended before"))[1]
    if both[1] <= both[0] or (both[0] & both[1] and both[1] - both[0] == {"ok"}):
        print(f"       {test} ends in different ways alone, too: {', '.join(sorted(both[0]))}")
        return ""
    return f"{test}: alone {' or '.join(sorted(both[0]))}, recorded {' or '.join(sorted(both[1]))}: {why[:300]}"


def judge_file(options: argparse.Namespace, file: Path, folder: Path) -> list[str]:
    problems = []
    (folder / "alone").mkdir(parents=True)
    alone = run_alone(options, file, folder / "alone", options.only, windows=False)
    print(f"{file.stem}: alone {alone.counts()}, exit status {alone.status}", flush=True)
    problems += alone.problems
    for tier in options.tier:
        for name in options.options:
            out = folder / f"{tier}-{name}"
            out.mkdir()
            more = ["--tier", tier, *OPTIONS[name]]
            recorded = run_recorded(options, file, out, options.only, more)
            found = recorded.problems
            for test in different(alone, recorded)[:own_tests.SHOWN]:
                found.append(verdict(options, file, out, test, more, alone, recorded))
            if recorded.status != alone.status:
                found.append(f"the process ended with {recorded.status}, alone with {alone.status}")
            found = [text for text in found if text]
            print(f"  {'FAIL' if found else 'ok  '} {tier} {name}: {recorded.counts()}; "
                  f"{recorded.content.line() if recorded.content else 'nothing to compare'}")
            for text in found:
                print(f"       PROBLEM {text}")
            sys.stdout.flush()
            problems += [f"{file.stem}, {tier} {name}: {text}" for text in found]
    return problems


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=Path, required=True, help="test/profiler of PyTorch's sources")
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that imports torch")
    parser.add_argument("--proftrace", type=Path, default=run_oracle.ROOT / "build/release/bin/proftrace")
    parser.add_argument("--files", nargs="+", metavar="NAME", help="default: all of FOLDER")
    parser.add_argument("--only", default="", metavar="REGEX", help="tests whose names have it")
    parser.add_argument("--tier", nargs="+", choices=("bpf", "patch", "auto"), default=["bpf", "patch", "auto"])
    parser.add_argument("--with", dest="options", nargs="+", choices=tuple(OPTIONS), default=list(OPTIONS), help="sets of options")
    parser.add_argument("--keep", type=Path, help="keep everything in this directory")
    return parser.parse_args()


def reason_not_to_run(options: argparse.Namespace, files: list[Path]) -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not files or not all(file.is_file() for file in files):
        return f"no such tests of PyTorch in {options.tests}"
    probe = subprocess.run([options.python, "-c", "import torch.testing._internal.common_utils, psutil"], capture_output=True, text=True)
    return f"{options.python}: {probe.stderr.strip().splitlines()[-1]}" if probe.returncode else None


def main() -> int:
    options = arguments()
    files = [options.tests / f"{name.removesuffix('.py')}.py" for name in options.files or []] or sorted(options.tests.glob("test_*.py"))
    reason = reason_not_to_run(options, files)
    if reason:
        print(f"SKIPPED: {reason}")
        return SKIP
    folder = Path(tempfile.mkdtemp(prefix="proftrace-own-tests-", dir=options.keep))
    problems = []
    for file in files:
        problems += judge_file(options, file, folder / file.stem)
    print(f"{len(problems)} problems" + (f", kept in {folder}" if problems or options.keep else ""))
    if not problems and not options.keep:
        shutil.rmtree(folder)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

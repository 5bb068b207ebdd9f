#!/usr/bin/env python3
"""Records jobs whose steps are known and compares them with the steps that were found.

    sudo steps_oracle.py --python /usr/bin/python3 [--mode middle] [KIND ...]      (no names: all kinds)

Each job (jobs/steps_job.py) says when its steps began and ended. The number of steps must be the job's, and every call on the
job's thread must carry the number of the step that it was made in. With --mode middle the recording begins and ends while the job
goes round: the steps that lie in the window as a whole count. Exit code: 0 all right, 1 not, 77 it cannot run here.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tier
from process import LineReader, Stopped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JOB = HERE / "jobs" / "steps_job.py"
SKIP = 77
GUESS = "which step zeroed gradients belong to is a guess"
STEPS = {"slow": 5, "fast": 300}
SECONDS = {"slow": 14.0}  # of the recording in the middle
START_S, WORK_S = 120.0, 240.0
PAUSE_S = 0.5  # that no step has: before the first one, and behind the last, so that both are known to be whole


def kinds() -> list[str]:
    table = JOB.read_text(encoding="utf-8").split("KINDS = {", 1)[1].split("}", 1)[0]
    return [part.split('"')[1] for part in table.replace("\n", " ").split(",") if '"' in part]


def run_job(options: argparse.Namespace, kind: str, out: Path) -> tuple[int, int, list[tuple[int, int]]]:
    """Records the job. Its clock's offset, thread and steps."""
    middle = options.mode == "middle"
    seconds = SECONDS.get(kind, 2.0)
    command = [options.python, str(JOB), kind, "--seed", str(options.seed)]
    command += [] if middle else ["--steps", str(options.steps or STEPS.get(kind, 40))]
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    record = [str(options.proftrace), "record", "-o", str(out / "result"), "--format", "table,events-csv,csv,chrome",
              *tier.flags(options), *options.record]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as job:
        assert job.stdin is not None and job.stdout is not None
        lines = LineReader(job.stdout)
        pid = lines.wait(r"READY (\d+)", START_S).group(1)
        if middle:
            job.stdin.write(b"go\n")
            job.stdin.flush()
        with subprocess.Popen([*record, "-p", pid] + (["-d", str(seconds)] if middle else []),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            words = LineReader(tracer.stderr)
            words.wait("proftrace: recording", START_S)
            if not middle:
                time.sleep(PAUSE_S)
                job.stdin.write(b"go\n")
            elif tracer.wait(WORK_S) == 0:
                job.stdin.write(b"stop\n")
            job.stdin.flush()
            offset = int(lines.wait(r"OFFSET (-?\d+)", WORK_S).group(1))
            tid = int(lines.wait(r"TID (\d+)", WORK_S).group(1))
            steps = json.loads(lines.wait(r"STEPS (.*)", WORK_S).group(1))
            if not middle and tracer.poll() is None:
                time.sleep(PAUSE_S)
                tracer.send_signal(signal.SIGINT)
            if tracer.wait(WORK_S) != 0:
                raise Stopped(f"proftrace ended with {tracer.returncode}: {words.tail()}")
        job.stdin.close()
        job.wait(WORK_S)
    return offset, tid, steps


def whole_steps(summary: dict, rows: list[dict[str, str]], steps: list[list[int]], offset: int) -> list[tuple[int, int]]:
    """Those in the window, in Unix time. What a process does counts from when all its probes were live: a little earlier."""
    begin = summary["window"]["start_unix_ns"]
    end = begin + summary["window"]["duration_ns"]
    begin = min([begin, *(int(row["start_ns"]) for row in rows[:1])])
    return [(first + offset, last + offset) for first, last in steps if begin <= first + offset and last + offset <= end]


def judge(options: argparse.Namespace, kind: str, out: Path) -> tuple[list[str], str]:
    offset, tid, steps = run_job(options, kind, out)
    summary = json.loads((out / "result" / "summary.json").read_text(encoding="utf-8"))
    found = summary["steps"]
    with (out / "result" / "events.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    truth = whole_steps(summary, rows, steps, offset)
    line = f"{found['count']:6} of {len(truth):6}  {found['confidence']:.2f}  {found['how']}"
    if kind == "two_threads" and found["tid"] != tid:
        return [], line + " (the other thread's)"
    problems = []
    # A step that an end of the window cuts outside of its calls may count or not.
    slack = 2 if options.mode == "middle" else 0
    # Where zeroed gradients are taken for the end of a step and are its beginning, the window may end before them.
    last_may_lack = options.mode == "middle" and GUESS in found["how"]
    if not len(truth) - last_may_lack <= found["count"] <= len(truth) + slack:
        problems.append(f"{found['count']} steps, the job says {len(truth)}")
    starts = [begin for begin, _ in truth]
    calls = []  # a row, the number of its step by the job, and how far ours is from it
    for row in rows:
        index = bisect.bisect_right(starts, int(row["start_ns"])) - 1
        if int(row["tid"]) == tid and index >= 0 and int(row["start_ns"]) <= truth[index][1]:
            calls.append((row, index, int(row["step"]) - index if row["step"] else None))
    if not calls:
        return [*problems, "no call was recorded"], line
    shift = collections.Counter(distance for _, _, distance in calls).most_common(1)[0][0]
    wrong = [(row, index) for row, index, distance in calls if distance != shift]
    if options.mode == "middle":  # what ends the last step shows by what comes next, which the window may lack
        wrong = [(row, index) for row, index in wrong if row["step"] or index < len(truth) - 1]
    # What lies between an optimizer's step and the next forward pass may be in either step, where it is said to be a guess.
    # (Before 2.0 entering an annotation makes a tensor of zeros.)
    guessed = [row for row, _ in wrong
               if GUESS in found["how"] and re.search(r"Optimizer\.zero_grad#|^aten::zeros(/|$)", row["path"])]
    if guessed and len(guessed) == len(wrong):
        return problems, line + f"  {len(calls)} calls, {len(wrong)} of them in the step beside, as said"
    if wrong:
        examples = [f"{row['name']} in step {index} has '{row['step']}'" for row, index in wrong[:4]]
        problems.append(f"{len(wrong)} of {len(calls)} calls in another step: {'; '.join(examples)}")
    return problems, line + f"  {len(calls)} calls"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", nargs="*", default=[])
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that imports torch")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--mode", choices=["whole", "middle"], default="whole")
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", nargs="*", default=[], help="more options for record")
    parser.add_argument("--keep", type=Path)
    tier.add_options(parser)
    options = parser.parse_args()
    if tier.is_refused(options) or not options.proftrace.is_file():
        print("SKIPPED: needs root and a built proftrace")
        return SKIP
    failed = []
    names = options.kind or kinds()
    for kind in names:
        out = Path(tempfile.mkdtemp(prefix=f"proftrace-steps-{kind}-", dir=options.keep))
        try:
            problems, line = judge(options, kind, out)
        except (Stopped, OSError, ValueError, subprocess.TimeoutExpired) as error:
            problems, line = [f"{type(error).__name__}: {error}"], ""
        print(f"{'ok  ' if not problems else 'FAIL'} {kind:22} {line}")
        for problem in problems:
            print(f"     PROBLEM {problem}")
        if problems:
            failed.append(kind)
            print(f"     kept in {out}")
        sys.stdout.flush()
    print(f"{len(names) - len(failed)} of {len(names)} kinds have their steps" + (f"; not: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

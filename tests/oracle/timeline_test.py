#!/usr/bin/env python3
"""The memory timeline and snapshot against torch's own: `sudo timeline_test.py --python PYTHON`

Every change of torch's export_memory_timeline in the same run must be in ours, in order, by its size; and torch's reader of
memory snapshots (torch.cuda._memory_viz) must open ours. Exit code: 0 all the same, 1 something differs, 77 it cannot run here.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from process import LineReader

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIP = 77
START_S, WORK_S = 120.0, 120.0


def record(options: argparse.Namespace, out: Path) -> bool:
    """Records the job. Whether its torch has a timeline."""
    command = [options.python, str(HERE / "jobs/timeline_job.py"), str(out / "torch.json")]
    record_it = [str(options.proftrace), "record", "--profile-memory", "--format", "memory-timeline,memory-viz",
                 "-o", str(out / "result"), "-p"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdin is not None and job.stdout is not None
        lines = LineReader(job.stdout)
        pid = lines.wait(r"READY (\d+)", START_S).group(1)
        with subprocess.Popen([*record_it, pid], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            LineReader(tracer.stderr).wait("proftrace: recording", START_S)
            job.stdin.write(b"go\n")
            job.stdin.flush()
            answer = lines.wait(r"DONE|NONE", WORK_S).group(0)
            tracer.send_signal(signal.SIGINT)
            if tracer.wait(WORK_S) != 0:
                raise RuntimeError(f"proftrace ended with {tracer.returncode}")
        job.stdin.close()
        job.wait(WORK_S)
    return answer == "DONE"


def changes(path: Path, first: int | None) -> list[str]:
    """How the sum over all categories goes up and down. `first`: what it was before the first point; None = as at it."""
    totals = [int(sum(sizes)) for sizes in json.loads(path.read_text(encoding="utf-8"))[1]]
    before = [totals[0] if first is None else first, *totals]
    return [f"{now - then:+}" for then, now in zip(before, totals) if now != then]


def compare_timelines(out: Path) -> list[str]:
    # Torch's begins with what was there before.
    theirs, ours = changes(out / "torch.json", None), changes(out / "result/memory_timeline.json", 0)
    if not theirs:
        return ["torch's timeline has no change"]
    differences = [line for line in difflib.unified_diff(theirs, ours, "torch", "proftrace", lineterm="", n=1)]
    print(f"timeline: {len(ours)} changes, torch has {len(theirs)}")
    return differences


def read_snapshot(python: str, snapshot: Path) -> list[str]:
    problems = []
    for command in ("stats", "trace"):
        done = subprocess.run([python, "-m", "torch.cuda._memory_viz", command, str(snapshot)], capture_output=True, text=True)
        if done.returncode or not done.stdout.strip():
            problems.append(f"torch.cuda._memory_viz {command}: {done.stderr.strip()[-500:]}")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that imports torch")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    options = parser.parse_args()
    if os.geteuid() != 0 or not options.proftrace.is_file():
        print("SKIPPED: needs root and a built proftrace")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="proftrace-timeline-") as directory:
        out = Path(directory)
        has_timeline = record(options, out)
        problems = compare_timelines(out) if has_timeline else []
        if not has_timeline:
            print("timeline: this torch has none")
        # Before 2.1 snapshots were a list of segments, and so were their readers.
        problems += read_snapshot(options.python, out / "result/memory_viz.pickle") if has_timeline else []
    for problem in problems[:40]:
        print(f"PROBLEM {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

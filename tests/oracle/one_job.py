"""Checks of one job that brings torch's own answer in a file: what they all need around their comparison."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Callable

import tier
from process import LineReader

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIP = 77
WAIT_S = 120.0


def record(options: argparse.Namespace, job: str, flags: list[str], formats: str, out: Path) -> str:
    """Records `jobs/JOB OUT/torch.json` into OUT/result from its READY to its DONE. Returns the line that it ends with. Where records were
    lost because the tracer got no processor in time, it is recorded once more."""
    flags = [*flags, "--format", f"{formats},summary"]
    answer = record_once(options, job, flags, out)
    ledger = json.loads((out / "result/summary.json").read_text(encoding="utf-8"))["ledger"]
    if ledger["ring_lost"] == 0:
        return answer
    print(f"{ledger['ring_lost']} records were lost; once more", flush=True)
    shutil.rmtree(out / "result")
    return record_once(options, job, flags, out)


def record_once(options: argparse.Namespace, job: str, flags: list[str], out: Path) -> str:
    command = [options.python, str(HERE / "jobs" / job), str(out / "torch.json")]
    record_it = [str(options.proftrace), "record", *tier.flags(options), *flags, "-o", str(out / "result"), "-p"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        lines = LineReader(process.stdout)
        pid = lines.wait(r"READY (\d+)", WAIT_S).group(1)
        with subprocess.Popen([*record_it, pid], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as tracer:
            assert tracer.stderr is not None
            LineReader(tracer.stderr).wait("proftrace: recording", WAIT_S)
            process.stdin.write(b"go\n")
            process.stdin.flush()
            answer = lines.wait(r"DONE|NONE", WAIT_S).group(0)
            tracer.send_signal(signal.SIGINT)
            if tracer.wait(WAIT_S) != 0:
                raise RuntimeError(f"proftrace ended with {tracer.returncode}")
        process.stdin.close()
        process.wait(WAIT_S)
    return answer


def main(description: str, check: Callable[[argparse.Namespace, Path], list[str]]) -> int:
    """`check` gets an empty directory and returns what is wrong. Exit code: 0 nothing, 1 something, 77 it cannot run here."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that imports torch")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    tier.add_options(parser)
    options = parser.parse_args()
    if tier.is_refused(options) or not options.proftrace.is_file():
        print("SKIPPED: needs root and a built proftrace")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="proftrace-job-") as directory:
        problems = check(options, Path(directory))
    for problem in problems[:40]:
        print(f"PROBLEM {problem}")
    sys.stdout.flush()
    return 1 if problems else 0

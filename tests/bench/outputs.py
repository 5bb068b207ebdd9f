#!/usr/bin/env python3
"""How fast a capture becomes each output, on one core, and with how much memory.

    sudo outputs.py --python PYTHON [--events 1000000] [--torch]       records a capture of its own first
    outputs.py --capture DIR                                           measures this one

Each command runs --repeats times, bound to one CPU; the table gives the median, and the highest peak of resident memory.
--torch makes the same run under torch.profiler in one process and times its steps to the same results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/oracle"))

from process import LineReader  # noqa: E402

JOB = ROOT / "tests/oracle/jobs/job.py"
EVENTS_PER_STEP = 373  # of tiny_ops
WAIT_S = 600.0


@dataclasses.dataclass
class Measured:
    seconds: list[float]
    peak_kib: int
    output_bytes: int


def record(options: argparse.Namespace, out: Path) -> Path:
    """A capture of about options.events operator events."""
    steps = max(1, options.events // EVENTS_PER_STEP)
    job = subprocess.Popen([options.python, str(JOB), "tiny_ops", "--steps", str(steps)], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert job.stdin is not None and job.stdout is not None
    lines = LineReader(job.stdout)
    pid = lines.wait(r"READY (\d+)", WAIT_S).group(1)
    capture = out / "capture"
    tracer = subprocess.Popen([str(options.proftrace), "record", "-p", pid, "-o", str(capture), "--format", "none"],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    errors = LineReader(tracer.stderr)
    errors.wait(r"recording PID", WAIT_S)
    job.stdin.write(b"go\n")
    job.stdin.flush()
    lines.wait("DONE", WAIT_S)
    tracer.send_signal(signal.SIGINT)
    if tracer.wait(WAIT_S) != 0 or job.wait(WAIT_S) != 0:
        raise SystemExit(f"recording failed: {errors.tail()}")
    return capture


def measure(command: list[str], cpu: int, repeats: int, output: Path | None) -> Measured:
    result = Measured([], 0, 0)
    for _ in range(repeats):
        if output is not None and output.is_dir():
            shutil.rmtree(output)
        elif output is not None:
            output.unlink(missing_ok=True)
        start = time.perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL if output else None,
                                   preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        _, status, usage = os.wait4(process.pid, 0)
        result.seconds.append(time.perf_counter() - start)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        result.peak_kib = max(result.peak_kib, usage.ru_maxrss)
    if output is not None:
        files = output.iterdir() if output.is_dir() else [output]
        result.output_bytes = sum(file.stat().st_size for file in files)
    return result


def row(name: str, events: int, measured: Measured) -> str:
    seconds = statistics.median(measured.seconds)
    size = f"{measured.output_bytes / 1e6:.1f}" if measured.output_bytes else "–"
    return (f"| {name} | {seconds:.3f} | {min(measured.seconds):.3f} to {max(measured.seconds):.3f} | "
            f"{events / seconds / 1e6:.2f} | {measured.peak_kib / 1024:.0f} | {size} |")


def measure_outputs(options: argparse.Namespace, capture: Path, out: Path) -> None:
    events = sum(json.loads((capture / "summary.json").read_text(encoding="utf-8"))["events"].values())
    print(f"{events} events, capture {(capture / 'capture.ptrec').stat().st_size / 1e6:.1f} MB, one core, "
          f"{options.repeats} runs each\n")
    print("| output | s, median | lowest to highest | million events/s | peak MiB | MB |\n|---|---|---|---|---|---|")
    binary = str(options.proftrace)
    print(row("printed table", events, measure([binary, "report", str(capture)], options.cpu, options.repeats, None)))
    for name, form in (("trace.json", "chrome"), ("trace.json.gz", "chrome"), ("events.csv", "events-csv"),
                       ("events.csv.gz", "events-csv"), ("key_averages.csv", "csv"), ("profile.sqlite", "sqlite"),
                       ("parquet", "parquet"), ("parquet-events", "parquet-events"),
                       ("stacks.folded", "folded"), ("flamegraph.html", "flamegraph")):
        path = out / name
        command = [binary, "export", str(capture), "--format", form, "-o", str(path)]
        print(row(name, events, measure(command, options.cpu, options.repeats, path)), flush=True)


def measure_torch(options: argparse.Namespace, out: Path) -> None:
    steps = max(1, options.events // EVENTS_PER_STEP)
    command = [options.python, str(HERE / "torch_outputs.py"), str(steps), str(out)]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer = json.loads(result.stdout.splitlines()[-1])
    seconds = answer["seconds"]
    events = answer["events"]
    packed = seconds["trace.json"] + seconds.pop("gzip of it")
    chain = seconds["stop"] + seconds["events()"] + seconds["key_averages()"] + seconds["table()"]
    print(f"\ntorch.profiler, {events} events, one process, once; peak {answer['peak_kib'] / 1024:.0f} MiB\n")
    print("| step | s | million events/s |\n|---|---|---|")
    for name, value in {**seconds, "trace.json.gz": packed, "stop to printed table": chain}.items():
        print(f"| {name} | {value:.3f} | {events / value / 1e6:.4f} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--capture", type=Path, help="a result directory that is there already")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--torch", action="store_true", help="torch.profiler too: minutes, and 8 GB for a million events")
    options = parser.parse_args()
    out = Path(tempfile.mkdtemp(prefix="proftrace-outputs-"))
    try:
        measure_outputs(options, options.capture or record(options, out), out)
        if options.torch:
            measure_torch(options, out)
    finally:
        shutil.rmtree(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""What only a GPU can show: proftrace's device activity against torch.profiler's in a separate, identical run (both need CUPTI).

    python3 tests/gpu/check_gpu.py --proftrace PROFTRACE --out FOLDER [--python PY] [--steps 50] [--job FILE] [KIND...]

For each kind of job: the same kernels, copies and memsets (name, grid, block, bytes, how often); device time within 10 % in all, and of each
operator, its own and with those below it; every kernel linked to its call, and by its arrow; the same loss; the step's time before, while and
after, and with torch.profiler. Then attach cycles, and a torch.profiler that is on already, which must be left alone. FOLDER gets captures and
traces, to become golden data. --job tests/gpu/double_job.py: with the stand-ins for CUDA and CUPTI, without a GPU. Exit code: 0 all right, 1
something differs.
"""

from __future__ import annotations

import argparse
import collections
import csv
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Callable

JOB = Path(__file__).resolve().parent / "gpu_job.py"
KINDS = ["mlp", "transformer", "streams", "graphs", "copies", "oom", "convnet", "threads", "ddp", "loader", "ranges", "compiled", "reduced", "hundred",
         "branches", "llama", "resnet"]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
WORK_ARGUMENTS = ("device", "context", "stream", "registers per thread", "shared memory", "bytes", "blocks per SM", "warps per SM")
CALLS = ("cuda_runtime", "cuda_driver")
MOST_SHOWN = 12
MOST_S = 100
started: list[subprocess.Popen] = []
FORMATS = "table,csv,events-csv,chrome"
# Rows that torch makes where its own profiler runs (inductor's output_code.py, triton_heuristics.py).
MADE_FOR_A_PROFILER = ("## Call CompiledFxGraph", "triton_")
# Calls of threads that poll, or that race with a step; and what torch.profiler has no name for.
POLLED = ("cudaEventQuery", "cudaThreadExchangeStreamCaptureMode", "cudaEventElapsedTime", "INVALID", "cudaPointerGetAttributes")
TIME_TOLERANCE = 0.10
LEAST_US = 5.0  # of an operator's device time: less is noise


class GpuJob:
    """Several can start at once; each one idles after its warm-up."""

    def __init__(self, arguments: argparse.Namespace, kind: str, *more: str, steps: int = 0, command: list[str] | None = None):
        command = [*(command or []), arguments.python, str(arguments.job), kind, str(steps or arguments.steps), *more]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(self.process)
        self.kind = kind

    def wait_until_ready(self) -> "GpuJob":
        words = self.process.stdout.readline().split()
        if words[:1] != ["READY"]:
            raise SystemExit(f"{self.kind}: the job did not start")
        self.pid = int(words[1])
        return self

    def say(self, line: str) -> None:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> tuple[float, float, str]:
        """Seconds a step, of the longest step, and the loss."""
        words = self.process.stdout.readline().split()
        if words[:1] != ["DONE"]:
            raise SystemExit(f"{self.kind}: the job said {words}")
        return float(words[1]), float(words[2]), words[3]

    def train(self, line: str = "go") -> tuple[float, str]:
        """Seconds a step, and the loss."""
        self.say(line)
        seconds, _, loss = self.hear()
        return seconds, loss

    def stop_training(self) -> tuple[float, float, str]:
        """After "until": what it says of the steps so far. It trains once more then."""
        self.say("go")
        heard = self.hear()
        self.hear()
        return heard

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait(60)


class Recording:
    def __init__(self, arguments: argparse.Namespace, pid: int, out: Path, more: tuple[str, ...] = ("--gpu", "agent")):
        command = [str(arguments.proftrace), "-p", str(pid), *more, "--format", FORMATS, "-o", str(out)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        started.append(self.process)
        self.out = out
        self.said = []
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("proftrace: recording"):
                return
        raise SystemExit("proftrace did not record:\n" + "".join(self.said))

    def stop(self) -> dict:
        self.process.send_signal(signal.SIGINT)
        self.said += self.process.stderr.readlines()
        if self.process.wait() != 0:
            raise SystemExit("proftrace failed:\n" + "".join(self.said))
        return json.loads((self.out / "summary.json").read_text())


def events(path: Path) -> list[dict]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as stream:
        return json.load(stream)["traceEvents"]


def of_device(trace: list[dict]) -> list[dict]:
    return [event for event in trace if event.get("cat") in WORK and event.get("ph") == "X"]


def key(event: dict) -> tuple:
    arguments = event["args"]
    return (event["cat"], event["name"], str(arguments.get("grid", "")), str(arguments.get("block", "")), arguments.get("bytes", ""))


class OperatorRow:
    def __init__(self, name: str, own: float, is_noisy: bool) -> None:
        self.name, self.own, self.is_noisy = name, own, is_noisy
        self.end = 0.0
        self.children: list[OperatorRow] = []

    def inside(self) -> float:
        return self.own + sum(child.inside() for child in self.children)

    def below(self) -> list["OperatorRow"]:
        return [row for child in self.children for row in (child, *child.below())]


def operator_tree(trace: list[dict]) -> list[OperatorRow]:
    """torch.profiler's rows as key_averages() has them: without a row whose parent has its name and no other child, and without those that torch
    makes while its own profiler runs only. Rows without a parent."""
    own: collections.Counter = collections.Counter()
    noisy = set()
    for event in of_device(trace):
        number = event["args"].get("External id", 0)  # 0: nobody's
        own[number] += event["dur"]
        noisy |= {number} if "Pageable" in event["name"] else set()
    rows = [event for event in trace if event.get("cat") in ("cpu_op", "user_annotation", *CALLS) and event.get("ph") == "X"]
    top = OperatorRow("", 0, False)
    open_rows: dict[tuple, list[OperatorRow]] = collections.defaultdict(list)
    for event in sorted(rows, key=lambda event: (event["ts"], -event["dur"])):
        around = open_rows[event["pid"], event["tid"]]
        while around and around[-1].end <= event["ts"]:
            around.pop()
        is_call = event["cat"] in CALLS
        number = 0 if is_call else event["args"].get("External id", 0)
        row = OperatorRow(event["name"], own[number] if number else 0.0, number in noisy)
        row.end = event["ts"] + event["dur"]
        (around[-1] if around else top).children.append(row)
        around.append(row)
    lift_rows(top)
    return top.children


def lift_rows(row: OperatorRow) -> None:
    for child in row.children:
        lift_rows(child)
    while True:
        lifted = [child for child in row.children if child.name.startswith(MADE_FOR_A_PROFILER)]
        if len(row.children) == 1 and row.children[0].name == row.name:
            lifted = list(row.children)
        if not lifted:
            return
        for child in lifted:
            row.children.remove(child)
            row.children += child.children
            row.own += child.own
            row.is_noisy |= child.is_noisy


def operator_times(trace: list[dict]) -> dict[str, list[float]]:
    """Device times by name, in us: of what each operator asked for itself, and of all that lies in it. Not from key_averages(), which also
    gives an operator's kernels to the call of CUDA whose correlation id happens to be the operator's number. Without those that copy from or to
    pageable memory: how long that takes is chance."""
    times: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    noisy = set()
    for root in operator_tree(trace):
        for row in (root, *root.below()):
            times[row.name][0] += row.own
            times[row.name][1] += row.inside()
            if any(inner.is_noisy for inner in (row, *row.below())):
                noisy.add(row.name)
    return {name: pair for name, pair in times.items() if name not in noisy}


def check_operators(theirs: dict[str, list[float]], path: Path) -> list[str]:
    with open(path, encoding="utf-8", newline="") as stream:
        ours = {row["name"]: row for row in csv.DictReader(stream) if row["device_type"] == "CPU"}
    faults, compared = [], 0
    for name in sorted(theirs):
        for column, expected in zip(("self_device_time_total_us", "device_time_total_us"), theirs[name]):
            told = float(ours.get(name, {}).get(column) or 0)
            if max(told, expected) < LEAST_US:
                continue
            compared += 1
            if abs(told - expected) > TIME_TOLERANCE * max(told, expected):
                faults.append(f"{column} of {name}: torch.profiler has {expected:.1f}, proftrace {told:.1f}")
    print(f"  {compared} device times of operators compared")
    return faults if compared or not any(own >= LEAST_US for own, _ in theirs.values()) else [*faults, "no device time of an operator was compared"]


def check_links(trace: list[dict]) -> list[str]:
    """Each piece of a GPU's work has a call with its correlation id, and an arrow that begins there and ends here."""
    calls = {event["args"]["correlation"]: event for event in trace if event.get("cat") in CALLS and "correlation" in event.get("args", {})}
    ends = {(event["pid"], event["tid"], event["ts"]): event["id"] for event in trace if event.get("cat") == "ac2g" and event["ph"] == "f"}
    starts = {event["id"]: event for event in trace if event.get("cat") == "ac2g" and event["ph"] == "s"}
    faults = []
    for event in trace:
        if event.get("cat") not in WORK or event.get("ph") != "X":
            continue
        call = calls.get(event["args"].get("correlation"))
        start = starts.get(ends.get((event["pid"], event["tid"], event["ts"])))
        if call is None or start is None or (start["tid"], start["ts"]) != (call["tid"], call["ts"]):
            faults.append(f"no link: {event['name']}")
    return faults[:5]


def call_names(trace: list[dict], is_reference: bool = False) -> collections.Counter:
    """torch.profiler waits for the GPU once more when it ends."""
    calls = sorted((event for event in trace if event.get("cat") in CALLS and event.get("ph") == "X"), key=lambda event: event["ts"])
    if is_reference and calls and "Synchronize" in calls[-1]["name"]:
        del calls[-1]
    return collections.Counter(event["name"] for event in calls if event["name"] not in POLLED)


def check_kind(arguments: argparse.Namespace, kind: str) -> list[str]:
    faults = []
    reference = arguments.out / f"{kind}.torch.json"
    theirs_job, quiet_job, job = GpuJob(arguments, kind, str(reference)), GpuJob(arguments, kind), GpuJob(arguments, kind)
    before, _ = quiet_job.wait_until_ready().train()
    quiet_job.end()
    profiled, loss = theirs_job.wait_until_ready().train("last")
    theirs_job.end()
    recording = Recording(arguments, job.wait_until_ready().pid, arguments.out / kind)
    during, traced_loss = job.train()
    summary = recording.stop()
    after, _ = job.train()
    if job.end() != 0 or traced_loss != loss:
        faults.append(f"loss {traced_loss} is not {loss}, or the job failed")
    if summary["proftrace"]["gpu"] != "agent":
        return [*faults, f"no agent: {summary['unsupported']}"]
    faults += compare(events(reference), arguments.out / kind)
    ledger = summary["gpu"]["ledger"]
    if ledger["unlinked"] or ledger["malformed"] or ledger["unknown"] or ledger["unread"] or ledger["ring_dropped"] or ledger["cupti_dropped"]:
        faults.append(f"ledger: {ledger}")
    print(f"{kind}: step {before * 1e6:.1f} us before, {during * 1e6:.1f} while, {after * 1e6:.1f} after, {profiled * 1e6:.1f} with torch.profiler; CUPTI {summary['gpu']['agents'][0]['cupti_version']}, clock {summary['gpu']['clocks']}")
    return faults


def compare(reference: list[dict], result: Path) -> list[str]:
    """What differs between torch.profiler's trace and a result directory of a run of the same job."""
    trace = events(result / "trace.json.gz")
    theirs, ours = of_device(reference), of_device(trace)
    faults = differing(collections.Counter(map(key, theirs)), collections.Counter(map(key, ours)))
    faults += differing(call_names(reference, is_reference=True), call_names(trace))
    faults += differing(*(collections.Counter(arguments_of_work(event) for event in rows) for rows in (theirs, ours)))
    times = tuple(sum(event["dur"] for event in rows if "Pageable" not in event["name"]) for rows in (theirs, ours))
    if abs(times[1] / max(times[0], 1e-9) - 1) > TIME_TOLERANCE:
        faults.append(f"device time {times[1]:.1f} us, torch.profiler has {times[0]:.1f}")
    print(f"  {len(theirs)} and {len(ours)} device rows, {times[0]:.0f} and {times[1]:.0f} us")
    return faults + check_links(trace) + check_operators(operator_times(reference), result / "key_averages.csv")


def arguments_of_work(event: dict) -> tuple:
    """What Kineto adds to a kernel, a copy or a memset; not the occupancy, which it has as 0 for kernels with much shared memory."""
    texts = []
    for name in WORK_ARGUMENTS:
        value = event["args"].get(name)
        texts.append(f"{value:.3g}" if isinstance(value, float) else str(value))
    return (event["name"], *texts)


def differing(expected: collections.Counter, found: collections.Counter) -> list[str]:
    return [f"{count} of {name}: torch.profiler has {expected[name]}, proftrace {found[name]}"
            for name, count in ((expected - found) | (found - expected)).items()]


class Reference:
    """torch.profiler's rows, of a run of its own that is made once."""

    def __init__(self, arguments: argparse.Namespace, kind: str) -> None:
        path = arguments.out / f"{kind}.torch.json"
        if not path.exists():
            GpuJob(arguments, kind, str(path)).wait_until_ready().train("last")
        trace = events(path)
        self.work = collections.Counter(map(key, of_device(trace)))
        self.calls = call_names(trace, is_reference=True)

    def differences(self, trace: list[dict]) -> list[str]:
        return [*differing(self.work, collections.Counter(map(key, of_device(trace)))), *differing(self.calls, call_names(trace)),
                *check_links(trace)]


def check_cycles(arguments: argparse.Namespace) -> list[str]:
    """In the middle of the training."""
    faults, threads = [], set()
    job = GpuJob(arguments, "mlp").wait_until_ready()
    quiet, _ = job.train()
    job.say("until")
    for cycle in range(arguments.cycles):
        recording = Recording(arguments, job.pid, arguments.out / f"cycle{cycle}")
        time.sleep(0.3)
        summary = recording.stop()
        threads.add(len(os.listdir(f"/proc/{job.pid}/task")))
        if summary["proftrace"]["gpu"] != "agent" or not summary["events"].get("kernels"):
            faults.append(f"cycle {cycle}: no kernels: {summary['unsupported']}")
        shutil.rmtree(arguments.out / f"cycle{cycle}")
    seconds, longest, _ = job.stop_training()
    if job.end() != 0:
        faults.append("the job failed")
    print(f"cycles: {arguments.cycles}, threads of the job {sorted(threads)}; step {quiet * 1e6:.1f} us before, {seconds * 1e6:.1f} in the mean, "
          f"{longest * 1e3:.2f} ms the longest")
    return faults


def check_profiler_is_on(arguments: argparse.Namespace) -> list[str]:
    trace = arguments.out / "profiled.torch.json"
    job = GpuJob(arguments, "mlp", str(trace)).wait_until_ready()
    recording = Recording(arguments, job.pid, arguments.out / "profiled")
    job.train("last")
    summary = recording.stop()
    job.end()
    faults = []
    if summary["proftrace"]["gpu"] == "agent":
        faults.append("an agent recorded beside torch.profiler")
    if not of_device(events(trace)):
        faults.append("torch.profiler lost its kernels")
    print(f"torch.profiler on: {[gap['reason'] for gap in summary['unsupported'] if 'CUPTI' in gap['feature']]}")
    return faults


def run_checks(checks: dict[str, Callable[[], list[str]]]) -> int:
    """Each within its time, and what it started ended: the other checks are worth their time on a lent machine. Exit code."""
    def give_up(*_: object) -> None:
        raise TimeoutError(f"not over after {MOST_S} s")

    signal.signal(signal.SIGALRM, give_up)
    status = 0
    for name, check in checks.items():
        signal.alarm(MOST_S)
        try:
            faults = check()
        except (Exception, SystemExit) as error:
            faults = [f"{error!r} at line {traceback.extract_tb(error.__traceback__)[-1].lineno}"]
        signal.alarm(0)
        for process in started:
            process.kill()
            process.wait()
        started.clear()
        for fault in faults[:MOST_SHOWN]:
            status = 1
            print(f"  WRONG {name}: {fault}", flush=True)
        sys.stdout.flush()
    return status


def arguments_of(description: str, **defaults: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proftrace", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--job", type=Path, default=JOB)
    for name, number in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    return parser


def main() -> int:
    parser = arguments_of(__doc__, steps=50, cycles=20)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    arguments = parser.parse_args()
    checks = {kind: lambda kind=kind: check_kind(arguments, kind) for kind in arguments.kinds or KINDS}
    return run_checks({**checks, "cycles": lambda: check_cycles(arguments), "profiler": lambda: check_profiler_is_on(arguments)})


if __name__ == "__main__":
    sys.exit(main())

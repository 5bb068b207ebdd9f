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
import signal
import subprocess
import sys
from pathlib import Path

JOB = Path(__file__).resolve().parent / "gpu_job.py"
KINDS = ["mlp", "transformer", "streams", "graphs", "copies", "oom"]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
TIME_TOLERANCE = 0.10
LEAST_US = 5.0  # of an operator's device time: less is noise


class GpuJob:
    def __init__(self, arguments: argparse.Namespace, kind: str, *more: str):
        command = [arguments.python, str(arguments.job), kind, str(arguments.steps), *more]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if words[:1] != ["READY"]:
            raise SystemExit(f"{kind}: the job did not start")
        self.pid = int(words[1])

    def train(self, line: str = "go") -> tuple[float, str]:
        """Seconds a step, and the loss."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        done, seconds, loss = self.process.stdout.readline().split()
        assert done == "DONE"
        return float(seconds), loss

    def end(self) -> int:
        self.process.stdin.close()
        return self.process.wait(60)


class Recording:
    def __init__(self, arguments: argparse.Namespace, pid: int, out: Path):
        command = [str(arguments.proftrace), "-p", str(pid), "--gpu", "agent", "--format", "table,csv,events-csv,chrome", "-o", str(out)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
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


def device_rows(path: Path) -> list[dict]:
    return [event for event in events(path) if event.get("cat") in WORK and event.get("ph") == "X"]


def key(event: dict) -> tuple:
    arguments = event["args"]
    return (event["cat"], event["name"], str(arguments.get("grid", "")), str(arguments.get("block", "")), arguments.get("bytes", ""))


def operator_times(trace: list[dict]) -> dict[str, list[float]]:
    """Device times by name, in us: of what each operator asked for itself, and of all that lies in it. Not from key_averages(), which also
    gives an operator's kernels to the call of CUDA whose correlation id happens to be the operator's number."""
    rows = [event for event in trace if event.get("cat") in ("cpu_op", "user_annotation") and event.get("ph") == "X"]
    own: collections.Counter = collections.Counter()
    for event in trace:
        if event.get("cat") in WORK and event.get("ph") == "X" and "External id" in event["args"]:
            own[event["args"]["External id"]] += event["dur"]
    times: dict[str, list[float]] = collections.defaultdict(lambda: [0.0, 0.0])
    open_rows: dict[tuple, list[dict]] = collections.defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["ts"], -row["dur"])):
        around = open_rows[row["pid"], row["tid"]]
        while around and around[-1]["ts"] + around[-1]["dur"] <= row["ts"]:
            around.pop()
        mine = own[row["args"].get("External id")]
        times[row["name"]][0] += mine
        for outer in (*around, row):
            times[outer["name"]][1] += mine
        around.append(row)
    return times


def check_operators(theirs: dict[str, list[float]], path: Path) -> list[str]:
    with open(path, encoding="utf-8", newline="") as stream:
        ours = {row["name"]: row for row in csv.DictReader(stream) if row["device_type"] == "CPU"}
    faults, compared = [], 0
    for name in sorted(set(theirs) | set(ours)):
        for column, expected in zip(("self_device_time_total_us", "device_time_total_us"), theirs.get(name, (0.0, 0.0))):
            told = float(ours.get(name, {}).get(column) or 0)
            if max(told, expected) < LEAST_US:
                continue
            compared += 1
            if abs(told - expected) > TIME_TOLERANCE * max(told, expected):
                faults.append(f"{column} of {name}: torch.profiler has {expected:.1f}, proftrace {told:.1f}")
    print(f"  {compared} device times of operators compared")
    return faults if compared or not any(own for own, _ in theirs.values()) else [*faults, "no device time of an operator was compared"]


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


def check_kind(arguments: argparse.Namespace, kind: str) -> list[str]:
    faults = []
    reference = arguments.out / f"{kind}.torch.json"
    theirs_job = GpuJob(arguments, kind, str(reference))
    profiled, loss = theirs_job.train("last")
    theirs_job.end()
    job = GpuJob(arguments, kind)
    before, _ = job.train()
    job.end()
    job = GpuJob(arguments, kind)
    recording = Recording(arguments, job.pid, arguments.out / kind)
    during, traced_loss = job.train()
    summary = recording.stop()
    after, _ = job.train()
    if job.end() != 0 or traced_loss != loss:
        faults.append(f"loss {traced_loss} is not {loss}, or the job failed")
    if summary["proftrace"]["gpu"] != "agent":
        return [*faults, f"no agent: {summary['unsupported']}"]
    theirs, ours = device_rows(reference), device_rows(arguments.out / kind / "trace.json.gz")
    expected, found = collections.Counter(map(key, theirs)), collections.Counter(map(key, ours))
    for name, count in ((expected - found) | (found - expected)).items():
        faults.append(f"{count} of {name}: torch.profiler has {expected[name]}, proftrace {found[name]}")
    times = sum(event["dur"] for event in theirs), sum(event["dur"] for event in ours)
    if abs(times[1] / max(times[0], 1e-9) - 1) > TIME_TOLERANCE:
        faults.append(f"device time {times[1]:.1f} us, torch.profiler has {times[0]:.1f}")
    faults += check_links(events(arguments.out / kind / "trace.json.gz"))
    faults += check_operators(operator_times(events(reference)), arguments.out / kind / "key_averages.csv")
    ledger = summary["gpu"]["ledger"]
    if ledger["unlinked"] or ledger["malformed"] or ledger["unknown"] or ledger["unread"] or ledger["ring_dropped"] or ledger["cupti_dropped"]:
        faults.append(f"ledger: {ledger}")
    print(f"{kind}: {len(theirs)} and {len(ours)} device rows, {times[0]:.0f} and {times[1]:.0f} us; step {before * 1e6:.1f} us before, "
          f"{during * 1e6:.1f} while, {after * 1e6:.1f} after, {profiled * 1e6:.1f} with torch.profiler; CUPTI {summary['gpu']['agents'][0]['cupti_version']}, clock {summary['gpu']['clocks']}")
    return faults


def check_cycles(arguments: argparse.Namespace) -> list[str]:
    faults, threads = [], set()
    job = GpuJob(arguments, "mlp")
    job.train()
    for cycle in range(arguments.cycles):
        recording = Recording(arguments, job.pid, arguments.out / f"cycle{cycle}")
        job.train()
        summary = recording.stop()
        threads.add(len(os.listdir(f"/proc/{job.pid}/task")))
        if summary["proftrace"]["gpu"] != "agent" or not summary["events"].get("kernels"):
            faults.append(f"cycle {cycle}: no kernels: {summary['unsupported']}")
    if job.end() != 0:
        faults.append("the job failed")
    print(f"cycles: {arguments.cycles}, threads of the job {sorted(threads)}")
    return faults


def check_profiler_is_on(arguments: argparse.Namespace) -> list[str]:
    trace = arguments.out / "profiled.torch.json"
    job = GpuJob(arguments, "mlp", str(trace))
    recording = Recording(arguments, job.pid, arguments.out / "profiled")
    job.train("last")
    summary = recording.stop()
    job.end()
    faults = []
    if summary["proftrace"]["gpu"] == "agent":
        faults.append("an agent recorded beside torch.profiler")
    if not device_rows(trace):
        faults.append("torch.profiler lost its kernels")
    print(f"torch.profiler on: {[gap['reason'] for gap in summary['unsupported'] if 'CUPTI' in gap['feature']]}")
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--proftrace", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--job", type=Path, default=JOB)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("kinds", nargs="*", metavar="KIND")
    arguments = parser.parse_args()
    checks = [(kind, lambda kind=kind: check_kind(arguments, kind)) for kind in arguments.kinds or KINDS]
    checks += [("cycles", lambda: check_cycles(arguments)), ("profiler", lambda: check_profiler_is_on(arguments))]
    status = 0
    for name, check in checks:
        try:
            faults = check()
        except (Exception, SystemExit) as error:  # the other checks are worth their time on a lent machine
            faults = [repr(error)]
        for fault in faults:
            print(f"  WRONG {name}: {fault}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

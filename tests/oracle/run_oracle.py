#!/usr/bin/env python3
"""Records real jobs with proftrace and with torch.profiler at once, and compares the two answers.

    sudo run_oracle.py --python /usr/bin/python3 mlp transformer ...      (no names: all workloads)
    run_oracle.py --tier patch ...                                        (without root: by jumps alone)

For each workload: the job starts and becomes idle, proftrace attaches by PID, the job runs its steps under
torch.profiler, proftrace is stopped by SIGINT, events.csv is laid beside the answer (compare.py), and the ledger's
identities are checked; then the job runs once more untraced, and its checksum must be the same. Exit code: 0 all the
same, 1 something differs, 77 it cannot run here (the reason is printed).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import compare
import compare_autograd
import compare_call_stacks
import compare_inputs
import compare_memory
import compare_stacks
import model
import tier
from process import ENDS_BY_STACKS, LineReader, Stopped, ends_by_stacks

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
JOB = HERE / "jobs" / "job.py"
SKIP = 77
# Importing it takes seconds; the job does that, and fails where it cannot.
HAS_TORCH = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
FORMATS = "table,csv,events-csv,chrome,perfetto,folded,flamegraph"
OUTPUTS = ["capture.ptrec", "key_averages.txt", "key_averages.csv", "events.csv", "trace.json.gz", "trace.pftrace.gz",
           "stacks_self_cpu.folded", "flamegraph.html", "summary.json"]
# Recorded by torch.profiler and by no probe: rows that a RecordFunction of their own makes, outside the dispatcher, the
# autograd engine and annotations. Each is printed with its count where it is missing.
NOT_COVERED: dict[str, list[str]] = {}
SHOWN_SEEDS = 10
DEFAULT_STEPS = {"transformer": 4, "lstm": 4, "exceptions": 3, "random": 24}
LIBRARY_STEPS = 2
START_S, READY_S, WORK_S, STOP_S = 900.0, 60.0, 400.0, 120.0  # a compiler may run before READY


@dataclasses.dataclass
class Verdict:
    workload: str
    problems: list[str]
    detail: str
    is_applicable: bool = True

    def is_lossy(self) -> bool:
        return any(problem.startswith("ledger: ring_lost") for problem in self.problems)

    def line(self) -> str:
        first = self.detail.splitlines()[0] if self.detail else ""
        state = "FAIL" if self.problems else "ok  " if self.is_applicable else "n/a "
        return f"{state} {self.workload:12} {first}"


class NotApplicable(Exception):
    """This PyTorch cannot run the workload, or cannot judge it."""


class Job:
    """A job.py process. Leaving the context ends it, and what is left of its children, which have its pipes too."""

    def __init__(self, python: str, workload: str, mode: str, out: Path, steps: int, seed: int,
                 memory: bool = False, shapes: bool = False, stacks: bool = False, device: str = "") -> None:
        command = [python, str(JOB), workload, "--mode", mode, "--out", str(out), "--steps", str(steps), "--seed", str(seed)]
        command += ["--device", device] * bool(device)
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        if memory:
            environment["PROFTRACE_ORACLE_MEMORY"] = "1"
        if shapes:
            environment["PROFTRACE_ORACLE_SHAPES"] = "1"
        if stacks:
            environment["PROFTRACE_ORACLE_STACKS"] = "1"
        self.errors = (out / f"job-{mode}.stderr").open("w")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env=environment, cwd=out, start_new_session=True)
        assert self.process.stdout is not None
        self.lines = LineReader(self.process.stdout)

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.lines.close()
        self.errors.close()

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()


class Tracer:
    """A `proftrace record` process. Leaving the context kills it if it still runs."""

    def __init__(self, binary: Path, pid: int, out: Path, more: list[str]) -> None:
        command = [str(binary), "record", "-v", "-p", str(pid), "-o", str(out), "--format", FORMATS]
        command += more
        self.has_jumps = "bpf" not in more
        self.stdout = (out.parent / "proftrace.stdout").open("w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.stdout, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        self.lines = LineReader(self.process.stderr)

    def __enter__(self) -> "Tracer":
        return self

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.lines.close()
        self.stdout.close()

    def wait_until_recording(self, pid: int) -> None:
        self.lines.wait(rf"proftrace: recording PID {pid}\b", READY_S)
        self.links = self.links_of_all()
        self.pid = pid

    def wait_until_following(self, child: int) -> None:
        """Until proftrace says so, or the child has as many links as its parent by what the kernel says of our links
        (from 6.17 on). Jumps come later than the links of what has none: there only links from before the recording tell."""
        if child in self.links:
            return  # it was there already, and recorded from the begin on
        end = time.monotonic() + READY_S
        while not self.lines.has(rf"proftrace: (following|recording) PID {child}\b"):
            found = self.links_of_all()[child]
            if found and found >= self.links[self.pid] and not self.has_jumps:
                return
            if time.monotonic() > end:
                raise Stopped(f"PID {child} has {found} of {self.links[self.pid]} links after {READY_S:.0f} s")
            time.sleep(0.01)

    def links_of_all(self) -> Counter[int]:
        """By PID: our links, where the kernel tells of which process they are."""
        count: Counter[int] = Counter()
        for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                text = path.read_text()
                found = re.search(r"^pid:\s+(\d+)$", text, re.MULTILINE)
                if "link_type" in text and found:
                    count[int(found[1])] += 1
        return count

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_S)


def record(options: argparse.Namespace, workload: str, out: Path) -> tuple[list[str], str]:
    """Runs one workload under both profilers. Returns what went wrong, and the job's checksum."""
    problems: list[str] = []
    result = out / "result"
    with Job(options.python, workload, "profile", out, steps_of(options, workload), options.seed,
             options.memory, options.shapes, options.stacks, options.device) as job:
        more = tier.flags(options)
        more += ["--profile-memory"] * options.memory + ["--record-shapes"] * options.shapes + ["--with-stack"] * options.stacks
        said = job.lines.wait(r"READY (?P<pid>\d+)|NOT APPLICABLE (?P<reason>.*)", START_S)
        if said["reason"]:
            raise NotApplicable(said["reason"])
        pid = int(said["pid"])
        with Tracer(options.proftrace, pid, result, more) as tracer:
            tracer.wait_until_recording(pid)
            job.go()
            line = job.lines.wait(r"FORKED .*|CHECKSUM .*", WORK_S).group(0)
            if line.startswith("FORKED"):
                for child in line.split()[1:]:
                    tracer.wait_until_following(int(child))
                job.go()
                line = job.lines.wait(r"CHECKSUM .*", WORK_S).group(0)
            job.lines.wait(r"DONE", WORK_S)
            code = tracer.stop()
            if code != 0:
                problems.append(f"proftrace ended with {code}: {tracer.lines.tail()}")
        code = job.process.wait(STOP_S)
        if code != 0:
            problems.append(f"the traced job ended with {code}")
    return problems, line


def untraced_checksum(options: argparse.Namespace, workload: str, out: Path) -> str:
    """What the same job says that nobody looks at. Many tests record one job in different ways: PROFTRACE_UNTRACED is a folder in
    which its answers are kept."""
    steps = steps_of(options, workload)
    folder = os.environ.get("PROFTRACE_UNTRACED")
    if not folder:
        return run_untraced(options, workload, steps, out)
    sources = [path.read_bytes() for path in sorted((HERE / "jobs").glob("*.py"))]
    job = hashlib.sha256(repr([options.python, workload, steps, options.seed, options.device, sources]).encode()).hexdigest()
    kept = Path(folder) / f"{workload}-{job[:16]}"
    if not kept.exists():
        Path(folder).mkdir(parents=True, exist_ok=True)
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_text(run_untraced(options, workload, steps, out))
        new.rename(kept)
    return kept.read_text()


def run_untraced(options: argparse.Namespace, workload: str, steps: int, out: Path) -> str:
    with Job(options.python, workload, "plain", out, steps, options.seed, device=options.device) as job:
        job.lines.wait(r"READY \d+", START_S)
        job.go()
        line = job.lines.wait(r"FORKED .*|CHECKSUM .*", WORK_S).group(0)
        if line.startswith("FORKED"):
            job.go()
            line = job.lines.wait(r"CHECKSUM .*", WORK_S).group(0)
        job.lines.wait(r"DONE", WORK_S)
        job.process.wait(STOP_S)
    return line


def steps_of(options: argparse.Namespace, workload: str) -> int:
    if workload == "random" and options.seeds:
        return options.seeds
    return options.steps or DEFAULT_STEPS.get(workload, LIBRARY_STEPS if workload in names_in("libraries.py", "LIBRARIES") else 8)


def check_python_rows(result: Path) -> list[str]:
    """summary.json counts the trace's rows of Python."""
    with gzip.open(result / "trace.json.gz", "rt", encoding="utf-8") as file:
        rows = sum(row.get("cat") == "python_function" for row in json.load(file)["traceEvents"])
    counted = json.loads((result / "summary.json").read_text(encoding="utf-8"))["events"]["python"]
    return [] if rows == counted > 0 else [f"{rows} rows of Python in the trace, {counted} in summary.json"]


def check_summary(path: Path) -> list[str]:
    """The identities that always hold, and that nothing was lost."""
    ledger = json.loads(path.read_text(encoding="utf-8"))["ledger"]
    problems = []
    for whole, parts in (("records", ("decoded", "unknown", "malformed")),
                         ("begins", ("closed", "end_by_exception", "end_lost", "truncated"))):
        total = sum(ledger[part] for part in parts)
        if ledger[whole] != total:
            problems.append(f"ledger: {whole} {ledger[whole]} != {' + '.join(parts)} {total}")
    for name in ("ring_lost", "malformed", "end_lost", "late", "unnamed", "read_failed", "inputs_unread"):
        if ledger[name]:
            problems.append(f"ledger: {name} is {ledger[name]}")
    if not ledger["begins"]:
        problems.append("ledger: nothing was recorded")
    return problems


def judge(options: argparse.Namespace, workload: str, out: Path) -> Verdict:
    try:
        problems, traced = record(options, workload, out)
        missing = [name for name in OUTPUTS if not (out / "result" / name).is_file()]
        if missing:
            return Verdict(workload, problems + [f"no {', '.join(missing)} in the result directory"], "")
        problems += check_summary(out / "result" / "summary.json")
        allowed = frozenset(NOT_COVERED.get(workload, []) + options.allow_missing)
        absent = tier.absent_scopes(options, out / "result" / "summary.json")
        result = compare.compare(model.read_oracles(out, absent), model.read_events(out / "result" / "events.csv"), allowed)
        if options.stacks:
            # With frames in it, torch's tree ends an annotation with the frame of its __enter__: places are compared without.
            result.differences = [text for text in result.differences if re.search(r": (missing|extra) ", text)]
            result.right = result.oracle_rows - len(result.differences)
        if not result.same:
            problems.append(f"{len(result.differences)} differences")
        failing = sorted({int(seed) for text in result.differences for seed in re.findall(r"in 'program (-?\d+)'", text)})
        problems += [f"a difference in the program of seed {seed}: repeat with --seed {seed} --seeds 1" for seed in failing[:SHOWN_SEEDS]]
        if workload == "exceptions" and not result.ends["exception"]:
            problems.append("no span ended by an exception")
        autograd = compare_autograd.compare_autograd(out, out / "result", absent)
        problems += autograd.problems
        detail = compare.report(result) + "\n" + autograd.line()
        if options.memory:
            memory = compare_memory.compare_memory(out, out / "result", allowed)
            problems += memory.problems
            detail += "\n" + memory.line()
        if options.shapes:
            unread = compare_inputs.names_unread(out / "result" / "summary.json") | allowed
            inputs = compare_inputs.compare_inputs(
                model.read_oracles(out, absent), model.read_events(out / "result" / "events.csv"), unread)
            problems += inputs.problems()
            detail = "\n".join([detail, *inputs.lines()])
        if options.stacks:
            stacks = compare_stacks.compare_stacks(model.read_oracles(out), model.read_events(out / "result" / "events.csv"))
            problems += stacks.problems()
            problems += check_python_rows(out / "result")
            calls = compare_call_stacks.compare_call_stacks(out, out / "result")
            problems += calls.problems()
            detail = "\n".join([detail, *stacks.lines(), calls.line()])
        if options.consumers:
            problems += consumer_problems(options.consumers, out / "result")
        plain = untraced_checksum(options, workload, out)
        if plain != traced:
            problems.append(f"untraced the job says {plain}, traced {traced}")
        return Verdict(workload, problems, detail)
    except NotApplicable as reason:
        return Verdict(workload, [], str(reason), is_applicable=False)
    except (Stopped, ValueError, KeyError, subprocess.TimeoutExpired) as error:
        return Verdict(workload, [f"{type(error).__name__}: {error}"], "")


def consumer_problems(python: str, result: Path) -> list[str]:
    """What pandas, HTA and Perfetto say of the files."""
    check = subprocess.run([python, str(HERE / "consumers/check_consumers.py"), str(result)], capture_output=True, text=True)
    return [] if check.returncode == 0 else (check.stdout + check.stderr).splitlines()


def reason_not_to_run(options: argparse.Namespace) -> str | None:
    if tier.is_refused(options):
        return "needs root: uprobes and BPF"
    if not options.proftrace.is_file():
        return f"no proftrace at {options.proftrace}"
    try:
        probe = subprocess.run([options.python, "-c", HAS_TORCH], capture_output=True, text=True, timeout=START_S)
    except OSError as error:
        return f"{options.python}: {error.strerror}"
    if probe.returncode:
        return f"{options.python} has no torch"
    return None


def names_in(module: str, table_name: str) -> list[str]:
    """A table's names, without an import of torch."""
    sources = (HERE / "jobs" / module).read_text(encoding="utf-8")
    table = sources.split(f"{table_name} = {{", 1)[1].split("}", 1)[0]
    return [line.split('"')[1] for line in table.splitlines() if '"' in line]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", default=[])
    parser.add_argument("--python", default="/usr/bin/python3", help="an interpreter that imports torch")
    parser.add_argument("--proftrace", type=Path, default=ROOT / "build/release/bin/proftrace")
    parser.add_argument("--steps", type=int, default=0, help="default: 8, fewer for the large models")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=0, help="of `random`: so many programs, from --seed on")
    parser.add_argument("--allow-missing", metavar="NAME", action="append", default=[])
    parser.add_argument("--memory", action="store_true", help="profile memory on both sides, and compare it")
    parser.add_argument("--shapes", action="store_true", help="record shapes on both sides, and compare the inputs")
    parser.add_argument("--stacks", action="store_true", help="record Python stacks on both sides, and compare them")
    parser.add_argument("--device", default="", help="where the job's tensors are, cuda say (jobs that know of no device)")
    parser.add_argument("--libraries", action="store_true", help="without names: all jobs of libraries (jobs/libraries.py)")
    tier.add_options(parser)
    parser.add_argument("--consumers", metavar="PYTHON", help="also load the files (consumers/install.sh made PYTHON)")
    parser.add_argument("--keep", type=Path, help="keep everything in this directory")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    reason = reason_not_to_run(options)
    if reason:
        print(f"SKIPPED: {reason}")
        return SKIP
    gc.disable()  # hundreds of thousands of rows without cycles
    names = options.workload or (names_in("libraries.py", "LIBRARIES") if options.libraries else names_in("job.py", "WORKLOADS"))
    failed, judged = [], 0
    for name in names:
        out = Path(tempfile.mkdtemp(prefix=f"proftrace-oracle-{name}-", dir=options.keep))
        verdict = judge(options, name, out)
        if verdict.is_lossy():
            # A machine with other work kept the tracer waiting: what is there cannot be compared.
            print(f"{name}: records were lost; once more")
            out = Path(tempfile.mkdtemp(prefix=f"proftrace-oracle-{name}-", dir=options.keep))
            verdict = judge(options, name, out)
        print(verdict.line())
        for line in verdict.detail.splitlines()[1:]:
            print(f"     {line}")
        for problem in verdict.problems[:20]:
            print(f"     PROBLEM {problem}")
        if verdict.problems and options.stacks and ends_by_stacks(options.python):
            print(ENDS_BY_STACKS)
            return SKIP
        judged += verdict.is_applicable
        if verdict.problems:
            failed.append(name)
            print(f"     kept in {out}")
        elif not options.keep:
            shutil.rmtree(out)
        sys.stdout.flush()
    print(f"{judged - len(failed)} of {judged} workloads give torch.profiler's answer"
          + (f"; not: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

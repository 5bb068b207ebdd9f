#!/usr/bin/env python3
"""Traces of a real gloo job under torchrun, of torch.profiler and of proftrace, put on one timeline by `proftrace merge`."""

from __future__ import annotations

import collections
import gzip
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from decimal import Decimal
from pathlib import Path

import live
from live import HERE, LiveTest

SCRIPT = HERE / "merge_job.py"
STEPS = 30
LATE_RANK = 1  # of merge_job.py
HOUR_US = Decimal(3_600_000_000)
# How far each rank's clock is off, and by how much it is too fast.
SHIFTS = ((Decimal(0), Decimal(0)), (3 * HOUR_US + Decimal("7.125"), Decimal("0.00004")),
          (-5 * HOUR_US, Decimal("-0.00009")), (Decimal("-250000"), Decimal("0.000013")))


def job_command(directory: Path, ranks: int) -> list[str]:
    return [LiveTest.python, "-m", "torch.distributed.run", "--nproc_per_node", str(ranks), "--standalone", "--local_addr", "127.0.0.1",
            str(SCRIPT), str(directory), str(STEPS)]


def job_environment() -> dict[str, str]:
    return dict(os.environ, USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo")


def run_job(directory: Path, ranks: int) -> None:
    subprocess.run(job_command(directory, ranks), check=True, capture_output=True, timeout=200, env=job_environment())


def read(path: Path) -> dict:
    """A trace with its times as exact decimals."""
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as stream:
        return json.load(stream, parse_float=Decimal)


def shift(path: Path, target: Path, offset_us: Decimal, rate: Decimal) -> None:
    """Rewrites a trace as if the host's clock had shown t + t * rate + offset, from the trace's beginning on."""
    trace = read(path)
    first = min(Decimal(event["ts"]) for event in trace["traceEvents"] if "dur" in event)
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["ts"] = float(Decimal(event["ts"]) + (Decimal(event["ts"]) - first) * rate)
        if "dur" in event:
            event["dur"] = float(Decimal(event["dur"]) * (1 + rate))
    trace["baseTimeNanoseconds"] += int(offset_us * 1000)
    target.write_text(json.dumps(trace, default=float))


def absolute_ns(trace: dict, event: dict) -> int:
    return trace["baseTimeNanoseconds"] + int(Decimal(event["ts"]) * 1000)


class MergeTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        if subprocess.run([self.python, "-c", "import sys, torch; sys.exit(torch.__version__.startswith('1.'))"]).returncode != 0:
            self.skipTest("the torchrun of torch 1.13 does not run here")

    def merge(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run([live.BINARY, "merge", *map(str, arguments)], capture_output=True, text=True, timeout=120)

    def merged(self, *arguments: object) -> dict:
        made = self.merge(*arguments, "--json")
        self.assertEqual(made.returncode, 0, made.stderr + made.stdout)
        return json.loads(made.stdout)

    def check_shifted(self, ranks: int) -> None:
        made, shifted = self.directory / "made", self.directory / "shifted"
        made.mkdir()
        shifted.mkdir()
        run_job(made, ranks)
        files = []
        for rank in range(ranks):
            files.append(shifted / f"rank{rank}.json")
            shift(made / f"rank{rank}.json", files[-1], *SHIFTS[rank])
        output = self.directory / "job.json"
        summary = self.merged(*files, "-o", output, "--reference", files[0])
        bound_ns = summary["clock"]["worst_bound_ns"]
        self.assertEqual(summary["clock"]["not_aligned"], [])
        self.assertLess(bound_ns, 100_000_000)
        self.check_truth(read(output), made, ranks, bound_ns)
        self.check_nothing_collides(read(output))
        self.check_culprit(read(output), summary)
        events = summary["events"]
        self.assertEqual(events["in"], events["out"] + events["filtered"] + events["refused"])
        self.assertEqual(events["in"], sum(len(read(file)["traceEvents"]) for file in files))
        again = self.directory / "again.json"
        self.merged(*reversed(files), "-o", again, "--reference", files[0])
        self.assertEqual(output.read_bytes(), again.read_bytes())
        self.check_directory(files, made, bound_ns)
        wall = self.merged(*files, "-o", self.directory / "wall.json", "--clock", "realtime")
        self.assertGreater(wall["clock"]["contradicted"], 0)

    def check_truth(self, merged: dict, made: Path, ranks: int, bound_ns: int) -> None:
        """Each rank's operators lie where they lay before the clocks were shifted."""
        names = {event["pid"]: event["args"]["name"] for event in merged["traceEvents"] if event["name"] == "process_name"}
        for rank in range(ranks):
            original = read(made / f"rank{rank}.json")
            right = [absolute_ns(original, event) for event in original["traceEvents"] if event["name"] == "aten::mm"]
            got = [absolute_ns(merged, event) for event in merged["traceEvents"]
                   if event["name"] == "aten::mm" and names[event["pid"]].startswith(f"rank {rank} ")]
            self.assertEqual(len(got), STEPS)
            off = max(abs(a - b) for a, b in zip(sorted(right), sorted(got), strict=True))
            self.assertLessEqual(off, bound_ns + 2000, rank)

    def check_nothing_collides(self, merged: dict) -> None:
        names: dict[int, str] = {}
        lanes = collections.defaultdict(list)
        for event in merged["traceEvents"]:
            if event["name"] == "process_name":
                self.assertNotIn(event["pid"], names)
                names[event["pid"]] = event["args"]["name"]
            if event["ph"] == "X":
                begin = absolute_ns(merged, event)
                lanes[event["pid"], event["tid"]].append((begin, -(begin + int(Decimal(event["dur"]) * 1000))))
            if event["ph"] in "stf":
                self.assertLess(event["id"], 2**53)
        for rows in lanes.values():
            open_ends: list[int] = []
            for begin, end in sorted(rows):
                while open_ends and open_ends[-1] <= begin:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(-end, open_ends[-1])
                open_ends.append(-end)

    def check_culprit(self, merged: dict, summary: dict) -> None:
        last = max(summary["collectives"], key=lambda of: of["entered_last"])
        self.assertEqual(last["rank"], LATE_RANK)
        rows = [event["args"] for event in merged["traceEvents"] if event.get("cat") == "collective" and "late rank was in" in event["args"]]
        blamed = collections.Counter(row["late rank was in"] for row in rows if Decimal(row["skew (us)"]) > 8000)
        self.assertEqual(blamed.most_common(1)[0][0], "be_late", blamed)
        starts = {event["id"]: event["ts"] for event in merged["traceEvents"] if event["ph"] == "s" and event["cat"] == "collective_wait"}
        ends = {event["id"]: event["ts"] for event in merged["traceEvents"] if event["ph"] == "f" and event["cat"] == "collective_wait"}
        self.assertGreater(len(ends), STEPS)
        self.assertEqual(starts.keys(), ends.keys())
        self.assertTrue(all(starts[arrow] <= ends[arrow] for arrow in starts))

    def check_directory(self, files: list[Path], made: Path, bound_ns: int) -> None:
        directory = self.directory / "corrected"
        self.merged(*files, "-o", directory, "--reference", files[0])
        self.assertEqual({path.name for path in directory.iterdir()}, {f"rank{rank}.json.gz" for rank in range(len(files))})
        for rank in range(len(files)):
            original, corrected = read(made / f"rank{rank}.json"), read(directory / f"rank{rank}.json.gz")
            self.assertEqual(corrected["distributedInfo"], original["distributedInfo"])
            self.assertIn("likely", corrected["proftrace_clock"]["statement"])
            self.assertEqual(len(corrected["traceEvents"]), len(original["traceEvents"]))
            for before, after in zip(original["traceEvents"], corrected["traceEvents"], strict=True):
                self.assertEqual((before["name"], before.get("args"), before["pid"], before["tid"]),
                                 (after["name"], after.get("args"), after["pid"], after["tid"]))
                if "dur" in before:
                    self.assertLessEqual(abs(absolute_ns(original, before) - absolute_ns(corrected, after)), bound_ns + 2000)
            text = gzip.open(directory / f"rank{rank}.json.gz", "rt").read()
            self.assertIn(f'"rank": {rank}', text[:text.index('"traceEvents"')])
        again = self.merge(*files, "-o", directory)
        self.assertEqual(again.returncode, 7)
        self.assertIn("not empty", again.stderr)

    def record_job(self, made: Path) -> Path:
        """A capture of a job of two ranks that torch.profiler looks at as well."""
        (made / "wait").touch()
        job = subprocess.Popen(job_command(made, 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=job_environment())
        try:
            live.wait_until(lambda: len(list(made.glob("ready?.*"))) == 2, 60, "two ranks")
            pids = [path.suffix[1:] for path in made.glob("ready?.*")]
            with live.Tracer("-p", pids[0], "-p", pids[1], "--format", "none", "-o", self.directory / "capture") as tracer:
                tracer.wait_until_recording()
                (made / "go").touch()
                self.assertEqual(tracer.wait(), 0)  # with the job
            self.assertEqual(job.wait(60), 0)
        finally:
            job.kill()
            job.wait()
        return self.directory / "capture"

    def test_a_capture_and_files_of_its_ranks_are_on_one_clock(self) -> None:
        made = self.directory / "made"
        made.mkdir()
        capture = self.record_job(made)
        output = self.directory / "job.json"
        summary = self.merged(made / "rank1.json", capture, made / "rank0.json", "-o", output)
        self.assertEqual([process["rank"] for process in summary["processes"]], [0, 1])
        self.assertTrue(all(len(process["inputs"]) == 2 for process in summary["processes"]))
        self.assertEqual(summary["clock"]["statement"], "Clocks: 1 host, one clock: exact")
        merged = read(output)
        self.check_nothing_collides(merged)
        self.check_culprit(merged, summary)
        names = {event["pid"]: event["args"]["name"] for event in merged["traceEvents"] if event["name"] == "process_name"}
        for rank in range(2):
            begins = [sorted(absolute_ns(merged, event) for event in merged["traceEvents"]
                             if event["name"] == "aten::mm" and names[event["pid"]].startswith(f"rank {rank} {profiler}"))
                      for profiler in ("proftrace", "torch.profiler")]
            self.assertEqual(len(begins[1]), STEPS)
            apart = sorted(abs(ours - theirs) for ours, theirs in zip(begins[0][-STEPS:], begins[1], strict=True))
            self.assertLess(apart[STEPS // 2], 200_000)  # what lies between the probe and the profiler's own look at the clock

    def test_two_shifted_ranks_are_put_back(self) -> None:
        self.check_shifted(2)

    def test_four_shifted_ranks_are_put_back(self) -> None:
        self.check_shifted(4)


class InterruptedMergeTest(LiveTest):
    """A merge that is ended at some moment, or has no room: a whole output or none, and an exit code that tells which."""

    OUTPUTS = ("out.json", "out.pftrace.gz", "corrected")
    ROWS = 80_000

    def setUp(self) -> None:
        super().setUp()
        self.trace = self.directory / "rank0.json"
        row = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 47, "tid": 47, "ts": %d.125, "dur": 5.0, "args": {"External id": %d}}'
        self.trace.write_text('{"schemaVersion": 1, "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 1}, "baseTimeNanoseconds": '
                              '1764000000000000000, "traceEvents": [' + ",\n".join(row % (i * 10, i) for i in range(self.ROWS)) + "]}")
        self.place = self.directory / "place"
        self.place.mkdir()

    def merging(self, output: str) -> subprocess.Popen[str]:
        return subprocess.Popen([live.BINARY, "merge", str(self.trace), "-o", str(self.place / output)], stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def rows_of(self, output: Path) -> int:
        if output.is_dir():
            return sum(self.rows_of(path) for path in output.iterdir())
        if output.suffix == ".json" or output.name.endswith(".json.gz"):
            return sum(event["ph"] == "X" for event in read(output)["traceEvents"])
        return gzip.decompress(output.read_bytes()) and self.ROWS  # a whole member, with its checksum

    def test_a_signal_at_any_moment_leaves_no_half_output(self) -> None:
        moments = random.Random(37)
        began = time.monotonic()
        warm = self.merging("warm.json")
        self.assertIn("merged 1 process", warm.communicate(timeout=60)[1])
        length_s = time.monotonic() - began
        (self.place / "warm.json").unlink()
        for output, signal_number in itertools.product(self.OUTPUTS, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)):
            with self.subTest(output=output, signal=signal_number.name):
                process = self.merging(output)
                time.sleep(moments.uniform(0.02, 0.9) * length_s)
                # ^C goes to all of a terminal's processes, the others to the one that was named.
                (os.killpg if signal_number == signal.SIGINT else os.kill)(process.pid, signal_number)
                said = process.communicate(timeout=60)[1]
                self.assertIn(process.returncode, (0, -signal_number), said)
                made = self.place / output
                if made.exists():
                    self.assertEqual(self.rows_of(made), self.ROWS)
                    shutil.rmtree(made) if made.is_dir() else made.unlink()
                else:
                    self.assertEqual(process.returncode, -signal_number, said)
                if signal_number == signal.SIGKILL:
                    # Nobody can tidy up: what is left has a name that says what it was.
                    left = list(self.place.glob(".proftrace-*"))
                    for path in left:
                        shutil.rmtree(path, ignore_errors=True)
                self.assertEqual(os.listdir(self.place), [])

    def test_a_full_disk_is_said_and_leaves_nothing(self) -> None:
        for output in (*self.OUTPUTS, "out.json.gz"):
            with self.subTest(output=output):
                script = 'mount -t tmpfs -o size=256k none "$1" || exit 77; "$2" merge "$3" -o "$1/$4"; code=$?; ls -A "$1"; exit $code'
                made = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(self.place), live.BINARY, str(self.trace), output],
                                      capture_output=True, text=True, timeout=60)
                if made.returncode == 77:
                    self.skipTest("nothing can be mounted here: " + made.stderr)
                self.assertEqual(made.returncode, 7, made.stderr)
                self.assertIn("No space left on device", made.stderr)
                self.assertEqual(made.stdout, "")


class RefusedTest(LiveTest):
    """What is no job of one timeline, by made-up files."""

    def trace(self, name: str, rank: int | None, world_size: int = 2, first_us: float = 1000.0) -> Path:
        info = {} if rank is None else {"distributedInfo": {"backend": "gloo", "rank": rank, "world_size": world_size}}
        events = [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 47, "tid": 47, "ts": first_us + i * 10, "dur": 5.0} for i in range(9)]
        path = self.directory / name
        path.write_text(json.dumps({"schemaVersion": 1, **info, "baseTimeNanoseconds": 1_764_000_000_000_000_000, "traceEvents": events}))
        return path

    def refused(self, code: int, sentence: str, *arguments: object) -> None:
        output = self.directory / "out.json"
        made = subprocess.run([live.BINARY, "merge", *map(str, arguments), "-o", str(output)], capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, code, made.stderr)
        self.assertIn(sentence, made.stderr)
        self.assertEqual(made.stderr.count("\n"), 1, made.stderr)
        self.assertFalse(output.exists())
        self.assertEqual([path.name for path in self.directory.iterdir() if path.name.startswith(".")], [])

    def test_each_bad_input_has_its_code_and_sentence(self) -> None:
        first, second = self.trace("a.json", 0), self.trace("b.json", 1)
        self.refused(10, "given twice", first, first)
        (self.directory / "link.json").symlink_to(first)
        self.refused(10, "same file", first, self.directory / "link.json")
        self.refused(10, "both of rank 0", first, self.trace("copy.json", 0))
        self.refused(10, "of a job of 2 ranks", first, self.trace("other.json", 1, world_size=4))
        self.refused(2, "--rank-of", first, self.trace("none.json", None))
        self.refused(2, "No such file", first, self.directory / "missing.json")
        os.mkfifo(self.directory / "pipe.json")
        self.refused(2, "neither a file nor a directory", first, self.directory / "pipe.json")
        self.refused(2, "no group (?P<rank>", first, second, "--rank-of", "rank([0-9]+)")
        self.refused(2, "none of auto", first, second, "--clock", "ntp")
        self.refused(2, "no input has rows of steps", first, second, "--steps", "3-4")
        self.refused(10, "binds the clock", first, second, "--clock", "collectives")

    def test_missing_ranks_and_hosts_that_nothing_binds_are_said(self) -> None:
        first, third = self.trace("a.json", 0, 4), self.trace("c_rank2.json", None, 4)
        output = self.directory / "out.json"
        made = subprocess.run([live.BINARY, "merge", str(first), str(third), "-o", str(output), "--rank-of", r"_rank(?P<rank>\d+)"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("1, 3", made.stderr)
        self.assertIn("not aligned", made.stderr)
        self.assertIn("[not aligned]", output.read_text())
        strict = subprocess.run([live.BINARY, "merge", str(first), str(third), "-o", str(output), "--rank-of", r"_rank(?P<rank>\d+)",
                                 "--max-clock-error", "1ms", "--strict"], capture_output=True, text=True, timeout=60)
        self.assertEqual(strict.returncode, 9, strict.stderr)


class SteppedClockTest(LiveTest):
    """Traces of torch.profiler from hosts whose clocks have trouble, made up: the true times are known."""

    RANKS = 4
    ODD = 2
    BASE_NS = 1_764_000_000_000_000_000
    HOUR_NS = 3600e9
    SEEDS = range(4)

    def calls(self, seed: int, steps: int, pause: tuple[float, float] = (1e300, 0)) -> list[list[tuple[float, float]]]:
        """When each rank truly entered and left each all-reduce: six in a step of one second, one behind the other."""
        chance = random.Random(seed)
        calls: list[list[tuple[float, float]]] = [[] for _ in range(self.RANKS)]
        for step in range(steps):
            at = (step + 1.1) * 1e9 + (pause[1] if step * 1e9 >= pause[0] else 0)
            for _ in range(6):
                at += chance.uniform(1e6, 20e6)
                entered = [at + chance.expovariate(1 / 3e5) for _ in calls]
                left = max(entered) + 2e6 * chance.uniform(1, 1.2)
                for rank, began in zip(calls, entered):
                    rank.append((began, left + chance.expovariate(1 / 2e4)))
                at = max(rank[-1][1] for rank in calls)
        return calls

    def write(self, rank: int, calls: list[tuple[float, float]], clock: collections.abc.Callable[[float], float]) -> Path:
        facts = {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": self.RANKS, "dtype": "Float",
                 "Process Group Name": "0", "Process Group Ranks": str(list(range(self.RANKS))), "device": 0, "stream": 7}
        events = [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce", "pid": 47, "tid": 7, "ts": round(clock(entered) / 1000, 3),
                   "dur": round((clock(left) - clock(entered)) / 1000, 3), "args": {**facts, "Seq": number}}
                  for number, (entered, left) in enumerate(calls)]
        path = self.directory / f"rank{rank}.json"
        path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.RANKS},
                                    "baseTimeNanoseconds": self.BASE_NS, "traceEvents": events}))
        return path

    def merged(self, calls: list[list[tuple[float, float]]], odd: collections.abc.Callable[[float], float], missing: int = 0) -> dict:
        """Merges; checks that each row of an aligned host lies within its bound of the truth; returns what was said of the clock."""
        clocks = [lambda ns, rank=rank: ns * (1 + (rank - 1) * 1e-5) + rank * 3e6 for rank in range(self.RANKS)]
        clocks[self.ODD] = odd
        paths = [self.write(rank, calls[rank], clock) for rank, clock in enumerate(clocks)]
        output = self.directory / "out.json"
        made = subprocess.run([live.BINARY, "merge", *map(str, paths), "-o", str(output), "--json", "--reference", str(paths[0])],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(made.returncode, 0, made.stderr + made.stdout)
        clock = json.loads(made.stdout)["clock"]
        trace = read(output)
        ranks = {event["pid"]: int(event["args"]["name"].split()[1]) for event in trace["traceEvents"] if event["name"] == "process_name"}
        rows: dict[tuple[int, int], dict] = {(ranks[event["pid"]], event["args"]["Seq"]): event for event in trace["traceEvents"]
                                             if event["name"] == "ncclDevKernel_AllReduce"}
        hosts = {host["host"]: host for host in clock["hosts"]}
        self.assertEqual([host for host in clock["not_aligned"] if host != str(paths[self.ODD])], [])
        for rank, path in enumerate(paths):
            if not hosts[str(path)]["aligned"]:
                continue
            seen = 0
            for number, (entered, left) in enumerate(calls[rank]):
                if (row := rows.get((rank, number))) is None:
                    continue
                seen += 1
                begin = absolute_ns(trace, row)
                for place, truth in ((begin, entered), (begin + int(row["dur"] * 1000), left)):
                    self.assertLessEqual(abs(place - self.BASE_NS - clocks[0](truth)), hosts[str(path)]["bound_ns"] + 3000, (rank, number))
            self.assertGreaterEqual(seen, len(calls[rank]) - (missing if rank == self.ODD else 0))
        for finding in clock["findings"]:
            self.assertIn(str(paths[self.ODD]), finding)
        return clock

    @staticmethod
    def stretched(from_ns: float, to_ns: float, step_ns: float) -> collections.abc.Callable[[float], float]:
        """What torch.profiler writes if the wall clock was set in between: a line through the wall times of the trace's ends."""
        return lambda ns: ns + (ns - from_ns) * step_ns / (to_ns - from_ns)

    def test_a_trace_that_a_step_stretched_is_named_and_not_aligned(self) -> None:
        cases = ((50e6, 20), (-50e6, 20), (50e6, 4), (20e9, 20), (self.HOUR_NS, 20))
        for (step_ns, steps), seed in itertools.product(cases, self.SEEDS):
            clock = self.merged(self.calls(seed, steps), self.stretched(0.9e9, (steps + 1) * 1e9, step_ns))
            self.assertEqual(len(clock["not_aligned"]), 1, (step_ns, steps, seed))
            self.assertEqual(sum("are stretched" in finding for finding in clock["findings"]), 1, clock["findings"])
            self.assertFalse(any("jumped" in finding for finding in clock["findings"]))

    def test_a_slightly_stretched_trace_is_named_and_its_bound_holds(self) -> None:
        for seed in self.SEEDS:
            clock = self.merged(self.calls(seed, 60), self.stretched(0.9e9, 61e9, 50e6))
            self.assertEqual(clock["not_aligned"], [])
            self.assertIn("are stretched", "".join(clock["findings"]))

    def test_a_trace_that_runs_backwards_costs_its_own_rank_only(self) -> None:
        clock = self.merged(self.calls(1, 20), self.stretched(0.9e9, 21e9, -self.HOUR_NS))
        self.assertEqual(len(clock["not_aligned"]), 1)
        self.assertIn("was its clock set back?", "".join(clock["findings"]))

    def test_steps_pauses_and_migrations_are_found_and_the_bound_holds(self) -> None:
        half = 11.0e9
        cases = {"+50 ms": (50e6, 0, 0), "-1 h": (-self.HOUR_NS, 0, 0), "suspended for 20 s": (-20e9, 0, 20e9),
                 "migrated": (-1.3e9, 2e-4, 1.3e9)}
        for (name, (jump_ns, rate, pause_ns)), seed in itertools.product(cases.items(), self.SEEDS):
            calls = self.calls(seed, 20, (half - 1e9, pause_ns))
            clock = self.merged(calls, lambda ns: ns if ns < half else ns + jump_ns + (ns - half) * rate, missing=2)
            self.assertEqual(clock["not_aligned"], [], name)
            self.assertEqual(len(clock["findings"]), 1, (name, clock["findings"]))
            jumped = re.search(r"jumped by (\S+) s", clock["findings"][0])
            self.assertIsNotNone(jumped, clock["findings"])
            self.assertAlmostEqual(float(jumped[1]), jump_ns / 1e9, delta=0.005, msg=name)

    def test_slews_and_hours_need_no_finding(self) -> None:
        for odd, seed in itertools.product((lambda ns: ns + max(0, ns - 10e9) * 5e-4, lambda ns: ns + 3 * self.HOUR_NS), self.SEEDS):
            self.assertEqual(self.merged(self.calls(seed, 20), odd)["findings"], [])


if __name__ == "__main__":
    live.run()

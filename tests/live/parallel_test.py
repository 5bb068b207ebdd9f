#!/usr/bin/env python3
"""Collectives of DDP, FSDP2, tensor parallelism, pipelines, sub-groups and random mixes, on gloo: each row is laid beside what
torch.profiler recorded of it in the same run, what PyTorch's flight recorder has (2.11), and what the job asked for.

PROFTRACE_PARQUET_PYTHON names a Python that has pyarrow; PROFTRACE_PARALLEL_FIGURES a file that gets a line for each kind."""

from __future__ import annotations

import collections
import contextlib
import gzip
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import live
from live import HERE, LiveTest, Tracer

READER = os.environ.get("PROFTRACE_PARQUET_PYTHON") or (sys.executable if importlib.util.find_spec("pyarrow") else "")
AS_JSON = "import json, sys, pyarrow.parquet as p\nprint(json.dumps(p.ParquetFile(sys.argv[1]).read().to_pylist()))"
KINDS = ("catalogue", "async", "random", "messages", "objects", "groups", "ddp", "fsdp2", "tensor", "pipeline")
SAID_WHOLLY = ("catalogue", "async", "random", "messages")  # the job wrote down each collective of these
FAMILIES = {"all_reduce": "allreduce", "sparse_all_reduce": "allreduce", "all_gather": "allgather", "recvAnySource": "recv"}
NOT_OF_TORCH = ("Ev Idx", "External id", "Record function id", "Concrete Inputs")  # numbers of the profiler's own
BYTES = {"Float": 4, "Double": 8, "BFloat16": 2, "Half": 2, "Long": 8, "Int": 4, "Byte": 1, "Char": 1}


def family(row: dict) -> str:
    name = row["name"].removeprefix("gloo:")
    return FAMILIES.get(name, name)


def elements(sizes: list) -> int:
    """Of all tensors with these shapes."""
    total = 0
    for shape in sizes:
        product = 1
        for size in shape:
            product *= size
        total += product
    return total


class Trace:
    """The rows of one rank."""

    def __init__(self, trace: dict) -> None:
        self.head = trace
        self.rows = [event for event in trace["traceEvents"] if event.get("ph") in ("X", "b") and "ts" in event]
        self.rows.sort(key=lambda event: float(event["ts"]))
        self.windows = [(float(row["ts"]), float(row["ts"]) + float(row["dur"]), row["name"].removeprefix("kind "))
                        for row in self.rows if row["name"].startswith("kind ") and row.get("cat") == "user_annotation"]

    def kind_of(self, row: dict) -> str:
        at = float(row["ts"])
        return next((kind for begin, end, kind in self.windows if begin <= at < end), "between")

    def named(self, *prefixes: str) -> list[dict]:
        return [row for row in self.rows if row["name"].startswith(prefixes)]


class Run:
    """One recording of a job: all ranks' traces, facts and tables."""

    def __init__(self, made: Path, out: Path, size: int) -> None:
        self.ours, self.theirs, self.facts = [], [], []
        # Calls of which the recording says itself that it could not read their inputs, and those that are met.
        self.unread = json.loads((out / "summary.json").read_text())["ledger"]["inputs_unread"]
        self.met_unread = 0
        for rank in range(size):
            with gzip.open(out / f"trace_rank{rank}.json.gz", "rt", encoding="utf-8") as stream:
                self.ours.append(Trace(json.load(stream)))
            self.theirs.append(Trace(json.loads((made / f"torch{rank}.json").read_text())))
            self.facts.append(json.loads((made / f"facts{rank}.json").read_text()))
        table = out / "parquet/collectives.parquet"
        read = subprocess.run([READER, "-c", AS_JSON, str(table)], check=True, capture_output=True, text=True, timeout=60)
        rows = json.loads(read.stdout)
        self.tables = [sorted((row for row in rows if row["rank"] == rank), key=lambda row: row["begin_ns"]) for rank in range(size)]


class Differences:
    """What was compared, by kind, and what differed."""

    def __init__(self) -> None:
        self.compared: collections.Counter = collections.Counter()
        self.found: list[str] = []

    def compare(self, kind: str, what: str, mine: object, wanted: object, of: object) -> None:
        self.compared[kind, what] += 1
        if mine != wanted:
            self.found.append(f"{kind}: {what}: {mine!r} is not {wanted!r}: {of}")


def of_torch(args: dict) -> dict:
    return {key: value for key, value in args.items() if key not in NOT_OF_TORCH}


def compare_rows(rank: int, run: Run, differences: Differences) -> None:
    """Rows of works and calls: as many, with all of torch's args, in their threads' order."""
    ours, theirs = run.ours[rank], run.theirs[rank]
    for prefix in ("gloo:", "c10d::", "_c10d_functional::", "record_param_comms"):
        by_thread: dict[tuple, tuple[list, list]] = collections.defaultdict(lambda: ([], []))
        for place, trace in enumerate((ours, theirs)):
            for row in trace.named(prefix):
                by_thread[row["tid"], row["name"]][place].append(row)
        for (tid, name), (mine, wanted) in by_thread.items():
            kinds = [collections.Counter(trace.kind_of(row) for row in rows) for trace, rows in ((ours, mine), (theirs, wanted))]
            differences.compare("all", "rows", kinds[0], kinds[1], (rank, tid, name))
            for row, other in zip(mine, wanted):
                wish = of_torch(other.get("args", {}))
                if run.met_unread < run.unread and "Input Dims" in wish and "Input Dims" not in row.get("args", {}):
                    wish = {key: value for key, value in wish.items() if not key.startswith("Input ")}
                    run.met_unread += 1
                have = {key: row.get("args", {}).get(key) for key in wish}
                differences.compare(theirs.kind_of(other), f"args of {prefix}", have, wish, (rank, name, other["ts"]))


def compare_flight(rank: int, run: Run, differences: Differences) -> None:
    """PyTorch's flight recorder: the same numbers, and for each the name, the tensors' types and the bytes in and out."""
    entries = run.facts[rank]["entries"]
    if not entries:
        return
    ours = run.ours[rank]
    by_number = collections.defaultdict(list)
    for row in ours.named("gloo:"):
        if "Seq" in row["args"]:
            by_number[row["args"].get("Process Group Name"), row["args"]["Seq"]].append(row)
    for entry in entries:
        if entry["is_p2p"] or entry["profiling_name"] in ("gloo:send", "gloo:recv", "gloo:recvAnySource"):
            continue
        key = entry["process_group"][0], entry["collective_seq_id"]
        rows = by_number.pop(key, [])
        kind = ours.kind_of(rows[0]) if rows else "all"
        differences.compare(kind, "a number of the flight recorder's", [row["name"] for row in rows], [entry["profiling_name"]], (rank, key))
        if len(rows) != 1:
            continue
        args = rows[0]["args"]
        differences.compare(kind, "description", args.get("Process Group Description", ""), entry["process_group"][1], (rank, key))
        differences.compare(kind, "Is P2P", args.get("Is P2P"), entry["is_p2p"], (rank, key))
        name = family(rows[0])
        if name == "barrier":
            differences.compare(kind, "sizes of a barrier", [args.get("In msg nelems"), args.get("Out msg nelems")], [None, None], (rank, key))
            continue
        sizes: list = [elements(entry["input_sizes"]), elements(entry["output_sizes"])]
        if name == "all_to_all" and run.unread and args.get("Out msg nelems") is None:
            sizes[1] = None
        differences.compare(kind, f"elements of {name}", [args.get("In msg nelems"), args.get("Out msg nelems")], sizes, (rank, key, entry))
    left = {key: [row["name"] for row in rows] for key, rows in by_number.items()}
    differences.compare("all", "numbers that the flight recorder has not", left, {}, rank)


def compare_said(rank: int, run: Run, differences: Differences) -> None:
    """What the job asked for, in each group's order; messages have no number: in the order of their calls."""
    facts, ours = run.facts[rank], run.ours[rank]
    for kind in SAID_WHOLLY:
        wanted: dict[object, list] = collections.defaultdict(list)
        for of, group, name, into, out, width, other in facts["said"]:
            if of == kind:
                is_message = name in ("send", "recv")
                wanted[name if is_message else group].append((name, into, out, width if into is not None else None, other))
        mine: dict[object, list] = collections.defaultdict(list)
        for row in ours.named("gloo:"):
            if ours.kind_of(row) == kind:
                name = family(row)
                mine[name if name in ("send", "recv") else row["args"].get("Process Group Name")].append(row)
        differences.compare(kind, "groups that were asked", set(mine), set(wanted), rank)
        for key, wishes in wanted.items():
            rows = sorted(mine[key], key=lambda row: row["args"].get("Seq", 0))
            differences.compare(kind, "collectives of a group", len(rows), len(wishes), (rank, key))
            for row, wish in zip(rows, wishes):
                args = row["args"]
                width = BYTES.get(args.get("dtype"))
                name = family(row)
                others = {"send": "Dst Rank", "recv": "Src Rank"}
                other = args.get(others[name]) if name in others else args.get("Rank")
                if other is not None and name not in others:
                    other = facts["groups"][args["Process Group Name"]]["ranks"][other]
                out = args.get("Out msg nelems")
                if name == "all_to_all" and run.unread and out is None:
                    out = wish[2]
                have = (name, args.get("In msg nelems"), out, width, other)
                differences.compare(kind, f"asked for: {wish[0]}", have, wish, (rank, key, args))


def compare_groups(rank: int, run: Run, differences: Differences) -> None:
    """Names, descriptions and members: as torch.distributed and distributedInfo have them."""
    known = run.facts[rank]["groups"]
    info = run.theirs[rank].head.get("distributedInfo", {})
    for group in info.get("pg_config") or []:
        mine = [of for of in run.ours[rank].head["distributedInfo"]["pg_config"] if of["pg_name"] == group["pg_name"]]
        differences.compare("all", "distributedInfo", [{key: of.get(key) for key in group} for of in mine], [group], rank)
    for row in run.ours[rank].named("gloo:"):
        args = row["args"]
        kind = run.ours[rank].kind_of(row)
        if "Seq" not in args:
            differences.compare(kind, "rows without a number", family(row) in ("send", "recv"), True, (rank, row))
            continue
        group = known.get(args.get("Process Group Name", ""), {})
        have = [args.get("Process Group Description", ""), json.loads(args.get("Process Group Ranks", "null")), args.get("Group size")]
        ranks = group.get("ranks")
        differences.compare(kind, "group", have, [group.get("description"), ranks, len(ranks or [])], (rank, row))


def compare_tables(rank: int, run: Run, differences: Differences) -> None:
    """The table `collectives` has the same rows, with the facts that the trace has of them."""
    rows = [row for row in run.ours[rank].named("gloo:")
            if row["args"].get("Group size", 2) > 1]  # a group of one is no collective for the tables
    table = run.tables[rank]
    differences.compare("all", "rows of the table", len(table), len(rows), rank)
    def key(name: str, number: object, group: object) -> tuple:
        return name, number is not None, number or 0, group or ""
    ours = collections.defaultdict(list)
    for row in rows:
        ours[key(family(row), row["args"].get("Seq"), row["args"].get("Process Group Name"))].append(row)
    for of in table:
        is_message = of["op"] in ("send", "recv")
        found = ours[key(of["op"], of["seq"], of["group_name"])]
        row = found.pop(0) if found else None
        kind = "all" if row is None else run.ours[rank].kind_of(row)
        differences.compare(kind, "a row of the table", row is not None, True, (rank, of))
        if row is None:
            continue
        args = row["args"]
        width = BYTES.get(args.get("dtype"), 0)
        sizes = [None if args.get(name) is None else args[name] * width for name in ("In msg nelems", "Out msg nelems")]
        peer = args.get({"send": "Dst Rank", "recv": "Src Rank"}.get(of["op"], ""))
        differences.compare(kind, "facts of the table", [of["in_bytes"], of["out_bytes"], of["peer"], of["is_p2p"], of["dtype"] or ""],
                            [*sizes, peer, int(is_message), args.get("dtype", "")], (rank, of, args))


def compare_ranks(run: Run, differences: Differences) -> None:
    """The members of a group have the same collectives under the same numbers."""
    of_group: dict[tuple, dict[int, list]] = collections.defaultdict(dict)
    for rank, ours in enumerate(run.ours):
        for row in ours.named("gloo:"):
            args = row["args"]
            if "Seq" in args:
                key = args.get("Process Group Name"), args.get("Process Group Ranks")
                of_group[key].setdefault(rank, []).append((args["Seq"], row["name"]))
    for key, by_rank in of_group.items():
        differences.compare("all", "members", sorted(by_rank), sorted(json.loads(key[1] or "[]")), key)
        series = [sorted(numbers) for numbers in by_rank.values()]
        differences.compare("all", "members' numbers", [numbers for numbers in series if numbers != series[0]], [], key)
        numbers = [number for number, _ in series[0]]
        left_out = len(set(range(numbers[0], numbers[-1] + 1)) - set(numbers))
        has_monitored = key[0] == "0" and any(ours.named("c10d::monitored_barrier_") for ours in run.ours)
        differences.compare("all", "numbers left out", left_out, 2 * has_monitored, key)  # that barrier has no work, but two numbers


class ParallelTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        if not READER:
            self.skipTest("no Python with pyarrow (PROFTRACE_PARQUET_PYTHON)")
        # FSDP2 runs on CPUs where these have streams with events: not in 2.6.
        has = "import torch; print(hasattr(torch.distributed, 'device_mesh'), hasattr(torch.cpu.Stream, 'record_event'))"
        done = subprocess.run([LiveTest.python, "-c", has], capture_output=True, text=True, check=False)
        if not done.stdout.startswith("True"):
            self.skipTest("this torch has no DTensor and pipelines")
        self.kinds = KINDS if done.stdout.split()[1] == "True" else tuple(kind for kind in KINDS if kind != "fsdp2")

    def record(self, tier: str, size: int, seed: int, kinds: tuple[str, ...]) -> Run:
        made = self.directory / f"{tier}{seed}"
        made.mkdir()
        environment = live.job_variables({"GLOO_SOCKET_IFNAME": "lo", "TORCH_FR_BUFFER_SIZE": "20000", "USE_LIBUV": "0"})
        said = (made / "said").open("w+")
        job = subprocess.Popen([LiveTest.python, str(HERE / "parallel_job.py"), str(made), str(size), str(seed), *kinds],
                               env=environment, stdout=said, stderr=said, start_new_session=True)
        try:
            self.wait_for_ranks(job, made, "ready?.*", size)
            targets = [argument for path in sorted(made.glob("ready?.*")) for argument in ("-p", path.suffix[1:])]
            out = self.directory / f"out_{tier}{seed}"
            with Tracer(*targets, "-o", out, "--tier", tier, "--record-shapes", "--format", "chrome,parquet", "--buffer-size", "64M") as tracer:
                tracer.wait_until_recording()
                (made / "go").touch()
                self.wait_for_ranks(job, made, "facts?.json", size)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            (made / "end").touch()
            self.assertEqual(job.wait(60), 0, (made / "said").read_text())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            said.close()
        return Run(made, out, size)

    def wait_for_ranks(self, job: subprocess.Popen, made: Path, pattern: str, size: int) -> None:
        live.wait_until(lambda: job.poll() is not None or len(list(made.glob(pattern))) == size, 240, f"{pattern} of {size} ranks")
        self.assertIsNone(job.poll(), (made / "said").read_text())

    def check(self, tier: str, size: int, seed: int, kinds: tuple[str, ...]) -> None:
        run = self.record(tier, size, seed, kinds)
        differences = Differences()
        for rank in range(size):
            compare_rows(rank, run, differences)
            compare_flight(rank, run, differences)
            compare_said(rank, run, differences)
            compare_groups(rank, run, differences)
            compare_tables(rank, run, differences)
        compare_ranks(run, differences)
        self.tell_figures(tier, size, run, differences)
        self.assertGreater(len(differences.compared), 10)
        self.assertEqual(differences.found[:20], [], f"{len(differences.found)} differences")

    def tell_figures(self, tier: str, size: int, run: Run, differences: Differences) -> None:
        if not (path := os.environ.get("PROFTRACE_PARALLEL_FIGURES")):
            return
        lines = []
        for kind in (*KINDS, "between"):
            rows = sum(run.ours[rank].kind_of(row) == kind for rank in range(size) for row in run.ours[rank].named("gloo:"))
            calls = sum(run.ours[rank].kind_of(row) == kind for rank in range(size) for row in run.ours[rank].named("c10d::"))
            checks = sum(count for (of, _), count in differences.compared.items() if of == kind)
            wrong = sum(text.startswith(f"{kind}: ") for text in differences.found)
            lines.append(f"{run.facts[0]['torch']} {tier} {size} {kind}: {rows} works, {calls} calls, {checks} compared, {wrong} differ\n")
        total = sum(differences.compared.values())
        lines.append(f"{run.facts[0]['torch']} {tier} {size} all: {total} compared, {len(differences.found)} differ\n")
        with open(path, "a", encoding="utf-8") as stream:
            stream.writelines(lines + [text[:600] + "\n" for text in differences.found])

    def test_collectives_are_torchs_with_bpf(self) -> None:
        self.check("bpf", 4, 1, self.kinds)

    def test_collectives_are_torchs_with_jumps(self) -> None:
        self.check("patch", 4, 2, self.kinds)

    def test_two_ranks(self) -> None:
        self.check("bpf", 2, 3, ("catalogue", "messages"))


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""Jobs whose ranks are unlike, with planted truth: `proftrace merge` and `proftrace fleet` match what can be matched, say what cannot,
and compare only ranks that are alike. Needs DuckDB, pandas and pyarrow (scripts/install-fleet-engine.sh --tests):
unlike_ranks_test.py PROFTRACE."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet
from simulate import MS, Cause, Fleet, write_fleet

PROGRAM = Path()
DUCKDB = Path(sys.executable).parent / "duckdb"
US = 1000
BASE_NS = 1_790_000_000_000_000_000
STEPS = 20
STEP_NS = 50 * MS
BYTES = {"Float": 4, "Half": 2, "BFloat16": 2}
DISAGREE = f"{STEPS} collectives are not used for the clock: the ranks disagree on the operation, its root, the type or the size."
ONE_SIDED = f"{STEPS} collectives are not used for the clock: of a rank only the call was seen, or no root, or a part without elements."
WITHOUT_SOME = f"{STEPS} collectives are used for the clock without the ranks of which only the call was seen, or no root, or a part without elements."
NO_GROUP = f"{STEPS} collectives do not tell the ranks of the process group (torch tells them from 2.3 on): not used for the clock"
OWN_TYPES = {"Float": "float", "Half": "c10::Half", "BFloat16": "c10::BFloat16"}  # as Kineto's "Input type" has them


@dataclasses.dataclass
class Call:
    """A collective of each step. What differs from rank to rank is a function of the rank."""

    name: Callable[[int], str]  # torch's "Collective name", or gloo's title
    group: str = "0"
    members: tuple[int, ...] = (0, 1, 2, 3)
    dtype: Callable[[int], str] = lambda _rank: "Float"
    elements: int = 1024
    place: Callable[[int], str] = lambda _rank: "kernel"  # or "gloo", "graph" (a kernel without facts), "host"
    has_shapes: Callable[[int], bool] = lambda _rank: True
    has_number: Callable[[int], bool] = lambda _rank: True
    root: int | None = None  # of gloo's broadcasts: told by a row of c10d, with the shapes
    splits: Callable[[int], str] | None = None  # "Out split size" of an all_to_all with parts of other sizes


@dataclasses.dataclass
class Job:
    calls: list[Call]
    ranks: int = 4
    late_rank: int = 2  # enters each collective 4 ms after the others
    late_ns: int = 4 * MS
    torch: Callable[[int], str] = lambda _rank: "2.11.0"
    gloo_groups: tuple[str, ...] = ()

    def offset_ns(self, rank: int) -> int:
        return (0, 7_200 * 10**9, -3_600 * 10**9 + 123_456, 1_000_777)[rank % 4]

    def begin_ns(self, step: int) -> int:
        return step * STEP_NS + step * step * 700 * US  # no two steps are equally long

    def entered_ns(self, step: int, number: int, rank: int) -> int:
        return self.begin_ns(step) + 2 * MS + 8 * MS * number + (self.late_ns if rank == self.late_rank else 0) + 7 * US * rank

    def left_ns(self, step: int, number: int, rank: int) -> int:
        return max(self.entered_ns(step, number, one) for one in self.calls[number].members) + MS + rank * 100

    def write(self, folder: Path) -> list[Path]:
        folder.mkdir()
        files = []
        for rank in range(self.ranks):
            files.append(folder / f"rank{rank}.json")
            files[-1].write_text(json.dumps({"schemaVersion": 1, "distributedInfo": self.info(rank), "torch_version": self.torch(rank),
                                             "baseTimeNanoseconds": BASE_NS + self.offset_ns(rank),
                                             "traceEvents": list(self.events(rank))}), encoding="ascii")
        return files

    def info(self, rank: int) -> dict[str, Any]:
        groups = {call.group: call for call in self.calls if rank in call.members}
        config = [{"pg_name": name, "pg_desc": "undefined", "backend_config": "cpu:gloo" if call.place(rank) == "gloo" else "cuda:nccl",
                   "pg_size": len(call.members), "ranks": list(call.members)} for name, call in sorted(groups.items())]
        return {"backend": "nccl", "rank": rank, "world_size": self.ranks, "pg_count": len(config), "pg_config": config}

    def events(self, rank: int) -> Iterator[dict[str, Any]]:
        pid = 1000 + rank
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "python"}}
        for step in range(STEPS):
            begin = self.begin_ns(step)
            yield self.row(f"ProfilerStep#{step}", "user_annotation", pid, pid, begin, begin + STEP_NS - MS, {})
            yield self.row("aten::mm", "cpu_op", pid, pid, begin + 100 * US, begin + 900 * US, {})
            yield self.row("gemm", "kernel", 0, 7, begin + 200 * US, begin + 1200 * US, {"device": 0, "stream": 7})
            for number, call in enumerate(self.calls):
                if rank not in call.members:
                    continue
                yield self.of_call(call, step, number, rank)
                if call.root is not None and call.has_shapes(rank):
                    entered = self.entered_ns(step, number, rank)
                    yield self.row("c10d::broadcast_", "cpu_op", pid, pid, entered - 5 * US, entered, {"Concrete Inputs": ["", "", str(call.root), ""]})

    def of_call(self, call: Call, step: int, number: int, rank: int) -> dict[str, Any]:
        begin, end = self.entered_ns(step, number, rank), self.left_ns(step, number, rank)
        place, pid = call.place(rank), 1000 + rank
        if place == "graph":
            return self.row(f"ncclDevKernel_{call.name(rank)}", "kernel", 0, 20, begin, end, {"device": 0, "stream": 20})
        if place == "gloo":
            shapes = {"Input Dims": [[call.elements]], "Input type": [OWN_TYPES[call.dtype(rank)]]} if call.has_shapes(rank) else {}
            return self.row(call.name(rank), "user_annotation", pid, 90_000 + step % 2, begin, end, shapes)
        facts: dict[str, Any] = {"Collective name": call.name(rank), "Group size": len(call.members), "Process Group Name": call.group,
                                 "Process Group Ranks": str(list(call.members)), "Rank": call.members.index(rank)}
        if call.has_shapes(rank):
            facts |= {"In msg nelems": call.elements, "Out msg nelems": call.elements, "dtype": call.dtype(rank)}
        if call.has_number(rank):
            facts["Seq"] = sum(one.group == call.group for one in self.calls[:number]) + step * len(self.calls)
        if call.splits:
            facts["Out split size"] = call.splits(rank)
        if place == "host":
            return self.row("record_param_comms", "cpu_op", pid, pid, begin, begin + 20 * US, facts)
        return self.row(f"ncclDevKernel_{call.name(rank)}", "kernel", 0, 20, begin, end, {"device": 0, "stream": 20, **facts})

    @staticmethod
    def row(name: str, category: str, pid: int, tid: int, begin: int, end: int, args: dict[str, Any]) -> dict[str, Any]:
        return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": begin / 1000, "dur": (end - begin) / 1000, "args": args}


def run(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False,
                          env={**os.environ, "PROFTRACE_DUCKDB": str(DUCKDB)})
    if done.returncode != code:
        raise AssertionError(f"{arguments} ended with {done.returncode}, not {code}: {done.stderr}{done.stdout[:2000]}")
    return done


def ask(folder: Path, question: str) -> list[dict[str, Any]]:
    return list(json.loads(run("fleet", "query", folder, question, "--json").stdout)["rows"])




class UnlikeTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)


class MergeTest(UnlikeTest):
    def merge(self, job: Job) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The summary, and the rows of collectives; the clock is checked against the truth, and the events are counted."""
        files = job.write(self.folder / "in")
        summary = json.loads(run("merge", *files, "-o", self.folder / "job.json", "--json").stdout)
        events = summary["events"]
        self.assertEqual(events["in"], events["out"] + events["filtered"] + events["refused"])
        self.assertEqual(events["in"], sum(len(json.loads(file.read_text())["traceEvents"]) for file in files))
        trace = json.loads((self.folder / "job.json").read_text())
        self.check_truth(job, files, summary, trace)
        rows = [event for event in trace["traceEvents"] if event.get("cat") == "collective" and "group" in event["args"]]
        return summary, rows

    def check_truth(self, job: Job, files: list[Path], summary: dict[str, Any], trace: dict[str, Any]) -> None:
        clock = summary["clock"]
        reference = [str(file) for file in files].index(clock["reference"])
        names = {event["pid"]: event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "process_name"}
        checked = set()
        for event in trace["traceEvents"]:
            rank = next((rank for rank in range(job.ranks) if names.get(event["pid"], "").startswith(f"rank {rank} ")), None)
            if event["name"] != "ProfilerStep#7" or rank is None or str(files[rank]) in clock["not_aligned"]:
                continue
            right = BASE_NS + job.offset_ns(reference) + job.begin_ns(7)
            off = abs(trace["baseTimeNanoseconds"] + round(event["ts"] * 1000) - right)
            self.assertLess(off, 50 * US, rank)
            self.assertLessEqual(off, clock["worst_bound_ns"], rank)
            checked.add(rank)
        self.assertEqual(len(checked), job.ranks - len(clock["not_aligned"]))

    def matched(self, rows: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
        """What is told of the collectives: name, group, ranks that met, whether they disagree, who came last."""
        return {(row["name"], row["args"]["group"], row["args"]["ranks"], row["args"].get("ranks disagree", False), row["args"]["entered last"])
                for row in rows}

    def last(self, summary: dict[str, Any]) -> dict[int, int]:
        return {of["rank"]: of["entered_last"] for of in summary["collectives"]}

    def check_all_met(self, job: Job) -> list[dict[str, Any]]:
        """All collectives of all ranks are matched, nothing is said of any, and the late rank alone is awaited."""
        summary, rows = self.merge(job)
        clock = summary["clock"]
        self.assertEqual((clock["collectives"], clock["not_aligned"], clock["findings"], summary["remarks"]), (STEPS * len(job.calls), [], [], []))
        self.assertEqual({(row["args"]["ranks"], row["args"].get("ranks disagree")) for row in rows},
                         {(len(call.members), None) for call in job.calls})
        self.assertEqual(len(rows), STEPS * sum(len(call.members) for call in job.calls))
        want = {rank: STEPS * sum(rank == (job.late_rank if job.late_rank in call.members else max(call.members)) for call in job.calls)
                for rank in range(job.ranks)}
        self.assertEqual(self.last(summary), want)
        return rows

    def test_names_of_two_versions_of_torch(self) -> None:
        def names(old: str, new: str) -> Callable[[int], str]:
            return lambda rank: old if rank % 2 == 0 else new
        for place, has_number in (("kernel", True), ("kernel", False), ("gloo", False)):
            with self.subTest(place=place, has_number=has_number):
                calls = [Call(names(old, new), place=lambda _rank, place=place: place,
                              has_number=lambda rank, has_number=has_number: has_number or rank % 2 == 1)
                         for old, new in (("_allgather_base", "all_gather_into_tensor"), ("_reduce_scatter_base", "reduce_scatter_tensor_coalesced"),
                                          ("allreduce_coalesced", "all_reduce"), ("alltoall_base", "all_to_all_single"))]
                if place == "gloo":
                    for call in calls:
                        call.name = lambda rank, of=call.name: f"gloo:{of(rank)}"
                rows = self.check_all_met(Job(calls, torch=lambda rank: "2.6.0" if rank % 2 == 0 else "2.11.0"))
                self.assertEqual({row["name"] for row in rows}, {"allgather", "reduce_scatter", "allreduce", "all_to_all"})
                self.assertEqual({row["args"].get("match") for row in rows}, {None if has_number else "order"})
                shutil.rmtree(self.folder / "in")

    def test_other_operations_are_told_and_accuse_nobody(self) -> None:
        job = Job([Call(lambda rank: "broadcast" if rank == 3 else "allreduce"), Call(lambda _rank: "allreduce", group="1")])
        summary, rows = self.merge(job)
        self.assertEqual(summary["clock"]["findings"], [f'Group "0": {DISAGREE}'])
        self.assertEqual(self.matched(rows), {("allreduce", "0", 4, True, 2), ("broadcast", "0", 4, True, 2), ("allreduce", "1", 4, False, 2)})
        for row in rows:
            if row["args"]["group"] == "0":
                self.assertNotIn("waited for rank", row["args"])
                self.assertFalse(row["args"]["entered last is proved"])
        self.assertEqual((summary["clock"]["collectives"], summary["clock"]["not_aligned"], self.last(summary)),
                         (STEPS, [], {0: 0, 1: 0, 2: STEPS, 3: 0}))

    def test_types_of_elements(self) -> None:
        def half(rank: int) -> str:
            return "Half" if rank < 2 else "BFloat16"
        rows = self.check_all_met(Job([Call(lambda _rank: "allreduce", group="a", members=(0, 1), dtype=half),
                                       Call(lambda _rank: "allreduce", group="b", members=(2, 3), dtype=half), Call(lambda _rank: "allreduce")]))
        self.assertEqual({(row["args"]["group"], row["args"]["op"]) for row in rows},
                         {("a", "allreduce/Half"), ("b", "allreduce/BFloat16"), ("0", "allreduce/Float")})
        shutil.rmtree(self.folder / "in")
        # In one group this is an error of the job, which is told.
        summary, rows = self.merge(Job([Call(lambda _rank: "allreduce", dtype=half), Call(lambda _rank: "allreduce", group="1")]))
        self.assertEqual(self.matched(rows), {("allreduce", "0", 4, True, 2), ("allreduce", "1", 4, False, 2)})
        self.assertEqual(summary["clock"]["findings"], [f'Group "0": {DISAGREE}'])
        self.assertEqual(self.last(summary), {0: 0, 1: 0, 2: STEPS, 3: 0})

    def test_stages_with_other_numbers_of_collectives(self) -> None:
        stages = [Call(lambda _rank: "allreduce", group="tp", members=(0, 1)) for _ in range(3)]
        self.check_all_met(Job([*stages, Call(lambda _rank: "allreduce", group="tp", members=(2, 3)), Call(lambda _rank: "allreduce")]))

    def test_parts_without_elements(self) -> None:
        """The ranks without an empty part bind each other; the one with it is left out, even where it came last."""
        for late_rank, last in ((2, {0: 0, 1: 0, 2: 2 * STEPS, 3: 0}), (1, {0: 0, 1: STEPS, 2: 0, 3: STEPS})):
            job = Job([Call(lambda _rank: "all_to_allv", splits=lambda rank: "[0, 4, 4, 4]" if rank == 1 else "[4, 4, 4, 4]"),
                       Call(lambda _rank: "allreduce", group="1")], late_rank=late_rank)
            summary, rows = self.merge(job)
            self.assertEqual(summary["clock"]["findings"], [f'Group "0": {WITHOUT_SOME}'])
            self.assertEqual((summary["clock"]["collectives"], summary["clock"]["not_aligned"], self.last(summary)), (2 * STEPS, [], last))
            self.assertEqual({(row["name"], row["args"]["ranks"]) for row in rows}, {("all_to_all", 4), ("allreduce", 4)})
            odd = [row["args"] for row in rows if row["args"].get("left out")]
            self.assertEqual((len(odd), [args for args in odd if "entered last" in args or "waited for rank" in args]), (STEPS, []))
            parts = [row["args"] for row in rows if row["name"] == "all_to_all" and "left out" not in row["args"]]
            self.assertEqual({args.get("waited for rank") for args in parts}, {None, 3 if late_rank == 1 else 2})
            self.assertFalse(any(args["entered last is proved"] for args in parts))
            shutil.rmtree(self.folder / "in")

    def test_parts_without_elements_on_all_but_one_rank(self) -> None:
        summary, _ = self.merge(Job([Call(lambda _rank: "all_to_allv", splits=lambda rank: "[0, 4, 4, 4]" if rank else "[4, 4, 4, 4]"),
                                     Call(lambda _rank: "allreduce", group="1")]))
        self.assertEqual((summary["clock"]["findings"], summary["clock"]["collectives"]), ([f'Group "0": {ONE_SIDED}'], STEPS))

    def test_a_part_without_elements_now_and_then(self) -> None:
        """Matched by the order of calls, a rank whose part is empty in a few of them stays in the rest."""
        summary, rows = self.merge(Job([Call(lambda _rank: "allreduce", has_number=lambda _rank: False),
                                        Call(lambda _rank: "all_to_allv", has_number=lambda _rank: False,
                                             splits=lambda rank: "[0, 4, 4, 4]" if rank == 1 else "[4, 4, 4, 4]")]))
        self.assertEqual((summary["clock"]["findings"], summary["clock"]["collectives"], summary["clock"]["not_aligned"]),
                         ([f'Group "0": {WITHOUT_SOME}'], 2 * STEPS, []))
        self.assertEqual({(row["args"]["ranks"], row["args"].get("match")) for row in rows}, {(4, "order")})

    def test_calls_alone_on_one_rank(self) -> None:
        job = Job([Call(lambda _rank: "allreduce", place=lambda rank: "host" if rank == 3 else "kernel", members=(0, 1, 3)),
                   Call(lambda _rank: "allreduce", group="1", place=lambda rank: "host" if rank == 3 else "kernel"),
                   Call(lambda _rank: "allreduce", group="2", members=(0, 1, 2))])
        summary, rows = self.merge(job)
        self.assertEqual([text.split("rank3.json")[-1] for text in summary["clock"]["findings"]],
                         [" is not aligned: nothing binds its clock to the others' from both sides. Its times are on timeline 1.",
                          f'Group "0": {WITHOUT_SOME}', f'Group "1": {WITHOUT_SOME}'])
        self.assertEqual((summary["clock"]["collectives"], self.last(summary)), (3 * STEPS, {0: 0, 1: STEPS, 2: 2 * STEPS, 3: 0}))
        self.assertEqual({(row["args"]["group"], row["args"].get("left out"), "wait (us)" in row["args"]) for row in rows if row["args"]["group"] != "2"},
                         {("0", None, True), ("0", None, False), ("1", None, True), ("1", None, False), ("0", True, False), ("1", True, False)})
        bounds = {Path(host["host"]).stem: (host["bound_ns"] is None, host["likely_error_ns"] is None, host["no_bound_because"])
                  for host in summary["clock"]["hosts"]}
        self.assertEqual(bounds, {**dict.fromkeys(("rank0", "rank1", "rank2"), (False, False, None)),
                                  "rank3": (True, True, "no collective binds its clock to the others' throughout")})
        # In the tables, the rank is as one that was not recorded.
        run("fleet", "ingest", *sorted((self.folder / "in").iterdir()), "-o", self.folder / "tables")
        run("fleet", "align", self.folder / "tables")
        self.assertEqual(ask(self.folder / "tables", "SELECT rank FROM captures WHERE bound_ns IS NULL OR estimate_error_ns IS NULL"), [{"rank": 3}])
        self.assertEqual(ask(self.folder / "tables", "SELECT group_name, ranks_seen, is_timed, COUNT(*) AS n FROM collective_instances GROUP BY ALL ORDER BY 1"),
                         [{"group_name": "0", "ranks_seen": 2, "is_timed": 1, "n": STEPS}, {"group_name": "1", "ranks_seen": 3, "is_timed": 1, "n": STEPS},
                          {"group_name": "2", "ranks_seen": 3, "is_timed": 1, "n": STEPS}])

    def test_graphs_on_half_of_the_ranks(self) -> None:
        def half(rank: int) -> str:
            return "graph" if rank % 2 else "kernel"
        summary, rows = self.merge(Job([Call(lambda _rank: "allreduce", place=half), Call(lambda _rank: "allreduce", group="1")]))
        self.assertEqual([text.split(": ", 1)[1] for text in summary["remarks"]], [NO_GROUP] * 2)
        self.assertEqual(self.matched(rows), {("allreduce", "0", 2, False, 2), ("allreduce", "1", 4, False, 2)})
        self.assertFalse(any(row["args"]["entered last is proved"] for row in rows if row["args"]["group"] == "0"))
        self.assertEqual((summary["clock"]["collectives"], summary["clock"]["not_aligned"]), (2 * STEPS, []))
        shutil.rmtree(self.folder / "in")
        # Without any collective outside of graphs, these ranks are not on the others' clock.
        summary, _ = self.merge(Job([Call(lambda _rank: "allreduce", place=half)]))
        self.assertEqual([Path(path).stem for path in summary["clock"]["not_aligned"]], ["rank1", "rank3"])

    def test_gloo_and_nccl_beside_each_other(self) -> None:
        rows = self.check_all_met(Job([Call(lambda _rank: "allreduce"),
                                       Call(lambda _rank: "gloo:all_reduce", group="cpu", place=lambda _rank: "gloo")]))
        self.assertEqual({(row["args"]["group"], row["args"].get("match")) for row in rows}, {("0", None), ("cpu", "order")})

    def test_shapes_on_half_of_the_ranks(self) -> None:
        for place, name in (("kernel", "allreduce"), ("gloo", "gloo:all_reduce")):
            for has_number in (True, False):
                with self.subTest(place=place, has_number=has_number):
                    rows = self.check_all_met(Job([Call(lambda _rank, name=name: name, place=lambda _rank, place=place: place,
                                                        has_number=lambda _rank, has_number=has_number: has_number,
                                                        has_shapes=lambda rank: rank % 2 == 0)]))
                    # What was recorded is shown as it was.
                    self.assertEqual({(row["args"]["op"], row["args"]["bytes"]) for row in rows}, {("allreduce/Float", 4096), ("allreduce/", 0)})
                    shutil.rmtree(self.folder / "in")

    def test_roots_on_half_of_the_ranks(self) -> None:
        """Who waits for whom in a broadcast is known only by its root, which not all recordings tell."""
        for has_shapes, awaited in ((lambda _rank: True, {1}), (lambda rank: rank % 2 == 0, set())):
            calls = [Call(lambda _rank, name=name: name, place=lambda _rank: "gloo", has_shapes=has_shapes, root=root)
                     for name, root in (("gloo:all_reduce", None), ("gloo:broadcast", 1))]
            rows = self.check_all_met(Job(calls, late_rank=1))
            self.assertEqual({row["args"]["waited for rank"] for row in rows if row["name"] == "broadcast" and "waited for rank" in row["args"]}, awaited)
            self.assertEqual({row["args"].get("waited for rank") for row in rows if row["name"] == "allreduce"}, {1, None})
            shutil.rmtree(self.folder / "in")

    def test_sizes_that_differ_are_not_taken_for_shapes_that_are_missing(self) -> None:
        summary, rows = self.merge(Job([Call(lambda _rank: "allreduce", dtype=lambda rank: "Half" if rank == 1 else "Float",
                                             has_shapes=lambda rank: rank != 0), Call(lambda _rank: "allreduce", group="1")]))
        self.assertEqual((summary["clock"]["collectives"], self.matched(rows)),
                         (2 * STEPS, {("allreduce", "0", 4, False, 2), ("allreduce", "1", 4, False, 2)}))


class PropertiesTest(UnlikeTest):
    def job(self) -> Job:
        return Job([Call(lambda _rank: "allreduce"), Call(lambda rank: "_allgather_base" if rank % 2 else "all_gather_into_tensor"),
                    Call(lambda _rank: "gloo:all_reduce", group="cpu", place=lambda _rank: "gloo", has_shapes=lambda rank: rank == 1),
                    Call(lambda rank: "broadcast" if rank == 3 else "allreduce", group="1")])

    def test_any_order_gives_the_same_bytes(self) -> None:
        files = self.job().write(self.folder / "in")
        for name in ("job.json", "job.pftrace"):
            made = set()
            for order in itertools.permutations(files):
                run("merge", *order, "-o", self.folder / name)
                made.add((self.folder / name).read_bytes())
                (self.folder / name).unlink()
            self.assertEqual(len(made), 1, name)

    def test_a_file_with_itself_is_refused(self) -> None:
        files = self.job().write(self.folder / "in")
        copy, link = self.folder / "copy.json", self.folder / "link.json"
        shutil.copy(files[0], copy)
        link.symlink_to(files[0])
        for other in (files[0], files[0].parent / "../in/rank0.json", copy, link):
            for more in ([], files[1:]):
                with self.subTest(other=other, more=len(more)):
                    done = run("merge", files[0], other, *more, "-o", self.folder / "job.json", code=10)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertRegex(done.stderr, "is given twice|are the same file|are both of rank 0, and of the same time")
                    self.assertFalse((self.folder / "job.json").exists())

    def test_ingest_align_and_report_twice(self) -> None:
        files = self.job().write(self.folder / "in")
        made = []
        for order in (files, files[::-1], [files[2], files[0], files[3], files[1]]):
            tables = self.folder / "tables"
            for file in order:
                run("fleet", "ingest", file, "-o", tables)
            run("fleet", "align", tables)
            answers = [run("fleet", "report", tables).stdout, run("fleet", "report", tables, "--json").stdout]
            made.append(answers + [(path.name, path.read_bytes()) for path in sorted(tables.rglob("*.parquet"))])
            shutil.rmtree(tables)
        for other in made[1:]:
            self.assertEqual(made[0], other)
        self.assertGreater(len(made[0]), 10)

    def test_tables_say_what_met(self) -> None:
        run("fleet", "ingest", *self.job().write(self.folder / "in"), "-o", self.folder / "tables")
        self.assertIn(f'Group "1": {DISAGREE}', run("fleet", "align", self.folder / "tables").stderr)
        rows = ask(self.folder / "tables", "SELECT group_name, op, ranks_seen, COUNT(*) AS n FROM collective_instances GROUP BY ALL")
        self.assertEqual({(row["group_name"], row["op"], row["ranks_seen"], row["n"]) for row in rows},
                         {("0", "allreduce", 4, STEPS), ("0", "allgather", 4, STEPS), ("cpu", "allreduce", 4, STEPS),
                          ("1", "allreduce", 3, STEPS), ("1", "broadcast", 1, STEPS)})
        rows = ask(self.folder / "tables", "incomplete_collectives")
        self.assertEqual({(row["op"], row["ranks_seen"], row["group_size"]) for row in rows}, {("allreduce", 3, 4), ("broadcast", 1, 4)})
        # Nobody is blamed for the collectives that the ranks disagree on.
        self.assertEqual([(row["rank"], row["times_last"]) for row in ask(self.folder / "tables", "late_ranks")], [(2, 3 * STEPS)])

    def test_reports_of_many_ranks_are_the_same_each_time(self) -> None:
        """Sums of doubles do not depend on how the engine shares out its work."""
        write_fleet(self.folder / "tables", Fleet(ranks=64, causes=(Cause(3, "operators", 20.0), Cause(13, "data", 30.0))))
        self.assertEqual(len({run("fleet", "report", self.folder / "tables", "--json").stdout for _ in range(4)}), 1)


class CohortsTest(UnlikeTest):
    def write(self, **options: Any) -> Path:
        write_fleet(self.folder / "tables", Fleet(**options))
        return self.folder / "tables"

    @staticmethod
    def change(path: Path, column: str, change: Callable[[pandas.DataFrame], Any]) -> None:
        table = pandas.read_parquet(path)
        table[column] = change(table)
        table.to_parquet(path)

    def change_all(self, folder: Path, name: str, column: str, change: Callable[[pandas.DataFrame], Any]) -> None:
        for path in (folder / name).rglob("*.parquet"):
            self.change(path, column, change)

    def cohorts(self, folder: Path) -> dict[int, int]:
        return {row["rank"]: row["cohort"] for row in ask(folder, "SELECT rank, cohort FROM cohorts")}

    def slow(self, folder: Path) -> list[tuple[int, str]]:
        return sorted((row["rank"], row["cause"]) for row in ask(folder, "verdict"))

    def test_gpus_are_compared_within_stage_and_kind(self) -> None:
        """Two stages, of which the second computes three times as long, and two kinds of GPU, of which one takes twice as long."""
        folder = self.write(ranks=16, stages=2, causes=(Cause(5, "gpu", 25.0),))
        aligned = folder / "aligned/captures.parquet"
        self.change(aligned, "gpu", lambda rows: ["H200" if rank % 2 else "A100" for rank in rows["rank"]])
        for column in ("median_ns", "total_ns"):
            self.change_all(folder, "kernels", column,
                            lambda rows, column=column: rows[column] * (1 if rows["rank"][0] % 2 else 2) * (3 if rows["rank"][0] >= 8 else 1))
        scores = {row["rank"]: row["gpu_score"] for row in ask(folder, "slow_gpus")}
        self.assertEqual(set(scores), set(range(16)))
        self.assertAlmostEqual(scores[5], 50 / 75, delta=0.02)
        for rank, score in scores.items():
            if rank != 5:
                self.assertAlmostEqual(score, 1.0, delta=0.02, msg=rank)
        self.assertEqual(self.slow(folder), [(5, "gpu")])
        self.assertEqual(self.cohorts(folder), {rank: rank % 2 + (8 if rank >= 8 else 0) for rank in range(16)})
        # Without steps the kind of the GPU is still told apart.
        (folder / "aligned/steps.parquet").unlink()
        for row in ask(folder, "slow_gpus"):
            self.assertTrue(row["rank"] < 8 or row["gpu_score"] > 0.6, row)

    def test_the_slowest_rank_of_a_step_is_of_those_that_are_alike(self) -> None:
        folder = self.write(ranks=16, stages=2, causes=(Cause(3, "operators", 20.0),))
        rows = ask(folder, "step_imbalance")
        self.assertEqual([(row["step"], row["cohort"], row["ranks"]) for row in rows], [(step, cohort, 8) for step in range(60) for cohort in (0, 8)])
        self.assertEqual({row["slowest_rank"] for row in rows if row["cohort"] == 0}, {3})
        for row in rows:
            self.assertAlmostEqual(row["lost_ns"] / MS, 20.0 if row["cohort"] == 0 else 2.0, delta=4.0, msg=row)

    def test_microbatches(self) -> None:
        """Stages that differ in nothing but the number of their messages."""
        folder = self.write(ranks=16, stages=2, causes=(Cause(3, "operators", 20.0),))
        path = folder / "aligned/collectives.parquet"
        self.change(path, "in_bytes", lambda rows: 25 << 20)
        self.assertEqual(set(self.cohorts(folder).values()), {0})  # nothing tells them apart
        rows = pandas.read_parquet(path)
        more = rows[(rows["is_p2p"] == 1) & (rows["rank"] >= 8)]
        pandas.concat([rows, more, more]).to_parquet(path)
        self.assertEqual(self.cohorts(folder), {rank: 0 if rank < 8 else 8 for rank in range(16)})
        self.assertEqual(self.slow(folder), [(3, "operators")])

    def test_graphs_on_half_of_the_ranks(self) -> None:
        """Ranks whose collectives are in graphs have none in the tables: they are compared with each other."""
        folder = self.write(ranks=8, causes=(Cause(3, "operators", 20.0), Cause(4, "data", 30.0)))
        path = folder / "aligned/collectives.parquet"
        rows = pandas.read_parquet(path)
        rows[rows["rank"] % 2 == 0].to_parquet(path)
        self.assertEqual(self.cohorts(folder), {rank: rank % 2 for rank in range(8)})
        self.assertEqual(self.slow(folder), [(3, "operators"), (4, "data")])
        # All others wait for the slow ranks, but who has come last of all was not seen.
        self.assertEqual({row["sure"] for row in ask(folder, "verdict")}, {"likely"})
        self.assertEqual([(row["ranks_seen"], row["group_size"]) for row in ask(folder, "incomplete_collectives")], [(4, 8)])

    def test_shapes_on_half_of_the_ranks(self) -> None:
        folder = self.write(causes=(Cause(1, "python", 30.0),))
        path = folder / "aligned/collectives.parquet"
        self.change(path, "in_bytes", lambda rows: rows["in_bytes"].where(rows["rank"] > 1))
        self.assertEqual(self.cohorts(folder), dict.fromkeys(range(4), 0))
        self.assertEqual(self.slow(folder), [(1, "python")])
        # With two sizes nothing says which of them a rank without sizes has.
        self.change(path, "in_bytes", lambda rows: (rows["rank"] * 1024).where(rows["rank"] > 1))
        self.assertEqual(self.cohorts(folder), {0: 0, 1: 0, 2: 2, 3: 3})
        self.assertEqual(self.slow(folder), [])

    def test_a_rank_whose_gpu_has_no_name(self) -> None:
        folder = self.write(causes=(Cause(1, "python", 30.0),))
        captures, steps = folder / "aligned/captures.parquet", folder / "aligned/steps.parquet"
        self.change(captures, "gpu", lambda rows: rows["gpu"].where(rows["rank"] != 3, ""))
        self.assertEqual(self.cohorts(folder), dict.fromkeys(range(4), 0))
        self.assertEqual(self.slow(folder), [(1, "python")])
        # One that computes on no GPU is not like the others.
        self.change(steps, "gpu_compute_ns", lambda rows: rows["gpu_compute_ns"].where(rows["rank"] != 3, 0))
        self.assertEqual(self.cohorts(folder), {0: 0, 1: 0, 2: 0, 3: 3})

    def test_types_of_elements(self) -> None:
        """Half of the ranks reduce in 16 bits, in a group of their own: they are compared with each other."""
        folder = self.write(ranks=8, groups=(1.0, 1.0), causes=(Cause(6, "io", 25.0),))
        path = folder / "aligned/collectives.parquet"
        self.change(path, "dtype", lambda rows: ["Float" if rank < 4 else "BFloat16" for rank in rows["rank"]])
        self.change(path, "in_bytes", lambda rows: rows["in_bytes"] // (1 + (rows["rank"] >= 4)))
        self.assertEqual(self.cohorts(folder), {rank: 0 if rank < 4 else 4 for rank in range(8)})
        self.assertEqual(self.slow(folder), [(6, "io")])
        self.assertEqual(ask(folder, "slow_groups"), [])

    def test_demoted_operators(self) -> None:
        """Rank 5 counts its operators only: their time counts as Python's. It is not slow, and rank 3 is."""
        folder = self.write(ranks=8, causes=(Cause(3, "operators", 20.0),))
        steps = folder / "aligned/steps.parquet"
        moved = 40 * MS
        for column, sign in (("why_operators_ns", -1), ("why_python_ns", 1)):
            self.change(steps, column, lambda rows, column=column, sign=sign: rows[column] + sign * moved * (rows["rank"] == 5))
        for path in (folder / "operators").rglob("*.parquet"):
            rows = pandas.read_parquet(path)
            if rows["rank"][0] == 5:
                rows[rows["name"] != "aten::mm"].to_parquet(path)
        self.assertEqual(self.slow(folder), [(3, "operators")])
        self.assertEqual(ask(folder, "verdict")[0]["operator"], "aten::mm")
        first = ask(folder, "operator_outliers")[0]
        self.assertEqual((first["rank"], first["name"]), (3, "aten::mm"))
        self.assertNotIn("Rank 5", run("fleet", "report", folder).stdout)

    def test_operators_of_two_versions_of_torch(self) -> None:
        """Names that only one version has are compared with nobody's, and a slow rank is found by the parts of its time."""
        folder = self.write(ranks=8, causes=(Cause(3, "operators", 20.0),))
        self.change_all(folder, "operators", "name",
                        lambda rows: rows["name"].replace("aten::relu_", "aten::_new_relu_" if rows["rank"][0] == 7 else "aten::relu_"))
        self.assertEqual(self.slow(folder), [(3, "operators")])
        self.assertEqual({row["rank"] for row in ask(folder, "operator_outliers") if row["name"] == "aten::_new_relu_"}, set())

    def test_a_rank_with_another_profiler_is_counted_once(self) -> None:
        folder = self.write(ranks=8, causes=(Cause(3, "operators", 20.0), Cause(6, "gpu", 25.0)))
        names = ("slow_gpus", "operator_outliers", "verdict", "cohorts", "step_imbalance")

        def answers() -> dict[str, list[str]]:
            return {name: sorted(str([f"{value:.6g}" if isinstance(value, float) else value for value in row.values()])
                                 for row in ask(folder, name)) for name in names}
        before = answers()
        captures = folder / "aligned/captures.parquet"
        rows = pandas.read_parquet(captures)
        other = rows[rows["rank"] == 2].assign(input="f" * 16, source="torch.profiler", is_main=0, gpu=None, torch_version=None)
        pandas.concat([rows, other]).to_parquet(captures)
        for name in ("operators", "kernels"):
            path, = [path for path in (folder / name).rglob("*.parquet") if path.stem == f"{2:016x}"]
            pandas.read_parquet(path).assign(input="f" * 16).to_parquet(path.with_name("f" * 16 + ".parquet"))
        self.assertEqual(answers(), before)
        self.assertEqual([(row["inputs"], row["ranks_seen"]) for row in ask(folder, "coverage")], [(9, 8)])
        self.assertEqual(self.slow(folder), [(3, "operators"), (6, "gpu")])

    def test_idle_gpus_are_compared_within_a_stage(self) -> None:
        folder = self.write(ranks=8, stages=2)
        for rank in range(8):
            place = folder / f"gpu_idle/of_job=job-1/of_attempt=0/of_host=host-000/of_rank={rank}"
            place.mkdir(parents=True)
            ns = (1 if rank < 4 else 9) * 10 * MS + (30 * MS if rank == 2 else 0)
            pyarrow.parquet.write_table(pyarrow.table({"job": ["job-1"], "attempt": [0], "host": ["host-000"], "rank": [rank],
                                                       "input": [f"{rank:016x}"], "main_cause": ["python"], "duration_ns": [ns]}),
                                        place / f"{rank:016x}.parquet")
        rows = ask(folder, "gpu_idle_causes")
        self.assertEqual({row["rank"]: row["excess_ns"] for row in rows}, {rank: 30 * MS if rank == 2 else 0 for rank in range(8)})


if __name__ == "__main__":
    PROGRAM = Path(sys.argv.pop(1)).resolve()
    unittest.main()

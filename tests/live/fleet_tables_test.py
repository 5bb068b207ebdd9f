#!/usr/bin/env python3
"""The tables of a real gloo job of two ranks, against torch.profiler's own trace of the same run. PROFTRACE_PARQUET_PYTHON names a
Python that has pyarrow."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import live
from live import LiveTest
from merge_test import LATE_RANK, STEPS, absolute_ns, job_command, job_environment, read

READER = os.environ.get("PROFTRACE_PARQUET_PYTHON") or (sys.executable if importlib.util.find_spec("pyarrow") else "")
AS_JSON = "import json, sys, pyarrow.parquet as p\nprint(json.dumps([row for path in sys.argv[1:] for row in p.ParquetFile(path).read().to_pylist()]))"
OPS = {"gloo:all_reduce": "allreduce", "gloo:broadcast": "broadcast", "gloo:barrier": "barrier"}
NEAR_NS = 1_000_000  # what lies between the probe and the profiler's own look at the clock, where the thread is not preempted there


class FleetTablesTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        if not READER:
            self.skipTest("no Python with pyarrow (PROFTRACE_PARQUET_PYTHON)")
        if subprocess.run([self.python, "-c", "import sys, torch; sys.exit(torch.__version__.startswith('1.'))"]).returncode != 0:
            self.skipTest("the torchrun of torch 1.13 does not run here")

    def rows(self, folder: Path, pattern: str) -> list[dict]:
        paths = sorted(map(str, folder.glob(pattern)))
        self.assertNotEqual(paths, [])
        return json.loads(subprocess.run([READER, "-c", AS_JSON, *paths], check=True, capture_output=True, text=True, timeout=60).stdout)

    def run_fleet(self, *arguments: object) -> str:
        done = subprocess.run([live.BINARY, "fleet", *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def record(self) -> Path:
        """A result directory; torch.profiler's traces are beside it."""
        (self.directory / "wait").touch()
        job = subprocess.Popen(job_command(self.directory, 2), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=job_environment())
        try:
            live.wait_until(lambda: len(list(self.directory.glob("ready?.*"))) == 2, 60, "two ranks")
            pids = [path.suffix[1:] for path in self.directory.glob("ready?.*")]
            with live.Tracer("-p", pids[0], "-p", pids[1], "--activities", "cpu,sched", "--record-shapes", "--profile-memory",
                             "--format", "parquet", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                (self.directory / "go").touch()
                self.assertEqual(tracer.wait(), 0)  # with the job
            self.assertEqual(job.wait(60), 0)
        finally:
            job.kill()
            job.wait()
        return self.out

    def test_collectives_and_steps_are_those_of_torch_profiler(self) -> None:
        result = self.record()
        fleet = self.directory / "fleet"
        self.run_fleet("ingest", result, "-o", fleet)
        said = json.loads(self.run_fleet("align", fleet, "--json"))
        self.assertEqual(said["jobs"][0]["clock"]["line"], "Clocks: 1 host, one clock: exact")
        ours = self.rows(fleet, "aligned/collectives.parquet")
        self.check_collectives(ours)
        self.check_same_in_export(result, ours)
        self.check_steps(fleet)
        self.check_other_tables(fleet)
        # torch.profiler's files say the same of the collectives, by the same rule.
        theirs_at = self.directory / "theirs"
        self.run_fleet("ingest", self.directory / "rank0.json", self.directory / "rank1.json", "-o", theirs_at)
        self.run_fleet("align", theirs_at)
        theirs = self.rows(theirs_at, "aligned/collectives.parquet")
        self.assertEqual(len(theirs), 2 * 3 * STEPS)
        self.assertEqual({row["group_key"] for row in theirs}, {row["group_key"] for row in ours})
        # Both together are one process each.
        self.run_fleet("ingest", self.directory / "rank0.json", self.directory / "rank1.json", "-o", fleet)
        self.run_fleet("align", fleet)
        captures = self.rows(fleet, "aligned/captures.parquet")
        self.assertEqual(sorted((row["rank"], row["source"], row["is_main"]) for row in captures),
                         [(0, "proftrace", 1), (0, "torch.profiler", 0), (1, "proftrace", 1), (1, "torch.profiler", 0)])
        self.assertEqual(len(self.rows(fleet, "aligned/collectives.parquet")), len(ours))

    def check_collectives(self, ours: list[dict]) -> None:
        for rank in range(2):
            trace = read(self.directory / f"rank{rank}.json")
            wanted = sorted((absolute_ns(trace, event), event) for event in trace["traceEvents"] if event["name"] in OPS and "dur" in event)
            self.assertEqual(len(wanted), 3 * STEPS)
            found = sorted((row["begin_ns"], row["seq"], row) for row in ours if row["rank"] == rank)
            # Before and behind what torch.profiler looked at are barriers.
            inner = [row for _, _, row in found if row["op"] != "barrier"]
            self.assertEqual(len(inner), 3 * STEPS)
            distances = []
            for row, (begin_ns, event) in zip(inner, wanted, strict=True):
                self.assertEqual((row["op"], row["dtype"], row["source"], row["is_p2p"], row["group_size"], row["members"], row["match"]),
                                 (OPS[event["name"]], "Float", "gloo", 0, 2, "0,1", "seq"))
                dims = json.loads(json.dumps(event["args"]["Input Dims"], default=int))
                while isinstance(dims[0], list):
                    dims = dims[0]
                self.assertEqual(row["in_bytes"], 4 * dims[0])
                distances += [abs(row["begin_ns"] - begin_ns), abs(row["end_ns"] - begin_ns - int(event["dur"] * 1000))]
            self.assertLess(sorted(distances)[len(distances) * 9 // 10], NEAR_NS)
        both: dict[tuple, list[dict]] = {}
        for row in ours:
            both.setdefault((row["group_key"], row["seq"], row["op"]), []).append(row)
        self.assertTrue(all(sorted(row["rank"] for row in rows) == [0, 1] for rows in both.values()))
        last = [max(rows, key=lambda row: row["begin_ns"])["rank"] for rows in both.values()
                if max(row["begin_ns"] for row in rows) - min(row["begin_ns"] for row in rows) > 8_000_000]
        self.assertGreater(len(last), STEPS // 2)
        self.assertGreater(last.count(LATE_RANK), 0.9 * len(last))

    def check_same_in_export(self, result: Path, ours: list[dict]) -> None:
        def facts(row: dict) -> tuple:
            return row["rank"], row["op"], row["in_bytes"], row["begin_ns"], row["end_ns"], row["group_key"]

        exported = self.rows(result, "parquet/collectives.parquet")
        apart = {a[3] - b[3] for a, b in zip(sorted(map(facts, exported)), sorted(map(facts, ours)), strict=True)}
        self.assertLess(max(apart) - min(apart), 1_000)  # one boot: one offset
        self.assertEqual([facts(row)[:3] for row in sorted(exported, key=facts)], [facts(row)[:3] for row in sorted(ours, key=facts)])

    def check_steps(self, fleet: Path) -> None:
        steps = [row for row in self.rows(fleet, "aligned/steps.parquet") if row["is_main"]]
        self.assertEqual({row["rank"] for row in steps}, {0, 1})
        for row in steps:
            self.assertEqual(sum(row[name] for name in row if name.startswith("why_")), row["duration_ns"])
            self.assertEqual(row["comm_overlap_ns"] + row["comm_exposed_ns"], row["comm_ns"])
            self.assertEqual(row["end_ns"] - row["start_ns"], row["duration_ns"])
            self.assertIsNone(row["gpu_busy_ns"])
            self.assertEqual(row["bound_ns"], 0)
            self.assertIsNotNone(row["mem_peak_bytes"])
        by_rank = {rank: [row for row in steps if row["rank"] == rank] for rank in range(2)}
        self.assertGreaterEqual(min(map(len, by_rank.values())), STEPS - 2)
        # The late rank is awaited by the other one; its own time is longer, though their steps are equal.
        own = {rank: sorted(row["duration_ns"] - row["comm_exposed_ns"] for row in rows)[len(rows) // 2] for rank, rows in by_rank.items()}
        self.assertGreater(own[LATE_RANK], own[1 - LATE_RANK] + 6_000_000)
        common = set.intersection(*({row["step"] for row in rows} for rows in by_rank.values()))
        self.assertGreaterEqual(len(common), STEPS - 3)
        start = {(row["rank"], row["step"]): row["start_ns"] for row in steps}
        apart = sorted(start[1, step] - start[0, step] for step in common)
        # The first one begins whenever each rank gets to it.
        self.assertLessEqual(sum(abs(ns) > 10_000_000 for ns in apart), 2, apart)

    def check_other_tables(self, fleet: Path) -> None:
        calls = {(row["rank"], row["name"]): row["calls"] for row in self.rows(fleet, "operators/**/*.parquet")}
        self.assertEqual((calls[0, "aten::mm"], calls[1, "aten::mm"]), (STEPS, STEPS))
        memory = self.rows(fleet, "memory/**/*.parquet")
        self.assertEqual({row["device"] for row in memory}, {"cpu"})
        for row in memory:
            self.assertEqual(row["end_bytes"] - row["begin_bytes"], row["allocated_bytes"] - row["freed_bytes"])
            self.assertGreaterEqual(row["peak_bytes"], max(row["begin_bytes"], row["end_bytes"]))
        whole = {row["rank"]: row for row in memory if row["step"] is None}
        for rank, of in whole.items():
            inside = [row for row in memory if row["rank"] == rank and row["step"] is not None]
            self.assertEqual(of["peak_bytes"] >= max(row["peak_bytes"] for row in inside), True)
        self.assertEqual(self.rows(fleet, "kernels/**/*.parquet"), [])


if __name__ == "__main__":
    live.run()

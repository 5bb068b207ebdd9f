#!/usr/bin/env python3
"""Ranks and process groups of gloo jobs, read from outside."""

from __future__ import annotations

import collections
import contextlib
import gzip
import json
import os
import re
import socket
import subprocess
import unittest
from pathlib import Path
from typing import Callable

import live
from live import HERE, LiveTest, Result, Tracer
from process import LineReader

SCRIPT = HERE / "ranks_job.py"
SIZE = 2
ROUNDS = 20  # of ranks_job.py
os.environ["USE_LIBUV"] = "0"  # not all are made with it


class Rank:
    def __init__(self, meeting: Path, rank: int) -> None:
        environment = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
        self.process = subprocess.Popen([LiveTest.python, str(SCRIPT), str(meeting), str(rank), str(SIZE)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.lines = LineReader(self.process.stdout)
        self.pid = self.process.pid

    def __enter__(self) -> "Rank":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.close()
        self.process.stdin.close()

    def says(self) -> dict[str, object]:
        return json.loads(self.lines.wait(r"^SAYS (.*)", live.START_S).group(1))


class LaunchedRanks(LiveTest):
    """Checks of ranks that a launcher has started, for whoever records them."""

    def trace(self, path: Path) -> dict[str, object]:
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            return json.load(stream)

    def launcher(self) -> list[str]:
        """torchrun; that of 1.13 does not run with Python 3.11, nor do the distributions' that need libuv, which they are
        made without: there what it would do."""
        store = "import torch; print(torch.__version__); torch.distributed.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)"
        made = subprocess.run([LiveTest.python, "-c", store], capture_output=True, text=True)
        if made.returncode == 0 and not made.stdout.startswith("1."):
            # By address: a container's own name need not lead anywhere.
            return [LiveTest.python, "-m", "torch.distributed.run", "--nproc_per_node", str(SIZE), "--standalone",
                    "--local_addr", "127.0.0.1", str(SCRIPT)]
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        program = ("import os, subprocess, sys, torch\n"
                   f"shared = dict(os.environ, WORLD_SIZE='{SIZE}', MASTER_ADDR='127.0.0.1', MASTER_PORT='{port}')\n"
                   "ranks = [subprocess.Popen([sys.executable, sys.argv[1]], env=dict(shared, RANK=str(rank)))"
                   f" for rank in range({SIZE})]\n"
                   "sys.exit(any([rank.wait() for rank in ranks]))\n")
        return [LiveTest.python, "-c", program, str(SCRIPT)]

    def check_launched(self, options_for: Callable[[int], tuple[object, ...]]) -> None:
        """`options_for(pid of the launcher)`: what is recorded."""
        go = self.directory / "go"
        environment = dict(os.environ, PROFTRACE_RANKS_GO=str(go), GLOO_SOCKET_IFNAME="lo")
        launched = subprocess.Popen(self.launcher(), stdout=subprocess.PIPE, env=environment)
        lines = LineReader(launched.stdout)
        try:
            ready = [int(lines.wait(r"^READY (\d+)", 2 * live.START_S).group(1)) for _ in range(SIZE)]
            live.wait_until(lambda: self.says(lines).keys() == set(range(SIZE)), live.START_S, "all groups")
            options = options_for(launched.pid)
            with Tracer(*options, "-o", self.out, "--format", "chrome,events-csv") as tracer:
                tracer.wait_until_recording()
                # The ranks were there: their probes are in before the recording begins.
                if "-a" not in options:
                    self.assertTrue(tracer.lines.has(rf"recording PID {launched.pid}\b.* and {SIZE} children\b"), tracer.text())
                go.touch()
                self.assertEqual(launched.wait(live.WORK_S), 0)
                self.assertEqual(tracer.stop() if "-a" in options else tracer.wait(), 0, tracer.text())
        finally:
            launched.kill()
            launched.wait()
            lines.close()
        self.check_ranks(Result(self.out), set(ready), self.says(lines))

    def says(self, lines: LineReader) -> dict[int, dict[str, object]]:
        lines.has("")  # takes what has come
        said = [json.loads(line.split(maxsplit=1)[1]) for line in lines.seen if line.startswith("SAYS ")]
        return {one["rank"]: one for one in said}

    def check_ranks(self, result: Result, pids: set[int], says: dict[int, dict[str, object]]) -> None:
        self.assert_identities(result.ledger)
        # The launcher has no group, and each rank's were found: nothing is missing.
        self.assertNotIn("process groups", [gap["feature"] for gap in result.summary["unsupported"]])
        targets = {target["rank"]: target for target in result.summary["target"] if target["pid"] in pids}
        self.assertEqual(set(targets), set(range(SIZE)), result.summary["target"])
        rows = list(result.events())
        for rank, target in targets.items():
            own = [row for row in rows if row["pid"] == str(target["pid"])]
            counts = collections.Counter(row["path"] for row in own)
            self.assertEqual((counts["work"], counts["work/aten::mm"]), (ROUNDS, ROUNDS), counts)
            node = "work/autograd::engine::evaluate_function: MmBackward0/MmBackward0"
            self.assertEqual(counts[node], ROUNDS, counts)
            forwards = [row["sequence_nr"] for row in own if row["path"] == "work/aten::mm"]
            self.assertEqual([row["sequence_nr"] for row in own if row["path"] == node], forwards)
            self.assertEqual(len(set(forwards)), ROUNDS)
            path = self.out / f"trace_rank{rank}.json.gz"
            with gzip.open(path, "rt", encoding="utf-8") as stream:
                text = stream.read()
            # How HolisticTraceAnalysis finds a file's rank.
            self.assertEqual([int(number) for number in re.findall(r'"rank":\s+(\d+)', text)], [rank])
            trace = json.loads(text)
            told = trace["distributedInfo"]
            self.assertEqual((told["rank"], told["world_size"]), (rank, SIZE))
            if "pg_config" in says[rank]:
                self.assertEqual([group["pg_name"] for group in told["pg_config"]],
                                 [group["pg_name"] for group in says[rank]["pg_config"]])
                self.assertEqual(counts["work/c10d::allreduce_"], ROUNDS, counts)
            arrows = [event for event in trace["traceEvents"] if event.get("cat") == "fwdbwd"]
            self.assertGreaterEqual(len(arrows), 2 * ROUNDS)
            self.assertEqual({event["pid"] for event in arrows}, {target["pid"]})


class RanksTest(LaunchedRanks):
    def test_rank_and_groups_of_a_job_without_environment_are_what_torch_says(self) -> None:
        with contextlib.ExitStack() as stack:
            ranks = [stack.enter_context(Rank(self.directory / "meeting", rank)) for rank in range(SIZE)]
            says = [rank.says() for rank in ranks]
            for number, (rank, truth) in enumerate(zip(ranks, says)):
                out = self.directory / f"rank{number}"
                done = self.run_proftrace("-p", rank.pid, "-d", "300ms", "-o", out, "--format", "chrome")
                self.assertEqual(done.returncode, 0, done.stderr)
                target = Result(out).summary["target"][0]
                self.assertEqual((target["rank"], target["world_size"]), (number, SIZE))
                groups = target["process_groups"]
                told = self.trace(out / "trace.json.gz")["distributedInfo"]
                self.assertEqual((told["rank"], told["world_size"]), (truth["rank"], truth["world_size"]))
                if groups[0]["backend"] is not None:  # from 2.5 on, and in 1.13
                    self.assertEqual(told["backend"], truth["backend"])
                # Each is in the group of all and in one of its own.
                self.assertIn((number, SIZE), [(group["rank"], group["size"]) for group in groups])
                self.assertIn((0, 1), [(group["rank"], group["size"]) for group in groups])
                if "pg_config" not in truth:  # before 2.4
                    continue
                self.assertEqual(told, truth)
                self.assertEqual(target["process_group_count"], truth["pg_count"])
                self.assertEqual([group["ranks"] for group in groups], [group["ranks"] for group in truth["pg_config"]])
            ranks[0].process.stdin.write(b"\n")
            ranks[0].process.stdin.flush()
            for rank in ranks:
                self.assertEqual(rank.process.wait(live.STOP_S), 0)

    def test_ranks_of_a_launcher_that_runs_are_recorded_with_it(self) -> None:
        self.check_launched(lambda pid: ("-p", pid))

    def test_ranks_that_torchrun_starts_are_recorded_with_their_rank(self) -> None:
        # Four imports of torch, two at a time.
        done = subprocess.run([str(live.BINARY), "-o", str(self.out), "--format", "chrome,events-csv", "--", *self.launcher()],
                              capture_output=True, text=True, timeout=4 * live.START_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        pids = sorted(int(pid) for pid in re.findall(r"READY (\d+)", done.stdout))
        self.assertEqual(len(pids), SIZE, done.stdout)
        result = Result(self.out)
        self.assert_identities(result.ledger)
        targets = {target["pid"]: target for target in result.summary["target"]}
        ranked = {target["rank"]: pid for pid, target in targets.items() if pid in pids}
        self.assertEqual(set(ranked), set(range(SIZE)))
        self.assertEqual({targets[pid]["world_size"] for pid in pids}, {SIZE})
        for rank, pid in ranked.items():
            trace = self.trace(self.out / f"trace_rank{rank}.json.gz")
            self.assertEqual(trace["distributedInfo"]["rank"], rank)
            self.assertEqual({event["pid"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"}, {pid})
        products = [row["pid"] for row in result.events() if row["name"] == "aten::mm"]
        self.assertEqual(set(products), {str(pid) for pid in pids})


if __name__ == "__main__":
    live.run()

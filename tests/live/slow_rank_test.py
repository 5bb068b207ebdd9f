#!/usr/bin/env python3
"""Real gloo jobs of four ranks with a planted cause: recorded, ingested, aligned, and the rank that `proftrace fleet report` names. Needs
DuckDB: PROFTRACE_DUCKDB, or where proftrace finds it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import live
from live import HERE, LiveTest

RANKS = 4
SCRIPT = HERE / "slow_rank_job.py"


class SlowRankTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.out.parent / "job"
        self.folder.mkdir()
        self.addCleanup(shutil.rmtree, self.folder)

    def fleet(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([live.BINARY, "fleet", *map(str, arguments)], capture_output=True, text=True, timeout=200, check=False)
        if done.returncode == 6 and "DuckDB" in done.stderr + done.stdout:
            self.skipTest("DuckDB is not there: scripts/install-deps.sh --fleet")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done

    def ranks(self, cause: str) -> list[subprocess.Popen[bytes]]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        common = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS), USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo")
        return [subprocess.Popen([self.python, SCRIPT, self.folder, cause], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                for rank in range(RANKS)]

    def report(self, cause: str, seen: tuple[int, ...] = tuple(range(RANKS))) -> dict[str, Any]:
        ranks = self.ranks(cause)
        try:
            live.wait_until(lambda: len(list(self.folder.glob("ready*"))) == RANKS, live.START_S, "all ranks take steps")
            pids = {int(path.name[5]): path.suffix[1:] for path in self.folder.glob("ready*")}
            chosen = [word for rank in seen for word in ("-p", pids[rank])]
            made = self.run_proftrace(*chosen, "-d", "8s", "--activities", "cpu,sched,syscalls", "--no-follow-children", "--format", "none",
                                      "-o", self.out)
            self.assertEqual(made.returncode, 0, made.stderr)
        finally:
            Path(self.folder / "stop").touch()
            for rank in ranks:
                rank.wait(timeout=60)
        tables = self.folder / "tables"
        self.fleet("ingest", self.out, "-o", tables)
        self.fleet("align", tables)
        report = json.loads(self.fleet("report", tables, "--json").stdout)
        self.assertEqual(report["answers"]["coverage"][0]["ranks_seen"], len(seen))
        return report

    def test_work_in_the_backward_pass(self) -> None:
        report = self.report("busy")
        verdict, = report["answers"]["verdict"]
        self.assertEqual((verdict["rank"], verdict["sure"]), (1, "sure"), report["sentences"])
        # On a busy machine such a rank waits for a CPU, too.
        self.assertIn(verdict["cause"], ("operators", "python", "run queue"))
        self.assertIn("AddmmBackward", verdict["operator"])
        steps = report["answers"]["step_times"]
        self.assertLess(max(row["median_ns"] for row in steps) / min(row["median_ns"] for row in steps), 1.1)

    def test_a_loader_that_sleeps(self) -> None:
        report = self.report("loader")
        verdict, = report["answers"]["verdict"]
        self.assertEqual((verdict["rank"], verdict["cause"], verdict["sure"]), (2, "data", "sure"), report["sentences"])

    def test_competing_processes(self) -> None:
        report = self.report("competing")
        verdict, = report["answers"]["verdict"]
        self.assertEqual((verdict["rank"], verdict["cause"], verdict["sure"]), (3, "run queue", "sure"), report["sentences"])
        self.assertGreater(verdict["coverage"], 0.5)

    def test_a_slow_file(self) -> None:
        report = self.report("file")
        verdict, = report["answers"]["verdict"]
        self.assertEqual((verdict["rank"], verdict["cause"], verdict["sure"]), (0, "io", "sure"), report["sentences"])
        self.assertGreater(verdict["coverage"], 0.5)
        self.assertTrue(verdict["file"].endswith("/checkpoint"), verdict)

    def test_two_of_four_ranks_are_too_few(self) -> None:
        report = self.report("busy", seen=(0, 1))
        self.assertEqual(report["answers"]["verdict"], [])
        self.assertIn("2 of 4 ranks were seen: too few", report["sentences"][0])


if __name__ == "__main__":
    live.run()

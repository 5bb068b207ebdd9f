#!/usr/bin/env python3
"""`record --flight-recorder --fleet DIR` on real gloo jobs of four ranks, and `fleet watch DIR`. Needs DuckDB: PROFTRACE_DUCKDB, or where
proftrace finds it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import live
from live import HERE, LiveTest, Tracer

RANKS, PERIOD_S = 4, 6
SCRIPT = HERE / "slow_rank_job.py"


class FleetWatchTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.out.parent / "job"
        self.folder.mkdir()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tables = self.folder / "tables"

    def fleet(self, *arguments: object, code: int = 0) -> str:
        done = subprocess.run([live.BINARY, "fleet", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 6 and "DuckDB" in done.stderr + done.stdout:
            self.skipTest("DuckDB is not there: scripts/install-deps.sh --fleet")
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done.stdout if code == 0 else done.stderr

    def rows(self, question: str) -> list[dict[str, Any]]:
        return list(json.loads(self.fleet("query", self.tables, question, "--json"))["rows"])

    def start(self, cause: str) -> list[int]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        common = dict(os.environ, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE=str(RANKS), USE_LIBUV="0", GLOO_SOCKET_IFNAME="lo")
        ranks = [subprocess.Popen([self.python, SCRIPT, self.folder, cause], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
                 for rank in range(RANKS)]

        def end() -> None:
            Path(self.folder / "stop").touch()
            for rank in ranks:
                rank.wait(timeout=60)
        self.addCleanup(end)
        live.wait_until(lambda: len(list(self.folder.glob("ready*"))) == RANKS, live.START_S, "all ranks take steps")
        return [rank.pid for rank in ranks]

    def tracer(self, pids: list[int], name: str = "result", **options: Any) -> Tracer:
        chosen = [word for pid in pids for word in ("-p", pid)]
        return Tracer("record", *chosen, "-o", self.folder / name, "--activities", "cpu,sched,syscalls", "--no-follow-children", "--format", "none",
                      "--flight-recorder", f"{PERIOD_S}s", "--fleet", self.tables, "--fleet-every", f"{PERIOD_S}s", **options)

    def summaries(self) -> list[Path]:
        return list(self.tables.glob("inputs/*.json"))

    def wait_for(self, count: int, tracer: Tracer) -> None:
        live.wait_until(lambda: len(self.summaries()) >= count, 3 * live.WORK_S, f"{count} summaries; {tracer.lines.seen[-3:]}")

    def test_a_slow_rank_is_told_of_and_then_a_silent_one(self) -> None:
        pids = self.start("busy")
        with self.tracer(pids[:3], "most") as most, self.tracer(pids[3:], "last") as last:
            most.wait_until_recording()
            last.wait_until_recording()
            self.wait_for(4 * RANKS, most)
            self.assertEqual(last.stop(), 0, last.text())
            events = [json.loads(line) for line in self.fleet("watch", self.tables, "--once", "--json", "--silent-after", "60s").splitlines()]
            by_kind = {event["event"]: event for event in events}
            self.assertEqual((by_kind["coverage"]["ranks_seen"], by_kind["coverage"]["world_size"]), (RANKS, RANKS), events)
            self.assertEqual([event["rank"] for event in events if event["event"] == "slow"], [1], events)
            self.assertIn(by_kind["slow"]["cause"], ("operators", "python", "run queue"))
            self.assertNotIn("silent", by_kind)
            # A watch that goes on tells of what is new alone.
            watch = subprocess.Popen([live.BINARY, "fleet", "watch", self.tables, "--every", "1s", "--silent-after", f"{2 * PERIOD_S}s"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.wait_for(len(self.summaries()) + 9, most)
            time.sleep(PERIOD_S)
            watch.send_signal(signal.SIGINT)
            told, errors = watch.communicate(timeout=60)
            self.assertEqual(watch.returncode, 0, errors)
            # A busy machine may not be done with a window in time, which is said.
            code = most.stop()
            self.assertTrue(code == 0 or (code == 7 and "was not done yet" in most.text()), most.text())
        self.assertEqual(len(re.findall(r"Rank 3 \(\S+\) is silent", told)), 1, told)
        self.assertEqual(len(re.findall(r"Rank 1 \(\S+\) is slow", told)), 1, told)
        self.check_series()

    def check_series(self) -> None:
        """The windows of a process are one recording: a step is there once, and is one number for all ranks."""
        self.fleet("align", self.tables)
        captures = self.rows("SELECT rank, input, is_main FROM captures WHERE rank IS NOT NULL")
        self.assertEqual(sorted(row["rank"] for row in captures), list(range(RANKS)))
        self.assertEqual(self.rows("SELECT remarks FROM captures WHERE remarks LIKE '%left out%'"), [])
        twice = self.rows("SELECT rank, step FROM own_time GROUP BY rank, step HAVING COUNT(*) > 1")
        self.assertEqual(twice, [])
        # What the ranks do together falls into one step, but for what is at the edges of windows.
        split, = self.rows("SELECT COUNT(*) AS n, SUM(CASE WHEN a <> b THEN 1 ELSE 0 END) AS split FROM (SELECT MIN(step) AS a, MAX(step) AS b "
                           "FROM collectives WHERE step IS NOT NULL AND match <> 'none' GROUP BY group_key, seq, op HAVING COUNT(*) > 2)")
        self.assertGreater(split["n"], 20)
        self.assertLess(split["split"], split["n"] / 10)
        # The other tables are of the same inputs.
        self.assertEqual(len(self.rows("SELECT DISTINCT o.rank FROM operators o JOIN captures k ON k.input = o.input AND k.is_main = 1")), RANKS)

    def test_two_recorders_of_one_job_count_once(self) -> None:
        pids = self.start("nothing")
        with self.tracer(pids, "one") as one, self.tracer(pids, "two") as two:
            one.wait_until_recording()
            two.wait_until_recording()
            self.wait_for(3 * RANKS, one)
            self.assertEqual((one.stop(), two.stop()), (0, 0), one.text() + two.text())
        self.assertIn("another proftrace has summarised that time", one.text() + two.text())
        self.check_series()

    def test_a_killed_recorder_leaves_whole_summaries(self) -> None:
        pids = self.start("nothing")
        with self.tracer(pids) as tracer:
            tracer.wait_until_recording()
            self.wait_for(RANKS, tracer)
            deadline = time.time() + 3 * live.WORK_S
            while not list(self.tables.glob("inputs/*.pending")) and time.time() < deadline:
                pass  # in the middle of one
            tracer.process.kill()
        self.fleet("align", self.tables)
        self.assertEqual(list(self.tables.glob("inputs/*.pending")), [])
        self.assertEqual(len({row["rank"] for row in self.rows("SELECT rank FROM captures")}), RANKS)

    def test_a_full_disk_does_not_end_the_recording(self) -> None:
        pids = self.start("nothing")
        self.tables.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", self.tables], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.tables], check=True)
        with self.tracer(pids) as tracer:
            tracer.wait_until_recording()
            tracer.lines.wait("a summary was not written into .*, the recording goes on: .*No space left", 3 * live.WORK_S)
            time.sleep(2 * PERIOD_S)
            self.assertIsNone(tracer.process.poll())
            self.assertEqual(tracer.stop(), 7, tracer.text())
        self.assertEqual(len(re.findall("No space left", tracer.text())), 1, tracer.text())
        self.assertTrue((self.folder / "result/dump_0/capture.ptrec").exists())

    def test_directories_of_others_are_refused(self) -> None:
        pids = self.start("nothing")
        self.tables.mkdir()
        os.chown(self.tables, live.NOBODY, live.NOBODY)
        with self.tracer(pids) as tracer:
            self.assertEqual(tracer.wait(), 7, tracer.text())
        self.assertIn("cannot write into", tracer.text())
        self.assertEqual(list(self.tables.iterdir()), [])
        # A link in a directory of ours is not followed.
        os.chown(self.tables, 0, 0)
        away = self.folder / "away"
        away.mkdir()
        self.fleet("ingest", self.folder / "none", "-o", self.tables, code=2)
        shutil.rmtree(self.tables / "facts", ignore_errors=True)
        (self.tables / "facts").symlink_to(away)
        with self.tracer(pids) as tracer:
            tracer.wait_until_recording()
            tracer.lines.wait("a summary was not written into", 3 * live.WORK_S)
            self.assertEqual(tracer.stop(), 7, tracer.text())
        self.assertEqual(list(away.iterdir()), [])


if __name__ == "__main__":
    live.run()

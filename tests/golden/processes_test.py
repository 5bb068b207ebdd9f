#!/usr/bin/env python3
"""Views of some processes of kept captures, and of their rows by groups: report and export with --pid, --rank and --group-by-…

    processes_test.py PROFTRACE GOLDEN_FOLDER
"""

from __future__ import annotations

import collections
import csv
import gzip
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROFTRACE, GOLDEN = sys.argv[1], Path(sys.argv[2])
WORKERS, RANKS, LOOP = (GOLDEN / case / "capture.ptrec" for case in ("workers", "gpu", "mlp"))
USAGE = 2


class ProcessesTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def run_command(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([PROFTRACE, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def report(self, *arguments: object) -> dict[str, object]:
        return json.loads(self.run_command("report", *arguments, "--json", "--row-limit", -1).stdout)

    def rows(self, *arguments: object) -> list[dict[str, str]]:
        """Of a CSV file that is exported with these arguments."""
        path = self.out / "rows.csv"
        self.run_command("export", *arguments, "-o", path)
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def pids(self, capture: Path) -> list[int]:
        return sorted({int(row["pid"]) for row in self.rows(capture, "--format", "events-csv")})

    def counts(self, report: dict[str, object]) -> collections.Counter[str]:
        counts: collections.Counter[str] = collections.Counter()
        for row in report["rows"]:
            counts[row["name"]] += row["count"]
        return counts

    def test_processes_add_up_to_the_recording(self) -> None:
        for capture in (WORKERS, RANKS):
            pids = self.pids(capture)
            self.assertGreater(len(pids), 1)
            whole = self.report(capture)
            self.assertEqual(whole["processes"], pids)
            counts: collections.Counter[str] = collections.Counter()
            for pid in pids:
                one = self.report(capture, "--pid", pid)
                self.assertEqual(one["processes"], [pid])
                counts += self.counts(one)
                self.assertEqual({int(row["pid"]) for row in self.rows(capture, "--format", "events-csv", "--pid", pid)}, {pid})
            self.assertEqual(counts, self.counts(whole))

    def test_the_table_says_what_is_added_up(self) -> None:
        pids = self.pids(WORKERS)
        line = f"Rows are sums over {len(pids)} processes: PID {', '.join(map(str, pids))};"
        self.assertIn(line, self.run_command("report", WORKERS).stdout)
        self.assertNotIn("Rows are sums", self.run_command("report", WORKERS, "--pid", pids[0]).stdout)
        self.run_command("export", WORKERS, "--format", "summary", "-o", self.out / "summary.json")
        averages = json.loads((self.out / "summary.json").read_text())["key_averages"]
        self.assertEqual(averages["processes"], pids)
        self.assertEqual(averages["total_average"]["count"], sum(row["count"] for row in self.report(WORKERS)["rows"]))

    def test_formats_are_of_the_process(self) -> None:
        pid = self.pids(WORKERS)[-1]
        names = {row["name"] for row in self.rows(WORKERS, "--format", "csv", "--pid", pid)}
        self.assertEqual(names, {row["name"] for row in self.report(WORKERS, "--pid", pid)["rows"]})
        path = self.out / "profile.sqlite"
        self.run_command("export", WORKERS, "--format", "sqlite", "--pid", pid, "-o", path)
        database = sqlite3.connect(path)
        self.addCleanup(database.close)
        self.assertEqual(database.execute("SELECT DISTINCT pid FROM events").fetchall(), [(pid,)])

    def test_a_process_that_was_not_recorded_is_an_error(self) -> None:
        for command in (["report", WORKERS], ["export", WORKERS, "--format", "csv", "-o", self.out / "no.csv"]):
            done = self.run_command(*command, "--pid", 5, code=USAGE)
            for pid in self.pids(WORKERS):
                self.assertIn(str(pid), done.stderr)
            self.assertIn("no rank is known", self.run_command(*command, "--rank", 0, code=USAGE).stderr)
        self.assertIn("ranks 0, 1", self.run_command("report", RANKS, "--rank", 7, code=USAGE).stderr)
        self.assertFalse((self.out / "no.csv").exists())

    def trace(self, path: Path) -> dict[str, object]:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return json.load(file)

    def pids_of_rows(self, trace: dict[str, object]) -> set[int]:
        return {event["pid"] for event in trace["traceEvents"] if event.get("cat") == "cpu_op"}

    def test_a_directory_gets_a_trace_of_each_rank(self) -> None:
        self.run_command("export", RANKS, "--format", "chrome,tensorboard", "-o", self.out)
        targets = {rank: self.report(RANKS, "--rank", rank)["processes"] for rank in (0, 1)}
        files = sorted(path.name for path in self.out.iterdir())
        boards = [name for name in files if name.endswith(".pt.trace.json.gz")]
        self.assertEqual([name for name in files if name not in boards], ["trace.json.gz", "trace_rank0.json.gz", "trace_rank1.json.gz"])
        self.assertEqual([int(re.search(r"_(\d+)\.\d+\.pt", name).group(1)) for name in boards], [targets[0][0], targets[1][0]])
        for rank, board in enumerate(boards):
            for name in (f"trace_rank{rank}.json.gz", board):
                trace = self.trace(self.out / name)
                self.assertEqual(trace["distributedInfo"]["rank"], rank)
                self.assertEqual(self.pids_of_rows(trace), set(targets[rank]))

    def test_a_file_gets_the_whole_or_a_rank(self) -> None:
        path = self.out / "one.json.gz"
        self.run_command("export", RANKS, "--format", "chrome", "-o", path)
        self.assertEqual(len(self.pids_of_rows(self.trace(path))), 2)
        self.run_command("export", RANKS, "--format", "chrome", "--rank", 1, "-o", path)
        trace = self.trace(path)
        self.assertEqual(trace["distributedInfo"]["rank"], 1)
        self.assertEqual(len(self.pids_of_rows(trace)), 1)
        self.assertEqual(len(list(self.out.iterdir())), 1)

    def test_rows_are_grouped_as_in_report(self) -> None:
        grouped = self.rows(LOOP, "--format", "csv", "--group-by-overload-name")
        wanted = self.report(LOOP, "--group-by-overload-name")["rows"]
        key = lambda row: (row["name"], row["overload_name"], int(row["count"]))
        self.assertEqual(sorted(map(key, grouped)), sorted(map(key, wanted)))
        self.assertGreater(len(grouped), len(self.rows(LOOP, "--format", "csv")))
        for form, name in (("table", "table.txt"), ("sqlite", "rows.sqlite")):
            self.run_command("export", LOOP, "--format", form, "--group-by-overload-name", "-o", self.out / name)
        self.assertIn("Overload Name", (self.out / "table.txt").read_text())
        database = sqlite3.connect(self.out / "rows.sqlite")
        self.addCleanup(database.close)
        self.assertEqual(database.execute("SELECT count(*) FROM key_averages WHERE overload_name IS NOT NULL").fetchone(),
                         (sum(row["overload_name"] != "" for row in grouped),))

    def test_what_cannot_be_grouped_is_an_error(self) -> None:
        for options, reason in ((("csv", "--group-by-input-shape"), "--record-shapes"), (("csv", "--group-by-stack-n", 3), "--with-stack"),
                                (("chrome", "--group-by-overload-name"), "table, csv and sqlite"),
                                (("csv", "--device", "cpu"), "--device is for"),
                                (("memory-timeline",), "--profile-memory")):
            done = self.run_command("export", LOOP, "--format", *options, "-o", self.out / "rows.csv", code=USAGE)
            self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)

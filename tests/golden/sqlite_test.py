#!/usr/bin/env python3
"""Reads `--format sqlite` of kept captures with Python's sqlite3, and compares each table with its CSV file, cell by cell.

    sqlite_test.py PROFTRACE GOLDEN_FOLDER
"""

from __future__ import annotations

import csv
import json
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROFTRACE, GOLDEN = sys.argv[1], Path(sys.argv[2])
DAMAGED, OUTPUT_FAILED = 8, 7
CSV_FILES = {"events": "events.csv", "key_averages": "key_averages.csv", "modules": "modules.csv", "samples": "samples.csv",
             "gpu_idle": "gpu_idle.csv", "data_waits": "data_waits.csv"}
FORMATS = {"events": "events-csv", "key_averages": "csv", "modules": "modules", "samples": "samples-csv", "gpu_idle": "gpu-idle",
           "data_waits": "data-waits"}
ALWAYS = {"events", "key_averages", "summary"}
NUMBER = re.compile(r"-?\d+(\.\d+)?")
# Numbers in them are by chance.
TEXTS = {"name", "overload_name", "path", "thread_name", "concrete_inputs", "input_types", "stack", "call_args", "next_name"}


def export(capture: Path, form: str, target: Path, *more: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [PROFTRACE, "export", str(capture), "--format", form, "-o", str(target), "--salvage", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class SqliteTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def open(self, capture: Path) -> sqlite3.Connection:
        target = self.out / "profile.sqlite"
        done = export(capture, "sqlite", target)
        self.assertIn(done.returncode, (0, DAMAGED), done.stderr)
        database = sqlite3.connect(target)
        self.addCleanup(database.close)
        self.assertEqual(database.execute("PRAGMA integrity_check").fetchone(), ("ok",))
        return database

    def compare(self, database: sqlite3.Connection, table: str, capture: Path) -> int:
        target = self.out / CSV_FILES[table]
        self.assertIn(export(capture, FORMATS[table], target, "--csv-exact").returncode, (0, DAMAGED))
        with open(target, newline="", encoding="utf-8") as file:
            header, *rows = list(csv.reader(file))
        found = database.execute(f"SELECT * FROM {table}")  # in the order in which they were written
        self.assertEqual([column[0] for column in found.description], header)
        found = found.fetchall()
        self.assertEqual(len(found), len(rows))
        for ours, theirs in zip(found, rows):
            for name, value, text in zip(header, ours, theirs):
                self.assertEqual("" if value is None else value if isinstance(value, str) else type(value)(text),
                                 value if value is not None and not isinstance(value, str) else text, (table, name))
        for i, name in enumerate(header):
            texts = [row[i] for row in rows if row[i]]
            if texts and name not in TEXTS and all(NUMBER.fullmatch(text) for text in texts):
                kinds = {type(row[i]) for row in found if row[i] is not None}
                self.assertLessEqual(kinds, {int} if all("." not in text for text in texts) else {int, float}, (table, name))
        return len(rows)

    def test_tables_are_the_csv_files(self) -> None:
        seen: set[str] = set()
        captures = sorted([*GOLDEN.glob("*/capture.ptrec"), *GOLDEN.glob("h100/*.ptrec")])
        self.assertGreater(len(captures), 9)
        for capture in captures:
            with self.subTest(capture=str(capture.relative_to(GOLDEN))):
                database = self.open(capture)
                tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                self.assertLessEqual(ALWAYS, tables)
                for table in tables - {"summary"}:
                    if self.compare(database, table, capture) > 0:
                        seen.add(table)
                export(capture, "summary", self.out / "summary.json")
                summary = json.loads((self.out / "summary.json").read_text(encoding="utf-8"))
                kept = {key: json.loads(value) for key, value in database.execute("SELECT key, value FROM summary")}
                self.assertEqual(kept, summary)
        self.assertLessEqual({"events", "key_averages", "gpu_idle"}, seen)

    def test_a_query_over_the_tree(self) -> None:
        database = self.open(GOLDEN / "mlp" / "capture.ptrec")
        wrong = database.execute("SELECT count(*) FROM events e JOIN events p ON p.id = e.parent_id WHERE p.depth + 1 != e.depth")
        self.assertEqual(wrong.fetchone(), (0,))
        sums = dict(database.execute("SELECT name, sum(self_ns) FROM events WHERE category = 'cpu_op' GROUP BY name"))
        self.assertGreater(sums["aten::addmm"], 0)

    def test_the_same_bytes_again_and_compressed(self) -> None:
        capture = GOLDEN / "names" / "capture.ptrec"
        for name in ("a.sqlite", "b.sqlite", "c.sqlite.gz"):
            self.assertEqual(export(capture, "sqlite", self.out / name).returncode, 0)
        first = (self.out / "a.sqlite").read_bytes()
        self.assertEqual(first, (self.out / "b.sqlite").read_bytes())
        unpacked = subprocess.run(["gzip", "-dc", self.out / "c.sqlite.gz"], capture_output=True, check=True).stdout
        self.assertEqual(first, unpacked)

    def test_no_room(self) -> None:
        """A limit of a file's size stands for a full disk; nothing is left behind."""
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

        done = export(GOLDEN / "mlp" / "capture.ptrec", "sqlite", self.out / "profile.sqlite", preexec_fn=limit)
        self.assertEqual(done.returncode, OUTPUT_FAILED, done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual(list(self.out.iterdir()), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""`proftrace fleet compact`: the rows of a flight recorder's summaries are the same when those of an hour are in one file, and stay
there however it is killed. The summaries are made of a kept capture whose clock is moved.

    fleet_compact_test.py PROFTRACE SHIFT_CAPTURE GOLDEN_FOLDER

PROFTRACE_PARQUET_PYTHON names a Python that has duckdb and pyarrow; without it the test is skipped. PROFTRACE_KILLS: how many are
killed (25).
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROFTRACE, SHIFT_CAPTURE, GOLDEN = sys.argv[1], sys.argv[2], Path(sys.argv[3])
HOST_UNFIT, DAMAGED = 6, 8
KILLS = int(os.environ.get("PROFTRACE_KILLS", "25"))
MINUTE_NS = 60_000_000_000
HOUR_S = 3600
MINUTES = (0, 1, 2, 60, 61, 125)  # of the summaries: three hours, one of them with one summary


class CompactTest(unittest.TestCase):
    made: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        if not all(importlib.util.find_spec(module) for module in ("duckdb", "duckdb_cli", "pyarrow")):
            raise unittest.SkipTest("no Python with DuckDB and pyarrow: scripts/install-fleet-engine.sh --tests")
        cls.made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.made.cleanup)
        cls.before = Path(cls.made.name) / "before"
        cls.add_summaries(cls.before, MINUTES)

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fleet = Path(folder.name) / "of 'a' fleet"  # a name that a text of SQL cannot have as it is
        shutil.copytree(self.before, self.fleet)

    @classmethod
    def add_summaries(cls, fleet: Path, minutes: tuple[int, ...]) -> None:
        """What `record --fleet` does with the flight recorder's capture, of the hours from a full one on."""
        capture = GOLDEN / "mlp/capture.ptrec"
        pid = json.loads((GOLDEN / "mlp/summary.json").read_text())["target"][0]["pid"]
        first_s = cls.end_of_first(capture, pid)
        to_next_hour_ns = (HOUR_S - first_s % HOUR_S) * 1_000_000_000 + 5 * MINUTE_NS
        done = subprocess.run([PROFTRACE, "fleet", "ingest", str(capture), "-o", str(fleet)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for minute in minutes:
            cls.add_summary(fleet, capture, pid, to_next_hour_ns + minute * MINUTE_NS)

    @classmethod
    def add_summary(cls, fleet: Path, capture: Path, pid: int, offset_ns: int) -> None:
        moved = Path(cls.made.name) / f"moved{offset_ns}.ptrec"
        subprocess.run([SHIFT_CAPTURE, str(capture), str(moved), str(pid), "host-1", str(offset_ns), "0", "0", "0"], check=True, capture_output=True)
        opened, folder = os.open(moved, os.O_RDONLY), os.open(fleet, os.O_RDONLY | os.O_DIRECTORY)
        done = subprocess.run([PROFTRACE, "fleet", "ingest", "-", "-o", str(fleet), "--as-summary", f"{opened},{folder}"],
                              pass_fds=(opened, folder), capture_output=True, text=True)
        os.close(opened)
        os.close(folder)
        assert done.returncode == 0, done.stderr

    @classmethod
    def end_of_first(cls, capture: Path, pid: int) -> int:
        fleet = Path(cls.made.name) / "first"
        subprocess.run([PROFTRACE, "fleet", "ingest", str(GOLDEN / "workers/capture.ptrec"), "-o", str(fleet)], check=True, capture_output=True)
        cls.add_summary(fleet, capture, pid, 0)
        (part,) = [record["parts"][0] for record in cls.records(fleet) if record.get("is_summary")]
        return int(part.rsplit("-", 1)[1])

    @staticmethod
    def records(fleet: Path) -> list[dict]:
        return [json.loads(path.read_text()) for path in sorted((fleet / "inputs").glob("*.json"))]

    def compact(self, *arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([PROFTRACE, "fleet", "compact", str(self.fleet), "--older-than", "1s", *arguments], capture_output=True, text=True,
                              timeout=120, env={**os.environ, **variables})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def align(self, fleet: Path) -> dict:
        done = subprocess.run([PROFTRACE, "fleet", "align", str(fleet), "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    @staticmethod
    def rows(fleet: Path) -> dict[str, tuple[list[tuple[str, str]], list[str]]]:
        """Of each table: the columns with their types, which are the same in all files, and all rows in some order."""
        import pyarrow.parquet
        tables: dict[str, tuple[list[tuple[str, str]], list[str]]] = {}
        for path in sorted([*fleet.glob("*/of_job=*/**/*.parquet"), *fleet.glob("aligned/*.parquet")]):
            table = pyarrow.parquet.ParquetFile(path).read()
            name = str(path.relative_to(fleet).parts[0 if path.parent.name != "aligned" else 1])
            columns = [(field.name, str(field.type)) for field in table.schema]
            rows = [repr(tuple(row.values())) for row in table.to_pylist()]
            before = tables.setdefault(name, (columns, []))
            assert before[0] == columns, (name, before[0], columns)
            before[1].extend(rows)
        return {name: (columns, sorted(rows)) for name, (columns, rows) in tables.items()}

    def check_same_rows(self) -> None:
        self.align(self.fleet)
        expected = self.before.parent / "expected"
        if not expected.exists():
            shutil.copytree(self.before, expected)
            self.align(expected)
        self.assertEqual(self.rows(expected), self.rows(self.fleet))

    def test_the_rows_of_an_hour_are_in_one_file(self) -> None:
        summaries = len([record for record in self.records(self.fleet) if record.get("is_summary")])
        self.assertEqual(summaries, len(MINUTES))
        document = json.loads(self.compact("--json").stdout)
        self.assertEqual(document, {"summaries": 5, "inputs": 2})
        after = [record for record in self.records(self.fleet) if record.get("is_summary")]
        self.assertEqual(len(after), 3)
        listed = {file for record in self.records(self.fleet) for file in record["files"]}
        there = {str(path.relative_to(self.fleet)) for path in self.fleet.rglob("*.*")
                 if path.is_file() and path.suffix in (".parquet", ".gz") and "aligned" not in path.parts}
        self.assertEqual(there, listed)
        self.check_same_rows()
        self.assertEqual(json.loads(self.compact("--json").stdout), {"summaries": 0, "inputs": 0})

    def test_an_hour_that_is_not_over_is_left_alone(self) -> None:
        done = subprocess.run([PROFTRACE, "fleet", "compact", str(self.fleet), "--older-than", "800000h", "--json"], capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout), {"summaries": 0, "inputs": 0}, done.stderr)

    def test_kills_at_any_moment(self) -> None:
        began = time.monotonic()
        self.compact()
        length_s = time.monotonic() - began
        moments = random.Random(385)
        for kill in range(KILLS):
            if kill % 4 == 0:
                shutil.rmtree(self.fleet)
                shutil.copytree(self.before, self.fleet)
            run = subprocess.Popen([PROFTRACE, "fleet", "compact", str(self.fleet), "--older-than", "1s"], stderr=subprocess.DEVNULL,
                                   start_new_session=True)
            time.sleep(moments.uniform(0, 1.0) * length_s)
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            self.check_same_rows()
        self.compact()
        self.check_same_rows()
        self.assertEqual(list((self.fleet / "inputs").glob("*.pending")), [])

    def test_two_at_once_and_one_that_aligns(self) -> None:
        runs = [subprocess.Popen([PROFTRACE, "fleet", command, str(self.fleet), *more], stderr=subprocess.PIPE, text=True)
                for command, *more in [("compact", "--older-than", "1s"), ("compact", "--older-than", "1s"), ("align",)]]
        said = [run.communicate(timeout=120)[1] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0, 0], said)
        self.check_same_rows()

    def test_a_damaged_file_leaves_its_hour_as_it_is(self) -> None:
        summaries = [record for record in self.records(self.fleet) if record.get("is_summary")]
        first = min(summaries, key=lambda record: record["parts"][0])
        file = next(self.fleet / name for name in first["files"] if name.startswith("operators/"))
        file.write_bytes(file.read_bytes()[:-40])
        done = self.compact(code=DAMAGED)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        after = [record for record in self.records(self.fleet) if record.get("is_summary")]
        self.assertEqual(len(after), 5)  # three of the damaged hour, one of the other, one alone
        self.assertTrue(file.exists())

    def test_without_an_engine_nothing_changes(self) -> None:
        nobody = {"PROFTRACE_DUCKDB": "", "PATH": "/nonexistent", "HOME": "/nonexistent", "XDG_DATA_HOME": ""}
        self.assertIn("pip install duckdb-cli", self.compact(code=HOST_UNFIT, **nobody).stderr)
        self.check_same_rows()

    def test_a_record_that_leads_elsewhere_is_left_alone(self) -> None:
        outside = self.fleet.parent / "outside.parquet"
        outside.write_bytes(b"not ours")
        for path in (self.fleet / "inputs").glob("*.json"):
            record = json.loads(path.read_text())
            if record.get("is_summary"):
                record["parts"] = ["../../" + record["parts"][0]]
                record["files"] = ["operators/../../outside.parquet", *record["files"]]
                path.write_text(json.dumps(record))
        self.assertEqual(json.loads(self.compact("--json").stdout), {"summaries": 0, "inputs": 0})
        self.assertEqual(outside.read_bytes(), b"not ours")


if __name__ == "__main__":
    python = os.environ.pop("PROFTRACE_PARQUET_PYTHON", "")
    if python:
        os.execv(python, [python, *sys.argv])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])

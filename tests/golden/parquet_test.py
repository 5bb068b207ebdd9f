#!/usr/bin/env python3
"""Reads `--format parquet` of kept captures with DuckDB, pyarrow, polars and pandas, whichever this Python has, and compares each
table with its CSV file, cell by cell.

    parquet_test.py PROFTRACE WRITE_PARQUET GOLDEN_FOLDER

PROFTRACE_PARQUET_PYTHON names a Python that has some of them; without it, the one that runs this. Where there is none the test
of the readers is skipped: parquet_test checks the bytes by itself.
"""

from __future__ import annotations

import csv
import importlib.util
import math
import os
import resource
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

PROFTRACE, WRITE_PARQUET, GOLDEN = sys.argv[1], sys.argv[2], Path(sys.argv[3])
DAMAGED, OUTPUT_FAILED = 8, 7
CSV_FORMATS = {"events": "events-csv", "key_averages": "csv", "modules": "modules", "samples": "samples-csv", "gpu_idle": "gpu-idle",
               "data_waits": "data-waits"}
OTHERS = {"captures", "clocks", "processes", "steps", "collectives", "operators", "kernels", "memory", "io", "waits", "losses"}
KEYS = ["job", "attempt", "host", "rank"]  # what each table begins with, and its CSV file has not
Rows = tuple[list[str], list[tuple[object, ...]]]


def read_duckdb(path: Path) -> Rows:
    import duckdb
    found = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [str(path)])
    return [column[0] for column in found.description], found.fetchall()


def read_pyarrow(path: Path) -> Rows:
    import pyarrow.parquet
    file = pyarrow.parquet.ParquetFile(path)
    table = file.read()
    check_statistics(file, table)
    columns = [column.to_pylist() for column in table.columns]
    return table.column_names, list(zip(*columns))


def read_polars(path: Path) -> Rows:
    import polars
    frame = polars.read_parquet(path)
    return frame.columns, frame.rows()


def read_pandas(path: Path) -> Rows:
    import pandas
    frame = pandas.read_parquet(path, dtype_backend="numpy_nullable")
    rows = [tuple(None if value is pandas.NA else value for value in row) for row in frame.itertuples(index=False, name=None)]
    return list(frame.columns), rows


def check_statistics(file: object, table: object) -> None:
    """The least, the most and the number of absent cells in the footer are those of the cells."""
    begin = 0
    for index in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(index)
        part = table.slice(begin, group.num_rows)
        begin += group.num_rows
        for place in range(group.num_columns):
            facts, cells = group.column(place).statistics, part.column(place)
            assert facts.null_count == cells.null_count, (index, place)
            if str(cells.type) == "int64":
                values = [value for value in cells.to_pylist() if value is not None]
                assert facts.has_min_max == bool(values), (index, place)
                assert not values or (facts.min, facts.max) == (min(values), max(values)), (index, place)


READERS: dict[str, Callable[[Path], Rows]] = {"duckdb": read_duckdb, "pyarrow": read_pyarrow, "polars": read_polars,
                                              "pandas": read_pandas}


def readers() -> dict[str, Callable[[Path], Rows]]:
    wants = {"pandas": ("pandas", "pyarrow")}
    return {name: read for name, read in READERS.items()
            if all(importlib.util.find_spec(module) for module in wants.get(name, (name,)))}


def export(capture: Path, form: str, target: Path, *more: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [PROFTRACE, "export", str(capture), "--format", form, "-o", str(target), "--salvage", *more]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


class ParquetTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def compare(self, found: Rows, header: list[str], rows: Iterator[list[str]], what: str) -> int:
        """Cells are the same: a text, a number with its digits, or nothing."""
        names, ours = found
        self.assertEqual(names, header, what)
        count = 0
        for count, (row, theirs) in enumerate(zip(ours, rows), 1):
            for name, value, text in zip(header, row, theirs):
                if value is None or isinstance(value, str):
                    same = (value or "") == text and value != ""
                else:
                    same = text != "" and (math.isclose(value, float(text), rel_tol=1e-15) if "." in text else value == int(text))
                self.assertTrue(same, (what, name, value, text))
        self.assertEqual(count, len(ours), what)
        self.assertIsNone(next(rows, None), what)
        return count

    @unittest.skipIf(not readers(), "this Python has none of duckdb, pyarrow, polars and pandas")
    def test_tables_are_the_csv_files(self) -> None:
        seen: set[str] = set()
        captures = sorted([*GOLDEN.glob("*/capture.ptrec"), *GOLDEN.glob("h100/*.ptrec")])
        self.assertGreater(len(captures), 9)
        for capture in captures:
            for form in ("parquet", "parquet-events"):
                self.assertIn(export(capture, form, self.out).returncode, (0, DAMAGED))
            folder = self.out / "parquet"
            self.assertEqual({path.stem for path in folder.iterdir()}, OTHERS | CSV_FORMATS.keys())
            for table, form in CSV_FORMATS.items():
                target = self.out / f"{table}.csv"
                target.unlink(missing_ok=True)
                is_recorded = export(capture, form, target, "--csv-exact").returncode in (0, DAMAGED) and target.exists()
                for name, read in readers().items():
                    found = read(folder / f"{table}.parquet")
                    if not is_recorded:
                        self.assertEqual(found[1], [], (table, name))
                        continue
                    found = self.without_keys(found)
                    with open(target, newline="", encoding="utf-8") as file:
                        lines = csv.reader(file)
                        if self.compare(found, next(lines), lines, f"{capture} {table} {name}") > 0:
                            seen.add(table)
            for table in OTHERS:
                every = [read(folder / f"{table}.parquet") for read in readers().values()]
                for one in every[1:]:
                    self.assertEqual([tuple(row) for row in one[1]], [tuple(row) for row in every[0][1]], table)
                self.assertLessEqual(set(KEYS), set(every[0][0]), table)
                if every[0][1]:
                    seen.add(table)
            self.check_sums(folder)
        self.assertLessEqual({"events", "key_averages", "gpu_idle", "operators", "kernels", "steps", "collectives", "memory"}, seen)

    def without_keys(self, found: Rows) -> Rows:
        names, rows = found
        self.assertEqual(names[:len(KEYS)], KEYS)
        return names[len(KEYS):], [tuple(row)[len(KEYS):] for row in rows]

    def check_sums(self, folder: Path) -> None:
        """What two tables say of the same is the same."""
        read = next(iter(readers().values()))

        def rows(table: str) -> list[dict[str, object]]:
            names, cells = read(folder / f"{table}.parquet")
            return [dict(zip(names, row)) for row in cells]

        averages = rows("key_averages")
        host = [(row["name"], row["count"], round(row["self_cpu_time_total_us"] * 1000)) for row in averages if row["device_type"] == "CPU"]
        self.assertEqual(host, [(row["name"], row["calls"], row["self_ns"]) for row in rows("operators")])
        kernels = rows("kernels")
        for row in kernels:
            self.assertLessEqual(row["least_ns"], row["median_ns"])
            self.assertLessEqual(row["median_ns"], row["p99_ns"])
            self.assertLessEqual(row["p99_ns"], row["longest_ns"])
        device = {row["name"]: 0 for row in kernels}
        calls = dict(device)
        for row in kernels:
            device[row["name"]] += row["total_ns"]
            calls[row["name"]] += row["calls"]
        for row in averages:
            if row["device_type"] != "CPU" and row["name"] in device:
                self.assertEqual((row["count"], round(row["self_device_time_total_us"] * 1000)), (calls[row["name"]], device[row["name"]]))
        for row in rows("steps"):
            for parts in (["compute_ns", "data_ns", "io_ns", "lock_ns", "event_ns", "run_queue_ns", "faults_ns", "other_ns"],
                          [name for name in row if name.startswith("why_")]):
                if row[parts[0]] is not None:
                    self.assertEqual(sum(row[part] for part in parts), row["duration_ns"], parts)
            self.assertEqual(row["comm_overlap_ns"] + row["comm_exposed_ns"], row["comm_ns"])
            self.assertLessEqual(row["comm_ns"], row["duration_ns"])
            if row["gpu_busy_ns"] is not None:
                self.assertEqual(row["gpu_busy_ns"] + row["gpu_idle_ns"], row["duration_ns"])

    @unittest.skipIf(not readers(), "this Python has none of duckdb, pyarrow, polars and pandas")
    def test_made_up_tables(self) -> None:
        """Absent cells, hostile names, no rows, several row groups, and more names than a dictionary takes."""
        for kind in ("empty", "absent", "hostile", "long", "groups", "names"):
            target, text = self.out / f"{kind}.parquet", self.out / f"{kind}.csv"
            subprocess.run([WRITE_PARQUET, kind, str(target), str(text)], check=True)
            for name, read in readers().items():
                with open(text, newline="", encoding="utf-8") as file:
                    lines = csv.reader(file)
                    self.compare(read(target), next(lines), lines, f"{kind} {name}")

    def test_a_folder_by_its_name_and_the_same_bytes_again(self) -> None:
        capture = GOLDEN / "names" / "capture.ptrec"
        for name in ("a", "b"):
            self.assertEqual(export(capture, "parquet-events", self.out / name).returncode, 0)
        self.assertEqual((self.out / "a/events.parquet").read_bytes(), (self.out / "b/events.parquet").read_bytes())
        self.assertEqual([path.name for path in (self.out / "a").iterdir()], ["events.parquet"])

    def test_no_room(self) -> None:
        """A limit of a file's size stands for a full disk. Nothing is left behind, and older tables stay as they are."""
        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600))

        capture = GOLDEN / "mlp" / "capture.ptrec"
        done = export(capture, "parquet", self.out, preexec_fn=limit)
        self.assertEqual(done.returncode, OUTPUT_FAILED, done.stderr)
        self.assertIn("cannot write", done.stderr)
        self.assertEqual(list(self.out.iterdir()), [])
        self.assertEqual(export(capture, "parquet", self.out).returncode, 0)
        before = {path.name: path.stat() for path in (self.out / "parquet").iterdir()}
        self.assertEqual(export(capture, "parquet", self.out, preexec_fn=limit).returncode, OUTPUT_FAILED)
        self.assertEqual({path.name: path.stat() for path in (self.out / "parquet").iterdir()}, before)

    def test_what_is_in_the_place_of_the_folder(self) -> None:
        (self.out / "parquet").write_text("mine")
        done = export(GOLDEN / "mlp" / "capture.ptrec", "parquet", self.out)
        self.assertEqual(done.returncode, OUTPUT_FAILED, done.stderr)
        self.assertEqual((self.out / "parquet").read_text(), "mine")


if __name__ == "__main__":
    python = os.environ.pop("PROFTRACE_PARQUET_PYTHON", "")
    if python:
        os.execv(python, [python, *sys.argv])
    csv.field_size_limit(2**31 - 1)
    unittest.main(argv=sys.argv[:1])

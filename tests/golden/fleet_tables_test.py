#!/usr/bin/env python3
"""`proftrace fleet ingest` and `fleet align`: what is in the directory, who reads it, and what kills, twins, damage and hostile
names do to it. The inputs are kept captures and made-up traces of torch.profiler.

    fleet_tables_test.py PROFTRACE GOLDEN_FOLDER

PROFTRACE_PARQUET_PYTHON names a Python that has duckdb, pyarrow, polars or pandas; without one of them what needs readers is
skipped. PROFTRACE_KILLS: how many ingests are killed (40).
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROFTRACE, GOLDEN = sys.argv[1], Path(sys.argv[2])
USAGE, OUTPUT_FAILED, DAMAGED, DISAGREE = 2, 7, 8, 10
KILLS = int(os.environ.get("PROFTRACE_KILLS", "40"))
ALIGNED = ("captures", "clocks", "steps", "collectives")
TABLES = ("recordings", "clock_readings", "processes", "steps", "collectives", "operators", "kernels", "memory", "gpu_idle", "data_waits", "io",
          "waits", "losses")
HOSTILE = ("../../../tmp/evil", "a/b", "'; DROP TABLE steps; --", "line\nend", "\"quoted\"", "*", "..", ".", "%2e%2e", "x" * 5000, "\u540d\u524d",
           "of_host=1", " ")
BASE_NS = 1_764_000_000_000_000_000
STEP_US, COLLECTIVES = 30_000, 2


def has(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def trace(rank: int, world: int, steps: int, host: str = "", offset_us: int = 0, first_step: int = 0, late_rank: int = 1) -> dict:
    """A rank of a gloo job: in each step an operator, two all-reduces, for which all wait for `late_rank`."""
    events = []

    def row(name: str, category: str, tid: int, begin_us: float, length_us: float, **args: object) -> None:
        events.append({"ph": "X", "cat": category, "name": name, "pid": 100 + rank, "tid": tid, "ts": begin_us + offset_us,
                       "dur": length_us, "args": args})

    for step in range(steps):
        begin = 1_000 + step * STEP_US + random.Random(step).randrange(9_000)  # no two distances are alike
        row(f"ProfilerStep#{first_step + step}", "user_annotation", 100 + rank, begin, 20_000)
        row("aten::mm", "cpu_op", 100 + rank, begin + 100, 3_000)
        row("aten::resize_", "cpu_op", 100 + rank, begin + 200, 500)
        for number in range(COLLECTIVES):
            entered = begin + 4_000 + number * 5_000 + (2_000 if rank == late_rank else 100 * rank)
            left = begin + 4_000 + number * 5_000 + 2_000 + 1_000 + 10 * rank
            row("gloo:all_reduce", "cpu_op", 900 + number, entered, left - entered, **{"Input Dims": [[64]], "Input type": ["float"]})
    info = {"backend": "gloo", "rank": rank, "world_size": world, "pg_count": 1,
            "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "pg_size": world,
                           "ranks": list(range(world))}]}
    made = {"schemaVersion": 1, "distributedInfo": info, "baseTimeNanoseconds": BASE_NS, "traceEvents": events}
    if host:
        made["host_name"] = host
    return made


class FleetTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)
        self.fleet = self.out / "fleet"

    def run_fleet(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([PROFTRACE, "fleet", *map(str, arguments)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def ingest(self, *inputs: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.run_fleet("ingest", *inputs, "-o", self.fleet, code=code)

    def write_ranks(self, world: int, steps: int = 8, **more: object) -> list[Path]:
        files = []
        for rank in range(world):
            files.append(self.out / f"rank{rank}.json")
            files[-1].write_text(json.dumps(trace(rank, world, steps, **more)))
        return files

    def records(self) -> dict[str, dict]:
        return {path.stem: json.loads(path.read_text()) for path in (self.fleet / "inputs").glob("*.json")}

    def table_files(self) -> set[str]:
        return {str(path.relative_to(self.fleet)) for path in self.fleet.rglob("*") if path.is_file()
                and path.relative_to(self.fleet).parts[0] in (*TABLES, "facts")}

    def check_whole(self) -> None:
        """All that is there belongs to inputs that are whole, and all of these is there."""
        records = self.records()
        listed = [file for record in records.values() for file in record["files"]]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual(set(listed), self.table_files())
        for record in records.values():
            self.assertEqual(len(record["files"]), len(record["parts"]) * (len(TABLES) + 1))
            for file in record["files"]:
                content = (self.fleet / file).read_bytes()
                if file.endswith(".parquet"):
                    self.assertEqual((content[:4], content[-4:]), (b"PAR1", b"PAR1"), file)
                else:
                    lines = gzip.decompress(content).split(b"\n")
                    self.assertEqual(lines[-2], b"end %d" % (len(lines) - 1))

    def content(self) -> dict[str, bytes]:
        return {file: (self.fleet / file).read_bytes() for file in self.table_files() if file.endswith(".parquet")}

    def rows(self, pattern: str) -> list[dict]:
        import duckdb
        found = duckdb.connect().execute(f"SELECT * FROM read_parquet('{self.fleet}/{pattern}', hive_partitioning = false)")
        names = [column[0] for column in found.description]
        return [dict(zip(names, row)) for row in found.fetchall()]


class IngestTest(FleetTest):
    def test_inputs_are_skipped_replaced_and_known_by_their_bytes(self) -> None:
        files = self.write_ranks(3)
        self.assertIn("3 inputs added", self.ingest(*files).stderr)
        self.check_whole()
        before = self.content()
        self.assertIn("0 inputs added, 0 inputs replaced, 3 inputs there already", self.ingest(*files).stderr)
        os.utime(files[0])  # another time, the same bytes
        self.assertIn("3 inputs there already", self.ingest(*files).stderr)
        copy = self.out / "copy.json"
        shutil.copy(files[1], copy)
        self.assertIn("has the same bytes as", self.ingest(copy).stderr)
        self.assertEqual(self.content(), before)
        files[2].write_text(json.dumps(trace(2, 3, 5)))
        self.assertIn("1 input replaced, 2 inputs there already", self.ingest(*files).stderr)
        self.assertEqual(len(self.records()), 3)
        self.check_whole()
        after = self.content()
        self.assertEqual(len(after), len(before))
        self.assertEqual(len(before.keys() - after.keys()), len(TABLES))

    def test_the_order_and_the_place_of_inputs_do_not_matter(self) -> None:
        files = self.write_ranks(3)
        self.ingest(*files)
        self.run_fleet("align", self.fleet)
        first = self.content(), {name: (self.fleet / f"aligned/{name}.parquet").read_bytes() for name in ("steps", "collectives")}
        self.fleet = self.out / "other"
        for file in reversed(files):
            self.ingest(file)
        self.run_fleet("align", self.fleet)
        self.assertEqual(first, (self.content(), {name: (self.fleet / f"aligned/{name}.parquet").read_bytes()
                                                  for name in ("steps", "collectives")}))

    def test_a_damaged_input_costs_itself_alone(self) -> None:
        files = self.write_ranks(2)
        capture = self.out / "cut.ptrec"
        whole = (GOLDEN / "mlp" / "capture.ptrec").read_bytes()
        capture.write_bytes(whole[:len(whole) // 2])
        wrong = self.out / "wrong.json"
        wrong.write_text('{"traceEvents": [{"ph": "X", "name": nonsense]}')
        done = self.ingest(files[0], capture, wrong, files[1], code=DAMAGED)
        self.assertIn("2 inputs added, 0 inputs replaced, 0 inputs there already, 2 inputs that cannot be read", done.stderr)
        self.assertIn(f"proftrace: {capture} is damaged", done.stderr)
        self.assertIn(f"proftrace: {wrong} is no trace", done.stderr)
        self.check_whole()
        missing = json.loads(self.run_fleet("align", self.fleet, "--json").stdout)["missing"]
        self.assertEqual({of["path"] for of in missing}, {str(capture), str(wrong)})
        self.assertIn("2 inputs there already, 2 inputs that", self.ingest(*files, capture, wrong, code=DAMAGED).stderr)
        capture.write_bytes(whole)
        wrong.unlink()
        self.assertIn("1 input added", self.ingest(capture).stderr)
        self.ingest(self.out / "nothing.json", code=USAGE)
        self.check_whole()

    def test_what_is_no_directory_of_a_fleet(self) -> None:
        files = self.write_ranks(1)
        self.fleet.mkdir()
        (self.fleet / "mine").write_text("mine")
        self.assertIn("no directory of a fleet", self.ingest(*files, code=USAGE).stderr)
        self.assertEqual([path.name for path in self.fleet.iterdir()], ["mine"])
        self.assertIn("no directory of a fleet", self.run_fleet("align", self.fleet, code=USAGE).stderr)
        (self.fleet / "mine").unlink()
        self.ingest(*files)
        (self.fleet / "fleet.json").write_text('{"proftrace_fleet": 99}')
        self.run_fleet("align", self.fleet, code=DAMAGED)

    def test_names_of_others_stay_inside(self) -> None:
        files = []
        for number, host in enumerate(HOSTILE):
            files.append(self.out / f"rank\n{number}'.json")
            files[-1].write_text(json.dumps(trace(number, len(HOSTILE), 2, host=host)))
        outside = {path for path in self.out.rglob("*")}
        self.ingest(*files)
        self.check_whole()
        self.assertEqual({path for path in self.out.rglob("*") if self.fleet not in (path, *path.parents)}, outside)
        for path in self.fleet.rglob("*"):
            self.assertRegex(path.name, r"\A[A-Za-z0-9._%=-]+\Z")
        self.run_fleet("align", self.fleet)
        if has("duckdb"):
            self.assertEqual({row["host"] for row in self.rows("operators/**/*.parquet")}, set(HOSTILE))
            self.assertEqual({row["path"] for row in self.rows("aligned/captures.parquet")}, {str(path) for path in files})

    def test_records_that_lead_outside_take_nothing_away(self) -> None:
        """Somebody who can write there writes names into a record: none leads out of the directory."""
        self.ingest(*self.write_ranks(1))
        victim = self.out / "victim"
        victim.write_text("mine")
        (self.fleet / "link").symlink_to(self.out)
        record = {"path": "/x", "bytes": 1, "modified_ns": 1, "inode": 1, "parts": [],
                  "files": ["../victim", "link/victim", str(victim), "steps/../../victim", ""]}
        (self.fleet / "inputs" / "0123456789abcdef.pending").write_text(json.dumps(record))
        self.ingest(self.out / "rank0.json")
        self.assertEqual(victim.read_text(), "mine")

    def test_damaged_facts_are_told(self) -> None:
        self.ingest(*self.write_ranks(2))
        facts = sorted((self.fleet / "facts").iterdir())
        text = gzip.decompress(facts[0].read_bytes())
        for damaged in (text[:len(text) // 2], text.replace(b"\nc ", b"\nc x", 1), b"", text + b"more\n", b"{}\nend 2\n"):
            facts[0].write_bytes(gzip.compress(damaged))
            done = json.loads(self.run_fleet("align", self.fleet, "--json").stdout)
            self.assertEqual(done["inputs"], 1)
            self.assertIn("ingest its input again", done["missing"][0]["why"])


class AlignTest(FleetTest):
    @unittest.skipUnless(has("duckdb"), "this Python has no duckdb")
    def test_what_ranks_did_together_has_one_time_and_one_step(self) -> None:
        """Three hosts whose clocks are hours apart, and whose counts of steps begin elsewhere."""
        shifts, firsts, files = (0, 3_600_000_000, -7_200_000_000), (10, 3, 500), []
        for rank in range(3):
            files.append(self.out / f"rank{rank}.json")
            files[-1].write_text(json.dumps(trace(rank, 3, 12, host=f"h{rank}", offset_us=shifts[rank], first_step=firsts[rank])))
        self.ingest(*files)
        done = json.loads(self.run_fleet("align", self.fleet, "--json").stdout)
        self.assertEqual((done["inputs"], done["unmatched_collectives"], done["jobs"][0]["ranks"]), (3, 0, 3))
        rows = self.rows("aligned/collectives.parquet")
        self.assertEqual(len(rows), 3 * 12 * COLLECTIVES)
        together: dict[tuple, list[dict]] = {}
        for row in rows:
            together.setdefault((row["group_key"], row["seq"]), []).append(row)
        self.assertEqual(len(together), 12 * COLLECTIVES)
        for ranks in together.values():
            self.assertEqual(len(ranks), 3)
            self.assertEqual(len({row["step"] for row in ranks}), 1)
            last = max(row["begin_ns"] for row in ranks)
            bound = ranks[0]["bound_ns"]
            self.assertGreater(bound, 0)
            for row in ranks:
                true = last if row["rank"] == 1 else last - 2_000_000 + 100_000 * row["rank"]
                self.assertLessEqual(abs(row["begin_ns"] - true), bound)
                wait, transfer = last - row["begin_ns"], min(other["end_ns"] for other in ranks) - last
                self.assertGreaterEqual(transfer, 0)
                self.assertEqual(wait + transfer + row["end_ns"] - min(other["end_ns"] for other in ranks), row["end_ns"] - row["begin_ns"])
        steps = self.rows("aligned/steps.parquet")
        self.assertEqual({row["step"] for row in steps}, set(range(steps[0]["step"], steps[0]["step"] + 12)))
        for row in steps:
            self.assertEqual(row["local_step"] - firsts[row["rank"]], row["step"] - min(step["step"] for step in steps))
            # Two all-reduces: 3 ms from the first rank's entering on, for all but the late one.
            self.assertLessEqual(abs(row["comm_ns"] - (2_000_000 if row["rank"] == 1 else 6_000_000 - 200_000 * row["rank"])), 50_000)
            self.assertEqual((row["comm_overlap_ns"], row["comm_exposed_ns"]), (0, row["comm_ns"]))
            self.assertEqual(row["comm_wait_ns"] > 1_000_000, row["rank"] != 1)
        captures = self.rows("aligned/captures.parquet")
        for row in captures:
            apart_us = shifts[row["rank"]] - shifts[captures[0]["rank"]]
            self.assertLessEqual(abs(row["offset_ns"] - captures[0]["offset_ns"] + apart_us * 1000), row["bound_ns"] + captures[0]["bound_ns"])
        clocks = self.rows("aligned/clocks.parquet")
        self.assertEqual({row["host"] for row in clocks}, {"h0", "h1", "h2"})
        self.assertTrue(all(row["low_ns"] <= row["offset_ns"] <= row["high_ns"] for row in clocks))
        operators = {(row["rank"], row["name"]): row for row in self.rows("operators/**/*.parquet")}
        self.assertEqual((operators[0, "aten::mm"]["calls"], operators[0, "aten::mm"]["total_ns"], operators[0, "aten::mm"]["self_ns"]),
                         (12, 36_000_000, 30_000_000))

    def test_what_does_not_belong_together_is_said(self) -> None:
        files = self.write_ranks(2)
        twin = self.out / "twin.json"
        twin.write_text(json.dumps(trace(0, 2, 9)))
        self.ingest(*files, twin)
        done = self.run_fleet("align", self.fleet, code=DISAGREE)
        self.assertIn("both of rank 0", done.stderr)
        self.assertTrue(json.loads((self.fleet / "aligned/alignment.json").read_text())["jobs"][0]["is_left_out"])

    def test_an_empty_directory(self) -> None:
        self.ingest(self.out / "nothing.json", code=USAGE)
        self.assertIn("has no input", self.run_fleet("align", self.fleet, code=USAGE).stderr)


class CaptureTest(FleetTest):
    @unittest.skipUnless(has("duckdb"), "this Python has no duckdb")
    def test_tables_of_captures_are_those_of_export(self) -> None:
        captures = sorted([*GOLDEN.glob("*/capture.ptrec"), *GOLDEN.glob("h100/*.ptrec")])
        import duckdb
        base = duckdb.connect()
        read = 0
        for capture in captures:
            self.fleet = self.out / f"fleet{read}"
            done = subprocess.run([PROFTRACE, "fleet", "ingest", str(capture), "-o", str(self.fleet)], capture_output=True, text=True)
            if done.returncode == DAMAGED:
                continue
            self.assertEqual(done.returncode, 0, done.stderr)
            read += 1
            self.check_whole()
            plain = self.out / f"plain{read}"
            subprocess.run([PROFTRACE, "export", str(capture), "--format", "parquet", "-o", str(plain)], check=True, capture_output=True)
            folder = plain / "parquet" if (plain / "parquet").exists() else plain
            parts = next(iter(self.records().values()))["parts"]
            for table in TABLES:
                name = {"recordings": "captures", "clock_readings": "clocks"}.get(table, table)
                ours = self.rows(f"{table}/**/*.parquet")
                found = base.execute(f"SELECT * FROM read_parquet('{folder}/{name}.parquet')")
                names = [column[0] for column in found.description]
                theirs = [dict(zip(names, row)) for row in found.fetchall()]
                if len(parts) > 1:
                    continue  # a part is a rank there, and all ranks are one table here
                for row in ours:
                    self.assertRegex(row.pop("input"), r"\A[0-9a-f]{16}\Z")
                for row in [*ours, *theirs]:
                    row["job"] = row["job"] if row["job"] != "-" else None
                self.assertEqual(ours, theirs, (capture, table))
            self.run_fleet("align", self.fleet)
        self.assertGreater(read, 7)

    @unittest.skipUnless(has("duckdb", "pyarrow", "polars", "pandas"), "this Python lacks one of duckdb, pyarrow, polars, pandas")
    def test_all_readers_find_the_same(self) -> None:
        import duckdb
        import pandas
        import polars
        import pyarrow.parquet
        self.ingest(GOLDEN / "gpu" / "capture.ptrec", *self.write_ranks(2))
        self.run_fleet("align", self.fleet)
        for path in [*self.fleet.glob("aligned/*.parquet"), *self.fleet.glob("*/of_job=*/**/*.parquet")]:
            table = pyarrow.parquet.ParquetFile(path).read()
            want = [tuple(row.values()) for row in table.to_pylist()]
            self.assertEqual(duckdb.connect().execute("SELECT * FROM read_parquet(?, hive_partitioning = false)", [str(path)]).fetchall(), want)
            self.assertEqual(polars.read_parquet(path, hive_partitioning=False).rows(), want)
            frame = pandas.read_parquet(path, dtype_backend="numpy_nullable", partitioning=None)
            self.assertEqual([tuple(None if value is pandas.NA else value for value in row) for row in frame.itertuples(index=False, name=None)],
                             want)


class InterruptedTest(FleetTest):
    def start(self, *inputs: Path) -> subprocess.Popen[str]:
        return subprocess.Popen([PROFTRACE, "fleet", "ingest", *map(str, inputs), "-o", str(self.fleet)], stderr=subprocess.PIPE, text=True,
                                start_new_session=True)

    def test_two_at_once(self) -> None:
        files = self.write_ranks(12, steps=200)
        self.ingest(*files)
        alone = self.content()
        for attempt in range(4):
            self.fleet = self.out / f"both{attempt}"
            runs = [self.start(*files), self.start(*reversed(files)), self.start(*files[6:])]
            said = [run.communicate(timeout=120)[1] for run in runs]
            self.assertEqual([run.returncode for run in runs], [0, 0, 0], said)
            self.check_whole()
            self.assertEqual(self.content(), alone)
            added = sum(int(text.rsplit(": ", 1)[1].split(" ", 1)[0]) for text in said)
            self.assertEqual(added, 12, said)  # each one was read once
            self.assertEqual(list((self.fleet / "inputs").glob("*.pending")), [])

    def test_kills_at_any_moment(self) -> None:
        files = self.write_ranks(6, steps=300)
        self.ingest(*files)
        alone = self.content()
        began = time.monotonic()
        self.fleet = self.out / "warm"
        self.ingest(*files)
        length_s = time.monotonic() - began
        moments = random.Random(38)
        self.fleet = self.out / "killed"
        pending = 0
        for kill in range(KILLS):
            if kill % 5 == 0 or len(self.records() if self.fleet.exists() else {}) == len(files):
                shutil.rmtree(self.fleet, ignore_errors=True)
            run = self.start(*files)
            time.sleep(moments.uniform(0, 1.0) * length_s)
            # The command alone, or its reader with it.
            (os.killpg if kill % 2 == 0 else os.kill)(run.pid, signal.SIGKILL)
            run.wait()
            run.stderr.close()
            if not self.fleet.exists() or not (self.fleet / "inputs").exists():
                continue
            self.check_after_kill(files, kill % 2 == 0)
            pending += len(list((self.fleet / "inputs").glob("*.pending")))
        self.ingest(*files)
        self.check_whole()
        self.assertEqual(self.content(), alone)
        self.assertEqual(list((self.fleet / "inputs").glob("*.pending")), [])
        self.run_fleet("align", self.fleet)

    def check_after_kill(self, files: list[Path], is_over: bool) -> None:
        """What is there is of an input that is whole, or of one that is named as missing."""
        if is_over:
            named = {file for path in (self.fleet / "inputs").glob("*.pending") for file in json.loads(path.read_text())["files"]}
            whole = {file for record in self.records().values() for file in record["files"]}
            self.assertLessEqual(whole, self.table_files())
            # A kill between a file's temporary name and its own leaves the temporary one; whoever comes next takes it away (check_whole()).
            begun = {file for file in self.table_files() if re.fullmatch(r"\.proftrace-[0-9]+-[0-9]+\.tmp", Path(file).name)}
            self.assertLessEqual({str(Path(file).parent) for file in begun}, {str(Path(file).parent) for file in named})
            self.assertLessEqual(self.table_files() - whole - begun, named)
        done = subprocess.run([PROFTRACE, "fleet", "align", str(self.fleet), "--json"], capture_output=True, text=True, timeout=120)
        if done.returncode == USAGE:
            self.assertRegex(done.stdout, "has no input|is no directory of a fleet")
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        left = {json.loads(path.read_text())["path"] for path in (self.fleet / "inputs").glob("*.pending")}
        if is_over:
            self.assertEqual({of["path"] for of in said["missing"]}, left)
            self.check_whole()
        self.assertLessEqual({record["path"] for record in self.records().values()} | left, {str(file) for file in files})

    def test_a_changed_input_is_replaced_however_it_is_killed(self) -> None:
        files = self.write_ranks(2, steps=300)
        moments = random.Random(39)
        for round_ in range(8):
            self.ingest(*files)
            files[0].write_text(json.dumps(trace(0, 2, 200 + round_)))
            run = self.start(*files)
            time.sleep(moments.uniform(0, 0.15))
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            run.stderr.close()
        self.ingest(*files)
        self.assertEqual(sorted(record["path"] for record in self.records().values()), [str(file) for file in files])
        self.check_whole()


if __name__ == "__main__":
    python = os.environ.pop("PROFTRACE_PARQUET_PYTHON", "")
    if python:
        os.execv(python, [python, *sys.argv])
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])

#!/usr/bin/env python3
"""`proftrace fleet` over made-up jobs with planted causes: each is found, and nobody else is accused. Needs DuckDB, pandas and pyarrow
(scripts/install-fleet-engine.sh --tests): fleet_test.py PROFTRACE. PROFTRACE_SPARK=PYTHON asks Spark, too."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import duckdb_cli
import numpy
import pandas
import pyarrow
import pyarrow.parquet
from simulate import MS, PARTS, Cause, Fleet, write_fleet

PROGRAM = Path()
PYTHON = Path(sys.executable)
DUCKDB = PYTHON.parent / "duckdb"
# The cause that `ranks` names for a planted part.
NAMES = {"run_queue": "run queue", "collection": "garbage collection", "system_calls": "system calls"}


def run(*arguments: str, code: int = 0, engine: Path = DUCKDB, timeout: float = 300, **variables: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([PROGRAM, "fleet", *arguments], capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, "PROFTRACE_DUCKDB": str(engine), **variables}, check=False)
    if done.returncode != code:
        raise AssertionError(f"{arguments} ended with {done.returncode}, not {code}: {done.stderr}{done.stdout[:2000]}")
    return done


def ask(folder: Path, question: str, **options: Any) -> list[dict[str, Any]]:
    return list(json.loads(run("query", str(folder), question, "--json", **options).stdout)["rows"])


class FleetTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def write(self, name: str = "tables", **options: Any) -> Path:
        write_fleet(self.folder / name, Fleet(**options))
        return self.folder / name


class VerdictTest(FleetTest):
    def check(self, causes: tuple[Cause, ...], **options: Any) -> list[dict[str, Any]]:
        """The verdict has exactly the planted ranks, each with its cause and its size."""
        folder = self.write(name=f"t{time.monotonic_ns()}", causes=causes, **options)
        rows = ask(folder, "verdict")
        self.assertEqual(sorted((row["rank"], row["cause"]) for row in rows),
                         sorted((cause.rank, NAMES.get(cause.part, cause.part)) for cause in causes))
        for row in rows:
            cause = next(cause for cause in causes if cause.rank == row["rank"])
            mean = cause.ms / cause.every
            self.assertAlmostEqual(row["excess_ns"] / MS, mean, delta=max(0.12 * mean, 1.0), msg=cause)
            self.assertGreater(row["coverage"], 0.8, cause)
        shutil.rmtree(folder)
        return rows

    def test_each_cause_alone_of_4_ranks(self) -> None:
        for seed, part in enumerate([*PARTS, "gpu"]):
            with self.subTest(part):
                self.check((Cause(2, part, 20.0),), seed=seed + 10)

    def test_three_sizes_of_64_ranks(self) -> None:
        for ms in (8.0, 25.0, 120.0):
            with self.subTest(ms):
                self.check((Cause(37, "operators", ms),), ranks=64, seed=int(ms))

    def test_several_at_once(self) -> None:
        self.check((Cause(13, "data", 30.0, every=3), Cause(22, "gpu", 20.0, begin=30), Cause(41, "run_queue", 9.0), Cause(60, "io", 40.0, 20, 40)),
                   ranks=64, seed=3)
        # Three of four: each is compared by its own part.
        self.check((Cause(1, "python", 200.0), Cause(2, "data", 150.0), Cause(3, "run_queue", 100.0)), seed=4)

    def test_nobody_in_a_balanced_job(self) -> None:
        for seed in range(5):
            for ranks in (4, 64):
                with self.subTest(ranks=ranks, seed=seed):
                    self.check((), ranks=ranks, seed=seed, noise=1.0 + seed)

    def test_a_culprit_that_step_times_hide(self) -> None:
        """Four ranks with step times within a millisecond, and 200 ms planted in the backward of one of them."""
        folder = self.write(causes=(Cause(1, "python", 200.0),))
        medians = [row["median_ns"] / MS for row in ask(folder, "step_times")]
        self.assertLess(max(medians) - min(medians), 1.0)
        text = run("report", str(folder)).stdout
        self.assertIn("Rank 1 (host-000) is slow from the first step that was seen (0) on: each step takes it 200.0 ms longer", text)
        self.assertIn("Why: its Python code outside of operators takes longer, which explains 100 % of it.", text)
        self.assertIn("Sure: all ranks were seen", text)
        self.assertEqual(text.count("is slow"), 1)

    def test_since_which_step(self) -> None:
        folder = self.write(ranks=16, steps=80, causes=(Cause(5, "gpu", 20.0, begin=55), Cause(9, "data", 15.0, 10, 30), Cause(3, "lock", 10.0)))
        found = {row["rank"]: (row["has_changed"], row["from_step"], row["to_step"]) for row in ask(folder, "verdict")}
        self.assertEqual(found, {5: (1, 55, 79), 9: (1, 10, 29), 3: (0, 0, 79)})
        text = run("report", str(folder)).stdout
        self.assertIn("is slow since step 55", text)
        self.assertIn("is slow from step 10 to step 29", text)

    def test_ranks_of_other_stages_are_not_compared(self) -> None:
        folder = self.write(ranks=16, stages=2, causes=(Cause(3, "operators", 20.0),))
        self.assertEqual({row["rank"] for row in ask(folder, "verdict")}, {3})
        cohorts = {row["rank"]: row["cohort"] for row in ask(folder, "SELECT rank, cohort FROM cohorts")}
        self.assertEqual(len(set(cohorts.values())), 2)

    def test_it_says_what_it_cannot_know(self) -> None:
        folder = self.write(unseen=(0, 3), causes=(Cause(1, "python", 200.0),))
        text = run("report", str(folder)).stdout
        self.assertIn("2 of 4 ranks were seen: too few to know which rank is slow.", text)
        self.assertNotIn("is slow from", text)
        self.assertEqual(ask(folder, "verdict"), [])

    def test_processes_without_a_rank_are_not_counted_as_ranks(self) -> None:
        folder = self.write(ranks=1)
        file = folder / "aligned/captures.parquet"
        table = pyarrow.parquet.read_table(file)
        at = table.schema.get_field_index("rank")
        pyarrow.parquet.write_table(table.set_column(at, table.schema.field(at), pyarrow.nulls(len(table), table.schema.field(at).type)), file)
        text = run("report", str(folder)).stdout
        self.assertIn("The recorded processes say no rank", text)
        self.assertNotIn("0 ranks", text)

    def test_unseen_ranks_may_be_slower(self) -> None:
        folder = self.write(ranks=16, unseen=(2, 7), causes=(Cause(1, "python", 50.0),))
        text = run("report", str(folder)).stdout
        self.assertIn("Rank 1 (host-000) is slow", text)
        self.assertIn("Likely: 14 of 16 ranks were seen, and one of the others may be slower.", text)
        self.assertIn("only 14 of 16 ranks were seen: one of the others may be slow.", run("report", str(self.write("b", ranks=16, unseen=(2, 7)))).stdout)

    def test_without_times_off_the_cpu_the_cause_is_not_guessed(self) -> None:
        folder = self.write(ranks=8, with_parts=False, causes=(Cause(4, "data", 30.0), Cause(6, "gpu", 30.0)))
        self.assertEqual({row["rank"]: row["cause"] for row in ask(folder, "verdict")}, {4: "not recorded", 6: "gpu"})
        self.assertIn("--activities cpu,sched,syscalls", run("report", str(folder)).stdout)

    def test_a_cause_that_explains_less_than_half_is_unknown(self) -> None:
        causes = (Cause(4, "data", 10.0), Cause(4, "io", 9.0), Cause(4, "lock", 8.0))
        row, = ask(self.write(ranks=8, causes=causes), "verdict")
        self.assertEqual((row["rank"], row["cause"], row["largest_part"]), (4, "unknown", "data"))

    @unittest.skipUnless(os.environ.get("PROFTRACE_ALL") == "1", "takes a minute: PROFTRACE_ALL=1")
    def test_1000_ranks(self) -> None:
        """Each cause, in three sizes, of many hosts at once; and nobody where all are alike."""
        parts, sizes = [*PARTS, "gpu"], (14.0, 40.0, 110.0)
        causes = tuple(Cause(97 * index + 11, part, sizes[index % 3], begin=10 * (index % 2)) for index, part in enumerate(parts))
        self.assertGreater(len(causes), 10)
        self.check(causes, ranks=1000, steps=40, collectives=2, seed=5)
        self.check((), ranks=1000, steps=40, collectives=2, seed=6, noise=2.0)

    def test_few_steps_accuse_nobody(self) -> None:
        folder = self.write(ranks=8, steps=2, causes=(Cause(4, "data", 50.0),))
        self.assertEqual(ask(folder, "verdict"), [])
        self.assertIn("only 2 steps were seen", run("report", str(folder)).stdout)


class QuestionsTest(FleetTest):
    """Questions against what pandas finds in the same files."""

    def test_waits_and_transfers(self) -> None:
        folder = self.write(ranks=12, ranks_a_host=4)
        rows = pandas.read_parquet(folder / "aligned/collectives.parquet")
        keys = ["group_key", "seq", "op"]
        grouped = rows.groupby(keys)
        rows["last"], rows["first_end"] = grouped.begin_ns.transform("max"), grouped.end_ns.transform("min")
        rows["wait"], rows["tail"] = rows["last"] - rows.begin_ns, rows.end_ns - rows.first_end
        rows["transfer"] = rows.first_end - rows["last"]
        rows["duration"] = rows.end_ns - rows.begin_ns
        rows["clockless"] = rows.duration - rows.groupby(keys).duration.transform("min")
        rows["is_last"] = rows.begin_ns == rows["last"]
        want = rows.groupby("rank")[["duration", "wait", "transfer", "tail", "clockless", "is_last"]].sum()
        for row in ask(folder, "wait_by_rank"):
            other = want.loc[row["rank"]]
            self.assertEqual([row["duration_ns"], row["wait_ns"], row["transfer_ns"], row["tail_ns"], row["wait_without_clocks_ns"], row["times_last"]],
                             [int(value) for value in other])
            self.assertEqual(row["duration_ns"], row["wait_ns"] + row["transfer_ns"] + row["tail_ns"])
        group, = ask(folder, "wait_transfer")
        self.assertEqual((group["wait_ns"], group["instances"]), (int(rows.wait.sum()), rows.seq.nunique()))

    def test_late_ranks(self) -> None:
        folder = self.write(ranks=6, causes=(Cause(2, "python", 30.0), Cause(4, "python", 20.0)))
        rows = pandas.read_parquet(folder / "aligned/collectives.parquet").sort_values(["seq", "begin_ns"])
        last = rows.groupby("seq").nth(-1).set_index("seq")
        gap = last.begin_ns - rows.groupby("seq").nth(-2).set_index("seq").begin_ns
        want = pandas.DataFrame({"rank": last["rank"], "gap": gap, "proved": gap.where(gap > 2 * last.bound_ns, 0)}).groupby("rank")
        sums = want.sum()
        self.assertEqual({row["rank"]: (row["times_last"], row["held_up_ns"], row["beyond_clock_error_ns"]) for row in ask(folder, "late_ranks")},
                         {rank: (int(want.size()[rank]), int(sums.gap[rank]), int(sums.proved[rank])) for rank in sums.index})

    def test_step_times(self) -> None:
        folder = self.write(ranks=5)
        steps = pandas.read_parquet(folder / "aligned/steps.parquet")
        steps["own"] = steps.duration_ns - steps.comm_exposed_ns
        want = steps.groupby("rank").agg(median=("duration_ns", "median"), p99=("duration_ns", lambda one: one.quantile(0.99)),
                                         own=("own", "median"), mean=("duration_ns", "mean"), deviation=("duration_ns", "std"))
        rows = ask(folder, "step_times")
        self.assertEqual([row["rank"] for row in rows], list(want.sort_values("own", ascending=False).index))
        for row in rows:
            other = want.loc[row["rank"]]
            for got, expected in ((row["median_ns"], other["median"]), (row["p99_ns"], other.p99), (row["own_median_ns"], other.own),
                                  (row["variation"], other.deviation / other["mean"])):
                self.assertTrue(math.isclose(got, expected, rel_tol=1e-9), (got, expected))

    def test_excess_and_spread(self) -> None:
        """The statistics of the verdict, in another way: by whole tables, part by part."""
        folder = self.write(ranks=9, causes=(Cause(3, "io", 12.0),))
        steps = pandas.read_parquet(folder / "aligned/steps.parquet")
        steps["why_waiting_ns"], steps["why_system_calls_ns"] = steps.why_event_ns, steps.why_other_ns
        names = [f"why_{part}_ns" for part in PARTS]
        excess, variance = 0.0, 0.0
        for name in names:
            table = steps.pivot(index="step", columns="rank", values=name)
            above = table.sub(table.median(axis=1), axis=0)
            means = above.mean()
            excess = excess + above - means.median()
            variance += (means - means.median()).abs().median() ** 2
        for row in ask(folder, "SELECT * FROM ranks"):
            inside = excess[row["rank"]].loc[row["from_step"]:row["to_step"]]
            self.assertTrue(math.isclose(row["excess_ns"], inside.mean(), rel_tol=1e-9, abs_tol=1e-3), row["rank"])
            self.assertTrue(math.isclose(row["spread_ns"], 1.4826 * math.sqrt(variance), rel_tol=1e-9))
            self.assertEqual(row["is_slow"], int(row["rank"] == 3))

    def test_what_if_and_exposed_communication(self) -> None:
        folder = self.write(ranks=9, causes=(Cause(3, "io", 12.0),))
        steps = pandas.read_parquet(folder / "aligned/steps.parquet")
        sums = steps.groupby("rank")[["comm_ns", "comm_exposed_ns", "duration_ns"]].sum()
        for row in ask(folder, "exposed_communication"):
            self.assertTrue(math.isclose(row["exposed_share"], sums.comm_exposed_ns[row["rank"]] / sums.duration_ns[row["rank"]], rel_tol=1e-9))
        rows = pandas.DataFrame(ask(folder, "SELECT step, rank, excess_ns, cohort_duration_ns FROM excess"))
        table = rows.pivot(index="step", columns="rank", values="excess_ns")
        found, = ask(folder, "what_if")
        lost = table.max(axis=1).clip(lower=0)
        others = table.drop(columns=3).max(axis=1).clip(lower=0)
        self.assertTrue(math.isclose(found["lost_ns"], lost.sum(), rel_tol=1e-9))
        self.assertTrue(math.isclose(found["slow_lost_ns"], (lost - others).sum(), rel_tol=1e-9))
        self.assertTrue(0.07 < found["slow_share"] < 12.0 / 104, found)

    def test_slow_gpus_files_and_links(self) -> None:
        folder = self.write(ranks=32, groups=(1.0, 1.0, 3.0, 1.0), causes=(Cause(7, "gpu", 25.0), Cause(9, "data", 60.0)))
        self.assertEqual(ask(folder, "slow_gpus")[0]["rank"], 7)
        self.assertAlmostEqual(ask(folder, "slow_gpus")[0]["gpu_score"], 50 / 75, delta=0.02)
        stall = ask(folder, "loader_stalls")[0]
        self.assertEqual((stall["rank"], stall["worst_path"], round(stall["io_share"], 1)), (9, "/data/shard-0009.bin", 0.9))
        group, = ask(folder, "slow_groups")
        self.assertEqual((group["group_key"], round(group["ratio"])), (f"{2:016x}", 3))

    def test_incomplete_collectives(self) -> None:
        row, = ask(self.write(ranks=8, lost_row=True), "incomplete_collectives")
        self.assertEqual((row["ranks_seen"], row["group_size"], row["instances"]), (7, 8, 1))

    def test_every_question_answers(self) -> None:
        folder, empty = self.write(ranks=8), self.folder / "empty"
        shutil.copytree(folder / "aligned", empty / "aligned")
        for path in (empty / "aligned").iterdir():
            if path.stem != "captures":
                path.unlink()
        for line in run("query", "--list").stdout.splitlines():
            name = line.split()[0]
            if name.startswith("diff_"):
                self.assertIn("fleet diff", run("query", str(folder), name, code=2).stderr)
                continue
            with self.subTest(name):
                self.assertIsInstance(ask(folder, name), list)
                ask(empty, name)  # tables that are not there are empty
                text = run("query", "--show", name).stdout
                self.assertRegex(text, r"\A-- [A-Z].*\n(-- .*\n)+")


class EnginesTest(FleetTest):
    def names(self) -> list[str]:
        return [line.split()[0] for line in run("query", "--list").stdout.splitlines() if not line.startswith("diff_")]

    def answers_of_spark(self, folder: Path, questions: list[str]) -> dict[str, list[dict[str, Any]]]:
        """All answers of one session, which takes half a minute to begin: the engine is this script, which has it asked more."""
        texts = {name: run("query", "--show", name).stdout for name in questions}
        engine, answer = self.folder / "engine", self.folder / "answer.jsonl"
        statements = [statement for name, text in texts.items()
                      for statement in ([{"kind": "keep", "name": name, "sql": text}] if "-- A view:" in text else []) + [
                          {"kind": "ask", "name": name, "sql": f"SELECT * FROM {name}" if "-- A view:" in text else text}]]
        engine.write_text(f"""#!{os.environ["PROFTRACE_SPARK"]}
import json, os, subprocess, sys
os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 3g pyspark-shell"  # all questions in one session; the default is 1 GB
driver, request = sys.argv[1:3]
document = json.load(open(request, encoding="utf-8"))
document["statements"] = [one for one in document["statements"] if one["kind"] == "table"] + json.loads({json.dumps(statements)!r})
json.dump(document, open(request, "w", encoding="utf-8"))
open(sys.argv[3], "w").close()
sys.exit(subprocess.run([sys.executable, driver, request, {str(answer)!r}]).returncode)
""", encoding="utf-8")
        engine.chmod(0o700)
        run("query", str(folder), "SELECT 1", "--csv", "--engine", "spark", "--master", "local[1]", timeout=1500, PROFTRACE_SPARK=str(engine))
        answers: dict[str, list[dict[str, Any]]] = {}
        rows: list[dict[str, Any]] = []
        for line in map(json.loads, answer.read_text(encoding="utf-8").splitlines()):
            if "proftrace_question" in line:
                rows = answers[line["proftrace_question"]] = []
            elif "proftrace_rows" not in line and "column_type" not in line:
                rows.append(line)
        return answers

    def compare(self, rows: list[dict[str, Any]], others: list[dict[str, Any]], what: str) -> None:
        self.assertEqual(len(rows), len(others), what)
        for row, other in zip(rows, others, strict=True):
            self.assertEqual(list(row), list(other), what)
            for name, value in row.items():
                if isinstance(value, float) or isinstance(other[name], float):
                    self.assertTrue(math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-9), (what, name, value, other[name]))
                else:
                    self.assertEqual(value, other[name], (what, name))

    def fleet(self) -> Path:
        return self.write(ranks=8, steps=30, causes=(Cause(3, "data", 25.0), Cause(5, "gpu", 20.0, begin=12)), lost_row=True)

    def test_the_program_and_the_python_package_agree(self) -> None:
        folder, views = self.fleet(), set()
        for name in self.names():
            if "-- A view:" in run("query", "--show", name).stdout:
                views.add(name)
            rows, others = ask(folder, name), ask(folder, name, engine=PYTHON)
            if name in views:  # which have no order
                rows, others = sorted(rows, key=json.dumps), sorted(others, key=json.dumps)
            self.compare(rows, others, name)
        self.assertEqual(run("report", str(folder)).stdout, run("report", str(folder), engine=PYTHON).stdout)

    @unittest.skipUnless(os.environ.get("PROFTRACE_SPARK"), "PROFTRACE_SPARK names no Python with pyspark")
    def test_spark_gives_the_same_rows_for_each_question(self) -> None:
        folder, names = self.fleet(), self.names()
        spark = self.answers_of_spark(folder, names)
        self.assertEqual(list(spark), names)
        for name in names:
            with self.subTest(name):
                rows, others = ask(folder, name), spark[name]
                if "-- A view:" in run("query", "--show", name).stdout:  # which has no order
                    rows, others = sorted(rows, key=self.key), sorted(others, key=self.key)
                self.compare(rows, others, name)

    @staticmethod
    def key(row: dict[str, Any]) -> str:
        return json.dumps([(name, value) for name, value in row.items() if not isinstance(value, float)])

    @unittest.skipUnless(os.environ.get("PROFTRACE_SPARK"), "PROFTRACE_SPARK names no Python with pyspark")
    def test_spark_agrees_on_the_pages(self) -> None:
        before, after = self.fleet(), self.write("after", ranks=8, steps=30, seed=2, causes=(Cause(3, "io", 30.0),))
        for command in (("report", str(before)), ("diff", str(before), str(after))):
            spark = json.loads(run(*command, "--json", "--engine", "spark", "--master", "local[1]", timeout=1500).stdout)
            duckdb = json.loads(run(*command, "--json").stdout)
            self.assertEqual(spark["sentences"], duckdb["sentences"])
            for name, rows in duckdb["answers"].items():
                self.compare(rows, spark["answers"][name], name)

    def test_no_engine_is_one_sentence(self) -> None:
        folder = self.write()
        for engine, word in (("duckdb", "pip install duckdb-cli"), ("spark", "pip install pyspark")):
            nobody = {"PROFTRACE_DUCKDB": "", "PROFTRACE_SPARK": "", "PATH": "/nonexistent", "HOME": "/nonexistent", "XDG_DATA_HOME": ""}
            done = run("report", str(folder), "--engine", engine, code=6, **nobody)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(word, done.stderr)

    def test_errors_of_the_engine_are_a_sentence(self) -> None:
        folder = self.write()
        for engine in (DUCKDB, PYTHON):
            for text, word in (("SELECT nothing FROM steps", "nothing"), ("SELEC 1", "syntax error"), ("SELECT 1 AS a, 2 AS a", "two columns")):
                done = run("query", str(folder), text, code=2, engine=engine)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stdout, "")
        (folder / "aligned/steps.parquet").write_bytes(b"PAR1 not a table PAR1")
        done = run("query", str(folder), "step_times", code=8)
        self.assertIn(str(folder), done.stderr)


class OutputsTest(FleetTest):
    def test_forms(self) -> None:
        folder = self.write()
        text = "SELECT 1 AS a, 'x,\"y\"\n=z' AS b, NULL AS c, 0.5e0 AS d, 1e0 / 0e0 AS e, SUM(9007199254740993) AS f"
        for engine in (DUCKDB, PYTHON):
            document = json.loads(run("query", str(folder), text, "--json", engine=engine).stdout)
            self.assertEqual(document["rows"], [{"a": 1, "b": "x,\"y\"\n=z", "c": None, "d": 0.5, "e": None, "f": 9007199254740993}])
            self.assertEqual(document["columns"], ["a", "b", "c", "d", "e", "f"])
            rows = list(csv.reader(io.StringIO(run("query", str(folder), text, "--csv", engine=engine).stdout)))
            self.assertEqual(rows, [["a", "b", "c", "d", "e", "f"], ["1", "x,\"y\"\n=z", "", "0.5", "", "9007199254740993"]])
            self.assertIn("x,\"y\"\\n=z", run("query", str(folder), text, engine=engine).stdout)
        self.assertEqual(run("query", str(folder), "SELECT rank FROM steps WHERE FALSE", "--csv").stdout, "rank\n")

    def test_sql_of_a_file(self) -> None:
        folder = self.write()
        file = self.folder / "mine.sql"
        file.write_text("-- a comment; with a semicolon\nSELECT COUNT(*) AS n /* ; */ FROM own_time WHERE host <> ';'\n;\n-- the end", encoding="utf-8")
        self.assertEqual(ask(folder, str(file)), [{"n": 240}])
        file.write_text("SELECT 1;\n.shell touch hacked\nSELECT 2;", encoding="utf-8")
        self.assertIn("several statements", run("query", str(folder), str(file), code=2).stderr)
        self.assertIn("did you mean stragglers?", run("query", str(folder), "straglers", code=2).stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_under_sudo_the_engine_is_the_callers(self) -> None:
        folder, secret, wrapper = self.write(), self.folder / "secret.csv", self.folder / "duckdb"
        secret.write_text("a\n1\n", encoding="ascii")
        secret.chmod(0o600)
        shutil.copy(Path(duckdb_cli.__file__).parent / "duckdb", self.folder / "engine")  # where anybody can start it
        wrapper.write_text(f'#!/bin/sh\nid -u > {self.folder}/uid; id -G > {self.folder}/groups; exec {self.folder}/engine "$@"\n', encoding="ascii")
        wrapper.chmod(0o755)
        text = f"SELECT * FROM read_csv('{secret}')"
        self.assertEqual(ask(folder, text), [{"a": 1}])
        self.folder.chmod(0o777)
        user = {"SUDO_UID": "65534", "SUDO_GID": "65534", "SUDO_USER": "nobody", "TMPDIR": "/tmp"}
        self.assertEqual(ask(folder, "SELECT COUNT(*) AS n FROM own_time", engine=wrapper, **user), [{"n": 240}])
        self.assertEqual([(self.folder / name).read_text().split() for name in ("uid", "groups")], [["65534"], ["65534"]])
        self.assertIn("Permission denied", run("query", str(folder), text, code=8, engine=wrapper, **user).stderr)

    def test_hosts_that_are_not_named(self) -> None:
        folder = self.write()
        table = pandas.read_parquet(folder / "aligned/captures.parquet")
        table["host"] = None
        table.to_parquet(folder / "aligned/captures.parquet")
        text = run("report", str(folder)).stdout
        self.assertIn("hosts: not known", text)
        self.assertIn("Clocks: hosts that are not named", text)
        self.assertNotIn("0 hosts", text)

    def test_hostile_names(self) -> None:
        """Directories, hosts, jobs, groups and files with names that are SQL, patterns or commands of a terminal."""
        name = "it's \\ [a]*?{b},$(x);--\"\u00e9\nq|%41"
        folder = self.write(name=name, job="'; DROP TABLE steps; --", causes=(Cause(1, "python", 50.0),))
        table = pandas.read_parquet(folder / "aligned/steps.parquet")
        table["host"] = "\x1b[2Jh'\"\n"
        table.to_parquet(folder / "aligned/steps.parquet")
        for engine in (DUCKDB, PYTHON):
            done = run("report", str(folder), engine=engine)
            self.assertIn("is slow", done.stdout)
            self.assertNotIn("\x1b", done.stdout)
            self.assertEqual(ask(folder, "SELECT DISTINCT host, job FROM own_time", engine=engine),
                             [{"host": "\x1b[2Jh'\"\n", "job": "'; DROP TABLE steps; --"}])

    def test_nothing_is_left_behind(self) -> None:
        folder, scratch = self.write(), self.folder / "tmp"
        scratch.mkdir()
        run("report", str(folder), TMPDIR=str(scratch))
        run("query", str(folder), "SELECT nothing", code=2, TMPDIR=str(scratch))
        self.assertEqual(list(scratch.iterdir()), [])
        child = subprocess.Popen([PROGRAM, "fleet", "query", str(folder), "SELECT COUNT(*) FROM range(1000000000000) a, steps b, steps c"],
                                 env={**os.environ, "PROFTRACE_DUCKDB": str(DUCKDB), "TMPDIR": str(scratch)}, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not list(scratch.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=20)
        self.assertNotEqual(child.returncode, 0)
        self.assertIn(b"stopped", errors)
        self.assertEqual(list(scratch.iterdir()), [])

    def test_a_reader_that_goes_away(self) -> None:
        folder = self.write()
        with subprocess.Popen([PROGRAM, "fleet", "query", str(folder), "SELECT * FROM range(3000000)", "--csv"], stdout=subprocess.PIPE,
                              env={**os.environ, "PROFTRACE_DUCKDB": str(DUCKDB)}) as child:
            assert child.stdout is not None
            self.assertEqual(child.stdout.readline(), b"range\n")
            child.stdout.close()
            self.assertEqual(child.wait(timeout=60), 0)

    def test_what_is_no_fleet(self) -> None:
        self.assertIn("fleet ingest", run("report", str(self.folder), code=2).stderr)
        self.assertIn("No such file", run("report", str(self.folder / "none"), code=2).stderr)
        folder = self.write()
        (folder / "steps").mkdir()
        (folder / "aligned/steps.parquet").rename(folder / "steps/x.parquet")
        self.assertIn("fleet align", run("report", str(folder), code=2).stderr)
        self.assertIn("--engine spark", run("report", "s3a://bucket/tables", code=2).stderr)

    def test_inputs_that_came_after_the_alignment_are_told_of(self) -> None:
        folder, golden = self.folder / "tables", Path(__file__).resolve().parent.parent / "golden"
        run("ingest", str(golden / "mlp/capture.ptrec"), "-o", str(folder))
        run("align", str(folder))
        self.assertEqual(run("query", str(folder), "SELECT 1").stderr, "")
        run("ingest", str(golden / "workers/capture.ptrec"), "-o", str(folder))
        self.assertIn("fleet align", run("query", str(folder), "SELECT 1").stderr)
        run("align", str(folder))
        self.assertEqual(run("query", str(folder), "SELECT 1").stderr, "")
        # What says so may be damaged: then nobody knows.
        for text in ('{"version": "one"}', '{"version": 1, "of_inputs": 7}', "[", ""):
            (folder / "aligned/alignment.json").write_text(text, encoding="utf-8")
            self.assertIn("fleet align", run("query", str(folder), "SELECT 1").stderr, text)

    def test_the_prompt_has_the_views(self) -> None:
        folder = self.write()
        for engine in (DUCKDB, PYTHON):
            done = subprocess.run([PROGRAM, "fleet", "sql", str(folder)], input="SELECT COUNT(*) AS n FROM own_time;\nSELECT wrong;\nSELECT 4711 AS m;\n",
                                  capture_output=True, text=True, timeout=60, env={**os.environ, "PROFTRACE_DUCKDB": str(engine)}, check=True)
            self.assertIn("240", done.stdout)
            if engine == PYTHON:
                self.assertIn("4711", done.stdout)

    def test_diff(self) -> None:
        before, after = self.write("before", ranks=8), self.write("after", ranks=8, seed=2, causes=(Cause(3, "io", 30.0),))
        document = json.loads(run("diff", str(before), str(after), "--json").stdout)
        self.assertRegex(document["sentences"][0], r"Steps take 1\d\d\.\d ms instead of \d+\.\d ms")
        parts = {row["what"]: row for row in document["answers"]["diff_run"]}
        self.assertAlmostEqual(parts["step"]["change_ns"] / MS, 30, delta=4)
        self.assertEqual([name for name, row in parts.items() if row["is_beyond_noise"]], ["step", "exposed communication", "own time", "io"])
        ranks = document["answers"]["diff_ranks"]
        self.assertEqual((ranks[0]["rank"], [row["rank"] for row in ranks if row["is_beyond_noise"]]), (3, [3]))
        # One of several runs is chosen, whatever the job is called.
        both, hostile = self.folder / "both", "job '\\2"
        shutil.copytree(before, both)
        for name in ("captures", "steps", "collectives"):
            tables = [pyarrow.parquet.read_table(path / f"aligned/{name}.parquet") for path in (before, after)]
            other = tables[1].set_column(tables[1].schema.get_field_index("job"), "job", pyarrow.array([hostile] * len(tables[1])))
            pyarrow.parquet.write_table(pyarrow.concat_tables([tables[0], other]), both / f"aligned/{name}.parquet")
        self.assertIn("has several runs: job job '\\2 attempt 0, job job-1 attempt 0; choose one with --job",
                      run("diff", str(both), str(both), code=2).stderr)
        chosen = json.loads(run("diff", str(both), str(both), "--job", "job-1", "--job", hostile, "--json").stdout)
        self.assertEqual(chosen["sentences"], document["sentences"])
        self.assertIn("no steps of that job", run("diff", str(both), str(both), "--job", "job-1", "--job", "none", code=2).stderr)
        self.assertIn("no steps of that job", run("diff", str(before), str(after), "--attempt", "3", code=2).stderr)
        self.assertIn("within the noise", run("diff", str(before), str(self.write("same", ranks=8, seed=7))).stdout)


if __name__ == "__main__":
    PROGRAM = Path(sys.argv.pop(1)).resolve()
    sys.path.insert(0, str(Path(__file__).parent))
    unittest.main()

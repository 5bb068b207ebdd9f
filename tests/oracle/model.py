"""Rows of a recording, whoever made it, and the rules by which two recordings are laid beside each other."""

from __future__ import annotations

import copy
import csv
import dataclasses
import functools
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import IO, Any, Iterable

BEGIN = "proftrace.window.begin"
END = "proftrace.window.end"
# Rows that torch.profiler's events() and key_averages() leave out (torch/autograd/profiler.py, _filter_name).
FILTERED = frozenset({
    "[memory]", "profiler::_record_function_enter", "profiler::_record_function_enter_new",
    "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version"})


@dataclasses.dataclass
class Row:
    """One span of one thread. `parent` is an index into the list that the row is in, or -1."""

    name: str
    start_ns: int
    duration_ns: int
    parent: int
    depth: int
    category: str
    end: str = "return"
    number: int = -1  # of the row in its file, from 0 on
    inputs: dict[str, Any] | None = None  # "dims", "types", "strides", "concrete": as in Kineto's args
    stack: list[str] | None = None  # frames of Python, outermost first
    scope: str = ""  # torch's RecordScope
    sequence: int = -1
    forward_tid: int = 0  # of a node: the thread of its forward


Threads = dict[tuple[int, int], list[Row]]  # (pid, tid): rows in the order of their starts


@dataclasses.dataclass
class Oracle:
    """torch.profiler's answer for one process, or for one thread where it can only answer for one."""

    pid: int
    torch: str
    source: str
    deduplicated: bool
    threads: Threads
    key_averages: dict[str, int]
    tensors_only: frozenset[str] = frozenset()  # rows of which torch shows no other inputs
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)  # rows of scopes that the recording lacks, by name


# Rows of custom autograd Functions, which have torch's scope of operators: among the scopes that a recording may lack.
CUSTOM_FUNCTION = "CUSTOM_FUNCTION"


def read_oracles(directory: Path, without_scopes: frozenset[str] = frozenset()) -> list[Oracle]:
    """Every oracle-*.jsonl of a job, with the key averages beside it."""
    paths = sorted(directory.glob("oracle-*.jsonl"))
    if not paths:
        raise ValueError(f"{directory}: no oracle-*.jsonl; did the job run with --mode profile?")
    return [read_oracle(path, without_scopes) for path in paths]


def read_oracle(path: Path, without_scopes: frozenset[str] = frozenset()) -> Oracle:
    lines = path.read_text(encoding="utf-8").splitlines()
    header = json.loads(lines[0])
    records = [json.loads(line) for line in lines[1:]]
    averages_path = path.with_name(path.name.replace("oracle-", "key_averages-")).with_suffix(".json")
    averages = {row["name"]: row["count"] for row in json.loads(averages_path.read_text(encoding="utf-8"))}
    functions = frozenset(header.get("functions", []))
    threads: Threads = {}
    places: list[tuple[list[Row], int]] = []
    for number, record in enumerate(records):
        rows = threads.setdefault((header["pid"], record["tid"]), [])
        parent, depth = -1, 0
        if record["parent"] >= 0:
            parent_rows, parent = places[record["parent"]]
            # torch's tree has a node of a device's thread below what is open on its forward's thread (collection.cpp, build_tree).
            if parent_rows is not rows:
                parent = -1
            depth = rows[parent].depth + 1 if parent >= 0 else 0
        places.append((rows, len(rows)))
        scope = record.get("scope", "")
        if scope == "FUNCTION" and record["name"] in functions:
            scope = CUSTOM_FUNCTION
        duration = record["end_ns"] - record["start_ns"]
        rows.append(Row(record["name"], record["start_ns"], duration, parent, depth, record["cat"],
                        number=number, inputs=record.get("inputs"), stack=record.get("stack"), scope=scope,
                        sequence=record.get("seq", -1), forward_tid=record.get("fwd_tid", 0)))
    oracle = Oracle(header["pid"], header["torch"], header["source"], header["deduplicated"], threads, averages,
                    frozenset(header.get("tensors_only", [])))
    leave_out(oracle, without_scopes)
    return oracle


def leave_out(oracle: Oracle, scopes: frozenset[str]) -> None:
    """Rows of these scopes, also of what is counted."""
    for key, rows in oracle.threads.items():
        left = keep(rows, [row.scope not in scopes for row in rows])
        if len(left) == len(rows):
            continue
        oracle.threads[key] = left
        oracle.left_out += Counter(row.name for row in rows if row.scope in scopes)
        before, after = listed(oracle, rows), listed(oracle, left)
        for name in before | after:
            oracle.key_averages[name] = oracle.key_averages.get(name, 0) + after[name] - before[name]


def listed(oracle: Oracle, rows: list[Row]) -> Counter[str]:
    """What key_averages() counts of them."""
    return counts(rows if oracle.deduplicated else without_only_children(rows))


COMPARED = frozenset({"cpu_op", "user_annotation"})


def open_text(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


@functools.lru_cache(maxsize=1 << 16)
def read_json(text: str) -> Any:
    """Most inputs come again; nobody changes them."""
    return json.loads(text)


def read_inputs(record: dict[str, str]) -> dict[str, Any] | None:
    columns = {"dims": "input_shapes", "types": "input_types", "strides": "input_strides", "concrete": "concrete_inputs"}
    inputs = {key: read_json(record[column]) for key, column in columns.items() if record.get(column)}
    return inputs or None


def read_events(path: Path) -> Threads:
    """proftrace's events.csv[.gz]. Rows of other categories (syscalls, memory) are not torch.profiler's to judge."""
    threads: Threads = {}
    places: dict[str, tuple[list[Row], int]] = {}
    csv.field_size_limit(1 << 24)
    with open_text(path) as file:
        records = list(csv.DictReader(file, strict=True))
    for number, record in enumerate(records, start=2):
        if record["category"] not in COMPARED:
            continue
        rows = threads.setdefault((int(record["pid"]), int(record["tid"])), [])
        parent = -1
        if record["parent_id"]:
            if record["parent_id"] not in places:
                raise ValueError(f"{path}:{number}: parent {record['parent_id']} has no row before its child")
            parent_rows, parent = places[record["parent_id"]]
            if parent_rows is not rows:
                raise ValueError(f"{path}:{number}: {record['name']!r} has a parent on another thread")
        places[record["id"]] = (rows, len(rows))
        rows.append(Row(record["name"], int(record["start_ns"]), int(record["duration_ns"] or 0), parent,
                        int(record["depth"]), record["category"], record["end"], number - 2, read_inputs(record),
                        record["stack"].split(";") if record.get("stack") else [], record.get("scope") or "",
                        int(record.get("sequence_nr") or -1), int(record.get("fwd_tid") or 0)))
    return threads


def window(rows: list[Row], where: str) -> list[Row] | None:
    """The rows after the begin marker and its children and before the end marker; None when there is no marker.
    Parents are indices into the result."""
    begins = [index for index, row in enumerate(rows) if row.name == BEGIN]
    ends = [index for index, row in enumerate(rows) if row.name == END]
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise ValueError(f"{where}: {len(begins)} begin markers and {len(ends)} end markers, expected one of each")
    first = begins[0] + 1
    while first < ends[0] and rows[first].parent >= begins[0]:
        first += 1
    return keep(rows, [first <= index < ends[0] for index in range(len(rows))])


def keep(rows: list[Row], kept: list[bool]) -> list[Row]:
    """Leaves rows out; their children move up to the nearest kept ancestor."""
    moved: list[int] = []  # old index: new index of the row, or of its nearest kept ancestor
    result: list[Row] = []
    for row, stays in zip(rows, kept):
        parent = moved[row.parent] if row.parent >= 0 else -1
        if not stays:
            moved.append(parent)
            continue
        moved.append(len(result))
        depth = result[parent].depth + 1 if parent >= 0 else 0
        moved_row = copy.copy(row)  # in a third of dataclasses.replace()'s time
        moved_row.parent, moved_row.depth = parent, depth
        result.append(moved_row)
    return result


def without_names(rows: list[Row], names: Iterable[str]) -> list[Row]:
    left_out = frozenset(names)
    return keep(rows, [row.name not in left_out for row in rows])


def only_children(rows: list[Row], parents: list[int]) -> set[int]:
    """The events that torch's _remove_dup_nodes takes away: those whose parent has the same name and no other child."""
    children = Counter(parents)
    return {i for i, parent in enumerate(parents) if parent >= 0 and rows[parent].name == rows[i].name and children[parent] == 1}


def without_only_children(rows: list[Row]) -> list[Row]:
    gone = only_children(rows, [row.parent for row in rows])
    return keep(rows, [i not in gone for i in range(len(rows))])


def counts(rows: Iterable[Row]) -> Counter[str]:
    return Counter(row.name for row in rows if row.name not in FILTERED)

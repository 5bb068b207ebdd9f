"""Lays proftrace's memory beside torch.profiler's (profile_memory=True) for the same window of the same run.

Between the two markers of each thread that profiled: the same allocations and frees in the same order, with the same
bytes, addresses and running totals; and for each row of events() the same total and self bytes. Then the recording against
itself: key_averages.csv and the chrome trace must say what events.csv says.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from collections import Counter
from pathlib import Path

import compare
import model

Figures = tuple[int, int, int, int]  # total and self bytes, of the CPU and of devices
COLUMNS = ("cpu_memory_bytes", "self_cpu_memory_bytes", "device_memory_bytes", "self_device_memory_bytes")
CPU = 0
SHOWN = 5
MEMORY_NAMES = ("[memory]", "[OutOfMemory]")


@dataclasses.dataclass
class Answer:
    problems: list[str] = dataclasses.field(default_factory=list)
    events: int = 0
    rows: int = 0
    on_devices: int = 0  # events of the chrome trace
    base: list[int] = dataclasses.field(default_factory=list)  # our running total less torch's: one a thread

    def line(self) -> str:
        return f"memory: {self.events} events and {self.rows} rows the same, {self.on_devices} events on devices, running totals + {self.base}"


@dataclasses.dataclass
class Recording:
    """events.csv: rows of each thread with their bytes, and the memory events."""

    rows: dict[tuple[int, int], list[tuple[model.Row, Figures]]]
    memory: dict[tuple[int, int, str], list[tuple[int, int, int, int | None]]]
    outside: dict[tuple[int, int], list[tuple[int, str, int, int]]]  # memory rows in no span, as events() has them


def read_recording(path: Path) -> Recording:
    recording = Recording({}, {}, {})
    places: dict[str, int] = {}
    with model.open_text(path) as file:
        for record in csv.DictReader(file, strict=True):
            key = (int(record["pid"]), int(record["tid"]))
            start = int(record["start_ns"])
            if record["category"] == "cpu_instant_event" and not (record["parent_id"] and record["name"] == "[memory]"):
                recording.outside.setdefault(key, []).append(
                    (start, record["name"], int(record["cpu_memory_bytes"]), int(record["device_memory_bytes"])))
            if record["name"] == "[memory]":
                args = json.loads(record["args"])
                column = COLUMNS[0 if record["device_type"] == "CPU" else 2]
                assert [args["bytes"] if name == column else 0 for name in COLUMNS[::2]] == [int(record[name]) for name in COLUMNS[::2]], record
                recording.memory.setdefault((*key, record["device_type"]), []).append((start, args["bytes"], args["addr"], args["total_allocated"]))
            if record["category"] not in model.COMPARED:
                continue
            rows = recording.rows.setdefault(key, [])
            places[record["id"]] = len(rows)
            parent = places[record["parent_id"]] if record["parent_id"] else -1
            row = model.Row(record["name"], start, int(record["duration_ns"]), parent, int(record["depth"]),
                            record["category"], record["end"])
            rows.append((row, tuple(int(record[column]) for column in COLUMNS)))
    return recording


def folded(rows: list[tuple[model.Row, Figures]]) -> tuple[list[model.Row], list[Figures]]:
    """As events() has them: an only child with its parent's name goes, and its self bytes are the parent's. Parents are
    indices into the result."""
    plain = [row for row, _ in rows]
    figures = [list(figure) for _, figure in rows]
    children = Counter(row.parent for row in plain)
    kept = []
    for row in plain:
        kept.append(not (row.parent >= 0 and plain[row.parent].name == row.name and children[row.parent] == 1))
    for index in reversed(range(len(plain))):
        if not kept[index]:
            for own in (1, 3):
                figures[plain[index].parent][own] += figures[index][own]
    return model.keep(plain, kept), [tuple(f) for f, stays in zip(figures, kept) if stays]


def marked(names: list[str], where: str) -> tuple[int, int]:
    if names.count(model.BEGIN) != 1 or names.count(model.END) != 1:
        raise ValueError(f"{where}: no markers")
    return names.index(model.BEGIN), names.index(model.END)


def compare_events(where: str, theirs: list[list[int]], ours: list[tuple[int, int, int, int | None]], answer: Answer) -> None:
    if len(theirs) != len(ours):
        answer.problems.append(f"{where}: torch has {len(theirs)} memory events, we {len(ours)}")
    offsets = set()
    found = []
    for index, (their, our) in enumerate(zip(theirs, ours)):
        if their[1:3] != [our[1], our[2]]:
            found.append(f"{where}: memory event {index}: torch {their[1:]}, we {our[1:]}")
        elif our[3] is None:
            found.append(f"{where}: memory event {index}: our running total is not known")
        else:
            offsets.add(our[3] - their[3])
    answer.problems += found[:SHOWN]
    answer.events += len(ours)
    if len(offsets) > 1:
        answer.problems.append(f"{where}: running totals differ by {sorted(offsets)[:SHOWN]}")
    answer.base += sorted(offsets)[:1]


def around(rows: list[list], index: int) -> int:
    """The row that the row `index` of events() lies in, -1 = none. Rows are in the order of their starts."""
    return next((other for other in range(index - 1, -1, -1) if rows[other][2] >= rows[index][2]), -1)


def compare_rows(where: str, theirs: list[list], ours: tuple[list[model.Row], list[Figures]], allowed: frozenset[str],
                 answer: Answer) -> None:
    rows = [model.Row(row[0], 0, 0, -1, 0, "") for row in theirs]
    found = []
    pairs = compare.pair_up(rows, ours[0])
    # Where a row of torch's is missing, its parent's self bytes hold those of the missing row.
    incomplete = {around(theirs, left) for left, right in pairs if left is not None and right is None}
    for left, right in pairs:
        if left is None:
            found.append(f"{where}: extra row {ours[0][right].name!r}")
        elif right is None:
            if theirs[left][0] not in allowed:
                found.append(f"{where}: missing row {theirs[left][0]!r}")
        else:
            their, our = tuple(theirs[left][3:7]), ours[1][right]
            answer.rows += 1
            if their[::2] != our[::2] or (left not in incomplete and their[1::2] != our[1::2]):
                found.append(f"{where}: {theirs[left][0]} (row {left}): torch {their} (total and self, of the CPU and of devices), we {our}")
    if len(found) > SHOWN:
        found = found[:SHOWN] + [f"{where}: and {len(found) - SHOWN} more"]
    answer.problems += found


def check_key_averages(recording: Recording, path: Path, answer: Answer) -> None:
    sums: dict[str, list[int]] = {}
    for rows in recording.rows.values():
        if any(row.end not in ("return", "exception") for row, _ in rows):
            return  # rows without an end are not in the averages
        for row, figure in zip(*folded(rows)):
            entry = sums.setdefault(row.name, [0] * len(COLUMNS))
            for index, size in enumerate(figure):
                entry[index] += size
    with path.open(encoding="utf-8", newline="") as file:
        for record in csv.DictReader(file):
            if record["name"] not in sums:
                continue
            said = [int(record[column]) for column in COLUMNS]
            if said != sums[record["name"]]:
                answer.problems.append(f"key_averages.csv: {record['name']}: {said}, events.csv: {sums[record['name']]}")


def check_trace(recording: Recording, path: Path, answer: Answer) -> None:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        drawn = [event["args"] for event in json.load(file)["traceEvents"] if event["name"] == "[memory]"]
    expected = sorted((event[1], event[2], event[3]) for events in recording.memory.values() for event in events)
    if sorted((args["Bytes"], args["Addr"], args["Total Allocated"]) for args in drawn) != expected:
        answer.problems.append(f"the chrome trace has {len(drawn)} memory events, events.csv {len(expected)} or others")


def events_of_trace(path: Path, tid: int) -> dict[str, list[dict[str, int]]]:
    """The args of a thread's memory events between the markers, in order. Of the CPU without the totals, which begin elsewhere."""
    with model.open_text(path) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("tid") == tid and event["ph"] in "Xi"]
    bounds = {event["name"]: event for event in events if event["name"] in (model.BEGIN, model.END)}
    begin, end = bounds[model.BEGIN]["ts"] + bounds[model.BEGIN]["dur"], bounds[model.END]["ts"]
    found: dict[str, list[dict[str, int]]] = {name: [] for name in MEMORY_NAMES}
    for event in sorted(events, key=lambda event: float(event["ts"])):
        if event["name"] in MEMORY_NAMES and begin <= event["ts"] < end:
            args = {key: value for key, value in event["args"].items() if key not in ("Ev Idx", "finished", "fwd_thread_id", "Call stack")}
            if args["Device Type"] == CPU:
                args = {key: value for key, value in args.items() if not key.startswith("Total ")}
            found[event["name"]].append(args)
    return found


def compare_trace(where: str, theirs: Path, ours: Path, tid: int, answer: Answer) -> None:
    their, our = events_of_trace(theirs, tid), events_of_trace(ours, tid)
    for name in MEMORY_NAMES:
        answer.on_devices += sum(args["Device Type"] != CPU for args in our[name])
        if their[name] != our[name]:
            answer.problems.append(f"{where}: {name} in the trace: torch has {len(their[name])}, we {len(our[name])}, or others: " + str(
                next(((left, right) for left, right in zip(their[name], our[name]) if left != right), "")))


def compare_memory(job: Path, result: Path, allowed: frozenset[str]) -> Answer:
    answer = Answer()
    recording = read_recording(result / "events.csv")
    paths = sorted(job.glob("memory-*.json"))
    if not paths:
        answer.problems.append("torch.profiler wrote no memory")
    for path in paths:
        oracle = json.loads(path.read_text(encoding="utf-8"))
        pid = int(path.stem.split("-")[1])
        where = f"PID {pid}"
        first, last = marked([row[0] for row in oracle["rows"]], where)
        rows = [row for row in oracle["rows"][first + 1:last] if row[0] not in MEMORY_NAMES]
        ours = recording.rows[(pid, oracle["tid"])]
        begin, end = marked([row.name for row, _ in ours], where)
        begin_ns = ours[begin][0].start_ns + ours[begin][0].duration_ns
        end_ns = ours[end][0].start_ns
        inside = model.keep([row for row, _ in ours], [begin < index < end for index in range(len(ours))])
        figures = [figure for _, figure in ours[begin + 1:end]]
        compare_rows(where, rows, folded(list(zip(inside, figures))) if oracle["folded"] else (inside, figures), allowed,
                     answer)
        memory = [event for event in recording.memory.get((pid, oracle["tid"], "CPU"), []) if begin_ns <= event[0] < end_ns]
        outside = [row[1:] for row in recording.outside.get((pid, oracle["tid"]), []) if begin_ns <= row[0] < end_ns]
        theirs = [(row[0], row[3], row[5]) for row in oracle["rows"][first + 1:last] if row[0] in MEMORY_NAMES]
        if theirs != outside:
            answer.problems.append(f"{where}: {len(theirs)} rows of memory outside any row, we have {len(outside)}, or others")
        compare_events(where, oracle["memory"], memory, answer)
        trace = job / f"trace-{pid}.json"
        if trace.exists():
            compare_trace(where, trace, result / "trace.json.gz", oracle["tid"], answer)
    check_key_averages(recording, result / "key_averages.csv", answer)
    check_trace(recording, result / "trace.json.gz", answer)
    return answer


"""Lays what profiles of PyTorch's own tests saw (jobs/own_tests_job.py) beside a recording of the same process.

A window is a profile, from torch's start of it to its end by CLOCK_MONOTONIC. In each window the rows of the thread that took it
must be torch's: names, order, parents, depths and sequence numbers; and, where the test asked for them, inputs, flops, stacks,
and the allocations and frees. Rows that torch has of other threads are laid beside the thread of ours that is most like them.
"""

from __future__ import annotations

import csv
import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import compare
import compare_inputs
import compare_stacks
import model

SHOWN = 12


@dataclasses.dataclass
class Answer:
    windows: int = 0
    empty: int = 0  # profiles without a row, such as those for NVTX
    unread: list[str] = dataclasses.field(default_factory=list)  # windows whose tree the job could not read
    toggled: int = 0  # windows in which the test turned the collection off for a while: not compared
    rows: int = 0
    right: int = 0
    placeless: int = 0  # of the rows: those whose places torch does not tell (jobs/own_tests_job.py)
    numbers: list[int] = dataclasses.field(default_factory=lambda: [0, 0])  # sequence numbers: of torch, the same here
    flops: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    memory: list[int] = dataclasses.field(default_factory=lambda: [0, 0])
    inputs: compare_inputs.InputResult = dataclasses.field(default_factory=compare_inputs.InputResult)
    stacks: compare_stacks.StackResult = dataclasses.field(default_factory=compare_stacks.StackResult)
    stale: int = 0  # of the memory events: frees of a block from before the profile, of which torch has the size of one before it
    scripted: int = 0  # rows in TorchScript functions: torch has the script's lines in place of Python's, we have not
    differences: list[str] = dataclasses.field(default_factory=list)

    def line(self) -> str:
        parts = [f"{self.windows} profiles", f"rows {self.right} of {self.rows}", f"sequence numbers {self.numbers[1]} of {self.numbers[0]}"]
        compared = self.inputs.compared
        if any(compared.values()):
            parts.append("inputs " + ", ".join(f"{self.inputs.right[name]} of {compared[name]} {name}" for name in sorted(compared) if compared[name]))
        for name, (theirs, same) in (("flops", self.flops), ("memory", self.memory), ("stacks", (self.stacks.rows, self.stacks.right))):
            if theirs:
                parts.append(f"{name} {same} of {theirs}")
        if self.stale:
            parts.append(f"{self.stale} frees have the size of an earlier block in torch")
        if self.placeless:
            parts.append(f"the places of {self.placeless} rows are not compared")
        if self.scripted:
            parts.append(f"{self.scripted} stacks of lines of TorchScript are not compared")
        if self.toggled:
            parts.append(f"{self.toggled} profiles that were off for a while are left out")
        return ", ".join(parts)

    def problems(self) -> list[str]:
        found = self.differences[:SHOWN]
        if len(self.differences) > SHOWN:
            found.append(f"and {len(self.differences) - SHOWN} more differences")
        if self.inputs.compared:
            found += self.inputs.problems()
        if self.stacks.frames:
            found += [f"stack of {name}: {text}" for name, text in self.stacks.examples.items()][:SHOWN]
        return found + self.unread[:SHOWN]


@dataclasses.dataclass
class Recording:
    threads: model.Threads
    flops: dict[int, int]  # by the row's number in the file
    memory: dict[tuple[int, int], list[tuple[int, int, int]]]  # of a thread: time, bytes, address
    offset_ns: int  # Unix time less CLOCK_MONOTONIC
    arguments: list[str]
    unread: frozenset[str]  # rows whose inputs the recording says that it does not read


def read_recording(result: Path) -> Recording:
    summary = json.loads((result / "summary.json").read_text(encoding="utf-8"))
    first = summary["clocks"]["first"]
    recording = Recording(model.read_events(result / "events.csv"), {}, {}, first["realtime_ns"] - first["monotonic_ns"],
                          summary["proftrace"]["arguments"], compare_inputs.names_unread(result / "summary.json"))
    with model.open_text(result / "events.csv") as file:
        for number, record in enumerate(csv.DictReader(file, strict=True)):
            if record.get("flops"):
                recording.flops[number] = int(record["flops"])
            if record["name"] == "[memory]" and record["device_type"] == "CPU":
                args = json.loads(record["args"])
                recording.memory.setdefault((int(record["pid"]), int(record["tid"])), []).append(
                    (int(record["start_ns"]), args["bytes"], args["addr"]))
    return recording


def rows_of_torch(window: dict[str, Any]) -> dict[int, list[model.Row]]:
    """By the profiler's number of the thread."""
    threads: dict[int, list[model.Row]] = {}
    places: list[int] = []
    for record in window["rows"]:
        rows = threads.setdefault(record["tid"], [])
        parent = places[record["parent"]] if record["parent"] >= 0 else -1
        places.append(len(rows))
        rows.append(model.Row(record["name"], record["start_ns"], record["end_ns"] - record["start_ns"], parent,
                              rows[parent].depth + 1 if parent >= 0 else 0, record["cat"], inputs=record.get("inputs"),
                              stack=record.get("stack"), scope=record["scope"], sequence=record["seq"],
                              number=record.get("flops") or 0))
    return threads


def likeness(theirs: list[model.Row], ours: list[model.Row]) -> int:
    common = Counter(row.name for row in theirs) & Counter(row.name for row in ours)
    return sum(common.values()) * 2 - len(ours)


def compare_memory(where: str, theirs: list[list[int]], ours: list[tuple[int, int]], answer: Answer) -> None:
    """torch does not know all blocks that were there before the profile, and does not tell when it is one of the others that is freed."""
    known: set[int] = set()
    place = 0
    for size, address in ours:
        if theirs[place:place + 1] == [[size, address]]:
            place += 1
        elif size > 0 or address in known:
            break
        elif place < len(theirs) and theirs[place][0] < 0 and theirs[place][1] == address:
            answer.stale += 1
            place += 1
        if size > 0:
            known.add(address)
        else:
            known.discard(address)
    answer.memory[0] += len(theirs)
    answer.memory[1] += place
    if place < len(theirs) or sum(size > 0 for size, _ in ours) != sum(size > 0 for size, _ in theirs):
        answer.differences.append(f"{where}: of torch's {len(theirs)} memory events, {len(ours)} here, {theirs[place:place + 2]} has no equal")


def is_within(rows: list[model.Row], index: int, scope: str) -> bool:
    while index >= 0:
        if rows[index].scope == scope:
            return True
        index = rows[index].parent
    return False


class Modules:
    """torch counts the instances of a class of nn.Modules from the begin of a profile on, we from that of the recording."""

    def __init__(self) -> None:
        self.numbers: dict[str, dict[str, int]] = {}

    def __call__(self, row: model.Row) -> model.Row:
        stack = []
        for frame in row.stack or []:
            name, _, number = frame.rpartition("_")
            if frame.startswith("nn.Module: "):
                numbers = self.numbers.setdefault(name, {})
                frame = f"{name}_{numbers.setdefault(number, len(numbers))}"
            stack.append(frame)
        return dataclasses.replace(row, stack=stack)


def compare_details(where: str, theirs: list[model.Row], ours: list[model.Row], recording: Recording, answer: Answer) -> None:
    """Of the rows that are the same one for both."""
    instances = compare_stacks.Instances()
    classes = compare_stacks.Classes(theirs)
    counted = Modules(), Modules()
    for left, right in compare.pair_up(theirs, ours):
        if left is None or right is None:
            continue
        their, our = theirs[left], ours[right]
        if their.sequence >= 0:
            answer.numbers[0] += 1
            answer.numbers[1] += their.sequence == our.sequence
            if their.sequence != our.sequence:
                answer.differences.append(f"{where}: row {left}: {their.name!r} has the sequence number {their.sequence}, we say {our.sequence}")
        if their.number and "--with-flops" in recording.arguments:
            answer.flops[0] += 1
            answer.flops[1] += their.number == recording.flops.get(our.number)
            if their.number != recording.flops.get(our.number):
                answer.differences.append(f"{where}: row {left}: {their.name!r} has {their.number} flops, we say {recording.flops.get(our.number)}")
        if their.inputs and "--record-shapes" in recording.arguments and their.name not in recording.unread:
            compare_inputs.compare_row(their, without_untold(their, our), answer.inputs)
        if not their.stack or "--with-stack" not in recording.arguments or is_within(theirs, left, "BACKWARD_FUNCTION"):
            continue  # a node's stack is that of its forward, which events() looks for
        if is_within(theirs, left, "TORCHSCRIPT_FUNCTION"):
            answer.scripted += 1
        else:
            compare_stacks.compare_row(counted[0](their), counted[1](our), classes, instances, answer.stacks)


def without_untold(theirs: model.Row, ours: model.Row) -> model.Row:
    """torch's answer has no shapes of the tensors in a list, say: null stands there."""
    if ours.inputs is None or theirs.inputs is None or len(ours.inputs["dims"]) != len(theirs.inputs["dims"]):
        return ours
    told = {name: [None if their is None else our for their, our in zip(values, ours.inputs[name])]
            for name, values in theirs.inputs.items()}
    return dataclasses.replace(ours, inputs=ours.inputs | told)


def compare_window(pid: int, window: dict[str, Any], recording: Recording, answer: Answer) -> None:
    threads = rows_of_torch(window)
    inside = {key[1]: model.keep(rows, [window["begin_ns"] <= row.start_ns - recording.offset_ns < window["end_ns"] for row in rows])
              for key, rows in recording.threads.items() if key[0] == pid}
    own = window["thread"]
    if own is None and len(threads) == 1:
        own = next(iter(threads))
    for number, theirs in threads.items():
        others = [tid for tid in inside if tid != window["tid"]]
        tid = window["tid"] if number == own else max(others, key=lambda tid: likeness(theirs, inside[tid]), default=0)
        where = f"{window['test']}, thread {number}"
        ours = inside.get(tid, [])
        result = compare.compare_rows(where, theirs, ours)
        if not window["has_places"]:
            result.differences = [text for text in result.differences if ": missing " in text or ": extra " in text]
            result.right = len(theirs) - sum(": missing " in text for text in result.differences)
            answer.placeless += len(theirs)
        answer.rows += len(theirs)
        answer.right += result.right
        answer.differences += result.differences
        compare_details(where, theirs, ours, recording, answer)
        if window["memory"] and "--profile-memory" in recording.arguments:
            ours_memory = [(size, address) for at, size, address in recording.memory.get((pid, tid), [])
                           if window["enable_ns"] <= at - recording.offset_ns < window["end_ns"]]
            compare_memory(where, [record[1:] for record in window["memory"] if record[0] == number], ours_memory, answer)


def compare_windows(pid: int, windows: Path, result: Path) -> Answer:
    answer = Answer()
    recording = read_recording(result)
    for line in windows.read_text(encoding="utf-8").splitlines():
        window = json.loads(line)
        if "unread" in window:
            answer.unread.append(f"{window['test']}: {window['unread']}")
        elif not window["rows"]:
            answer.empty += 1
        elif not window["is_whole"]:
            answer.toggled += 1
        else:
            answer.windows += 1
            compare_window(pid, window, recording, answer)
    return answer

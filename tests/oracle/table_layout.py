#!/usr/bin/env python3
"""Compares our tables with torch's own, byte for byte (but for the rounding of ties, see same_line).

Reads events.csv of made-up recordings, gives the same intervals to torch's EventList, and lets torch build its tree,
its key averages and its table. Usage: table_layout.py WRITE_OUTPUTS_PROGRAM [SEEDS]

Needs a Python with a torch of 2.7 or later, whose layout is the reference: this one, or the one that
PROFTRACE_TABLE_PYTHON or else PROFTRACE_PYTHON names. Exits with 77 without it.
"""

import csv
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile

SKIP = 77


def require_torch():
    """Goes on with the next Python where this one has no torch, or one whose table is older than the one that ours follows."""
    missing = None
    try:
        from torch.autograd.profiler_util import FunctionEvent
        if "overload_name" not in inspect.signature(FunctionEvent).parameters:
            missing = "its torch is older than 2.7"
    except ImportError:
        missing = "it has no torch"
    if missing is None:
        return
    other = os.environ.pop("PROFTRACE_TABLE_PYTHON", None) or os.environ.pop("PROFTRACE_PYTHON", None)
    if other is None:
        print(f"skipped: {sys.executable}: {missing}, and neither PROFTRACE_TABLE_PYTHON nor PROFTRACE_PYTHON names another one")
        sys.exit(SKIP)
    os.execv(other, [other, *sys.argv])


def event_list(directory):
    """The events of events.csv as torch's profiler would give them."""
    from torch.autograd.profiler_util import EventList, FunctionEvent, _filter_name, _filter_stack_entry, _rewrite_name

    with open(os.path.join(directory, "events.csv"), newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with open(os.path.join(directory, "stacks.json"), encoding="utf-8") as file:
        stacks = json.load(file)
    start = min(int(row["start_ns"]) for row in rows)
    events = []
    for row in rows:
        if _filter_name(row["name"]):
            continue
        begin_ns = int(row["start_ns"]) - start
        events.append(
            FunctionEvent(
                id=int(row["id"]),
                name=_rewrite_name(name=row["name"], with_wildcard=True),
                overload_name=row["overload_name"],
                thread=int(row["tid"]),
                start_us=begin_ns / 1000,
                end_us=(begin_ns + int(row["duration_ns"])) / 1000,
                input_shapes=json.loads(row["input_shapes"] or "[]"),
                stack=[entry for entry in stacks[int(row["id"])] if _filter_stack_entry(entry)],
                is_async=row["is_async"] == "1",
                is_user_annotation=row["category"] == "user_annotation",
            )
        )
    events.sort(key=lambda event: [event.time_range.start, -event.time_range.end])
    result = EventList(events)
    result._build_tree()
    return result


def same_line(ours, theirs):
    """Whether the lines are equal, or differ only in a last digit, by one.

    We add whole nanoseconds, torch adds doubles: where the exact sum lies halfway between two roundings, torch's may
    come out a hair above or below it.
    """
    number = re.compile(r"\d+\.\d+")
    if number.sub("#", ours) != number.sub("#", theirs):
        return False
    pairs = zip(number.findall(ours), number.findall(theirs))
    return all(len(a) == len(b) and abs(int(a.replace(".", "")) - int(b.replace(".", ""))) <= 1 for a, b in pairs)


# Times that torch adds up as doubles: where they are equal, a hair of rounding decides which row comes first.
TIME_COLUMNS = {"self_cpu_time_total": "Self CPU", "cpu_time_total": "CPU total", "cpu_time": "CPU time avg"}


def cell(line, header, column):
    """What stands in a column; every column ends where its header does."""
    end = header.index(f" {column}  ") + len(column) + 1
    return line[:end].rsplit(maxsplit=1)[-1]


def rows_of(lines, header):
    """Lines that belong together: a row has a line for each further frame of its stack, with no name in it."""
    name_end = header.index("Name") + len("Name")
    rows = []
    for line in lines:
        if rows and line[:name_end].strip() == "":
            rows[-1].append(line)
        else:
            rows.append([line])
    return rows


def same_row(ours, theirs):
    return len(ours) == len(theirs) and all(same_line(*pair) for pair in zip(ours, theirs))


def ties_apart(ours, theirs, sort_by):
    """The same rows, but for the order of those that are equal in the column that they are sorted by."""
    column = TIME_COLUMNS.get(sort_by)
    header = next((line for line in theirs if "# of Calls" in line), None)
    if column is None or header is None:
        return False
    ours, theirs = rows_of(ours, header), rows_of(theirs, header)
    apart = [(a, b) for a, b in zip(ours, theirs) if not same_row(a, b)]
    if len(ours) != len(theirs) or not all(same_line(cell(a[0], header, column), cell(b[0], header, column)) for a, b in apart):
        return False
    rest = [b for _, b in apart]
    for row, _ in apart:
        twin = next((index for index, other in enumerate(rest) if same_row(row, other)), None)
        if twin is None:
            return False
        rest.pop(twin)
    return True


def compare(directory, what):
    events = event_list(directory)
    with open(os.path.join(directory, "tables.json"), encoding="utf-8") as file:
        tables = json.load(file)  # written by write_outputs: each file, and the arguments that give it
    failures = 0
    for table in tables:
        name = table["file"]
        expected = events.key_averages(**table["key_averages"]).table(**table["table"])
        with open(os.path.join(directory, name), encoding="utf-8") as file:
            text = file.read()
        ours, theirs = text.splitlines(), expected.splitlines()
        ours = ours[: len(theirs)]
        wrong = [pair for pair in zip(ours, theirs) if not same_line(*pair)]
        if len(ours) == len(theirs) and (not wrong or ties_apart(ours, theirs, table["table"]["sort_by"])):
            continue
        failures += 1
        print(f"{what}: {name} differs from torch's table")
        for pair in wrong:
            print("  ours  {!r}\n  torch {!r}".format(*pair))
    return len(tables), failures


def main():
    require_torch()
    program = sys.argv[1]
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    failures = tables = 0
    cases = [("training", 3000)] + [(kind, seed) for seed in range(seeds) for kind in ("random", "python")]
    for kind, number in cases:
        with tempfile.TemporaryDirectory() as directory:
            subprocess.run([program, directory, kind, str(number)], check=True)
            compared, wrong = compare(directory, f"{kind} {number}")
            tables += compared
            failures += wrong
    print(f"{len(cases)} recordings, {tables} tables, {failures} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

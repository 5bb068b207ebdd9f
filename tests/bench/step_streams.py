#!/usr/bin/env python3
"""Makes what step_streams reads of a recording of tests/oracle/jobs/steps_zoo.py: events.csv, and what the job printed.

    step_streams.py events.csv job.txt > streams.txt

Lines: `L kind seed`, `S start end` for each true step, `I start end class-flags name` for each call that only annotations enclose. An operator's
overload stands behind its name: `aten::max.dim`.
"""

from __future__ import annotations

import csv
import json
import sys

LEAVES = ("Optimizer.step#", "Optimizer.zero_grad#", "enumerate(DataLoader)#", "ProfilerStep#")


def main() -> None:
    loops, offset, tid = [], 0, 0
    with open(sys.argv[2], encoding="utf-8") as stream:
        for line in stream:
            word, _, rest = line.partition(" ")
            if word == "LOOP":
                loops.append(json.loads(rest))
            elif word == "OFFSET":
                offset = int(rest)
            elif word == "TID":
                tid = int(rest)
    opens: set[str] = set()
    items = []
    with open(sys.argv[1], newline="", encoding="utf-8") as stream:
        reader = csv.reader(stream)
        place = {name: i for i, name in enumerate(next(reader))}
        columns = [place[name] for name in ("id", "parent_id", "name", "overload_name", "category", "tid", "start_ns", "duration_ns", "end", "is_async")]
        for row in reader:
            number, parent, name, overload, category, thread, start, duration, end, is_async = (row[i] for i in columns)
            if parent and parent not in opens:
                continue
            is_annotation = category == "user_annotation"
            if is_annotation and not name.startswith(LEAVES):
                opens.add(number)
            if int(thread) == tid and is_async != "1":
                is_autograd = name.startswith("autograd::engine::evaluate_function: ")
                kind = "a" if is_annotation else "b" if is_autograd else "o"
                name += f".{overload}" if overload and kind == "o" else ""
                items.append((int(start) - offset, int(start) + int(duration) - offset, kind, name))
    at = 0
    for loop in loops:
        print(f"L {loop['kind']} {loop['seed']}")
        for begin, end in loop["steps"]:
            print(f"S {begin} {end}")
        while at < len(items) and items[at][0] < loop["begin"]:
            at += 1
        while at < len(items) and items[at][0] < loop["end"]:
            print("I", *items[at])
            at += 1


if __name__ == "__main__":
    main()

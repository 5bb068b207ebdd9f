#!/usr/bin/env python3
"""Lays proftrace's events.csv beside torch.profiler's answer for the same window of the same run.

Per thread, between the two markers: the same names in the same order, each with the same depth and the same parent; and
the counts of key_averages(). Exits with 1 when anything differs.

Two tolerances, both printed when they are used:
- --allow-missing NAME: rows of that name may be missing from proftrace altogether (all of them, not some);
- an oracle whose header says `deduplicated` (torch 1.x, several threads) lacks only children of the same name, so these
  are taken out of proftrace's rows as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from model import (BEGIN, END, FILTERED, Oracle, Row, Threads, counts, keep, listed, read_events, read_oracles, window,
                   without_names, without_only_children)

SHOWN_DIFFERENCES = 5
MOST_MENDED = 4  # of a thread; more would be ours to explain
RESYNC_REACH = 400  # rows that may be missing or extra in one place before the rest counts as different
RESYNC_RUN = 3      # equal names in a row that make two places the same again


@dataclasses.dataclass
class Result:
    """What the comparison of one or more threads found."""

    oracle_rows: int = 0
    our_rows: int = 0
    right: int = 0  # rows with the same name, depth and parent
    differences: list[str] = dataclasses.field(default_factory=list)
    not_covered: Counter[str] = dataclasses.field(default_factory=Counter)
    notes: list[str] = dataclasses.field(default_factory=list)
    ratios: list[float] = dataclasses.field(default_factory=list)  # our time / torch's, one a name
    ends: Counter[str] = dataclasses.field(default_factory=Counter)

    @property
    def same(self) -> bool:
        return not self.differences

    def add(self, other: "Result") -> None:
        self.oracle_rows += other.oracle_rows
        self.our_rows += other.our_rows
        self.right += other.right
        self.differences += other.differences
        self.not_covered += other.not_covered
        self.notes += other.notes
        self.ratios += other.ratios
        self.ends += other.ends


def percent(part: int, whole: int) -> str:
    if part == whole:
        return "100 %"
    return f"{min(100.0 * part / whole, 99.999):.3f} %" if whole else "0 %"


def pair_up(theirs: list[Row], ours: list[Row]) -> list[tuple[int | None, int | None]]:
    """Pairs of indices by name, in order; a row without a partner has None beside it."""
    pairs: list[tuple[int | None, int | None]] = []
    left = right = 0
    while left < len(theirs) and right < len(ours):
        if theirs[left].name == ours[right].name:
            pairs.append((left, right))
            left, right = left + 1, right + 1
            continue
        skip_left, skip_right = resync(theirs, ours, left, right)
        pairs += [(index, None) for index in range(left, left + skip_left)]
        pairs += [(None, index) for index in range(right, right + skip_right)]
        left, right = left + skip_left, right + skip_right
    pairs += [(index, None) for index in range(left, len(theirs))]
    pairs += [(None, index) for index in range(right, len(ours))]
    return pairs


def resync(theirs: list[Row], ours: list[Row], left: int, right: int) -> tuple[int, int]:
    """How many rows to leave out on each side until the names agree again: the fewest."""
    for total in range(1, RESYNC_REACH):
        for skip_left in range(total + 1):
            skip_right = total - skip_left
            run = min(RESYNC_RUN, len(theirs) - left - skip_left, len(ours) - right - skip_right)
            if run > 0 and all(theirs[left + skip_left + step].name == ours[right + skip_right + step].name
                               for step in range(run)):
                return skip_left, skip_right
    return len(theirs) - left, len(ours) - right


def parent_name(rows: list[Row], index: int) -> str:
    parent = rows[index].parent
    return rows[parent].name if parent >= 0 else "(top level)"


def place(rows: list[Row], index: int) -> str:
    """The name of the row's parent, and of the outermost row around it."""
    top = index
    while rows[top].parent >= 0:
        top = rows[top].parent
    return f"{parent_name(rows, index)!r}" + (f" in {rows[top].name!r}" if top != index else "")


def contradicts_itself(theirs: list[Row], index: int, parent: int) -> bool:
    """Whether torch's tree has a row under an ancestor of `parent` only, though by torch's own times it lies within
    `parent`: so it is, once in a while, at the border of two blocks of its records."""
    row, above = theirs[index], theirs[parent]
    ends_within = row.start_ns + row.duration_ns <= above.start_ns + above.duration_ns
    if parent < 0 or not above.start_ns <= row.start_ns or not ends_within:
        return False
    while parent >= 0:
        parent = theirs[parent].parent
        if parent == row.parent:
            return True
    return False


def compare_rows(where: str, theirs: list[Row], ours: list[Row]) -> Result:
    """One thread's window. Both lists are in the order of the starts."""
    result = Result(oracle_rows=len(theirs), our_rows=len(ours))
    partner: dict[int, int] = {-1: -1}
    origin: dict[int, int] = {-1: -1}
    depths: dict[int, int] = {-1: -1}  # of torch's rows, where its tree agrees with its times
    mended = 0
    found: list[str] = []
    for left, right in pair_up(theirs, ours):
        if right is None:
            found.append(f"{where}: row {left}: missing {theirs[left].name!r} under {place(theirs, left)}")
        elif left is None:
            found.append(f"{where}: our row {right}: extra {ours[right].name!r} under {place(ours, right)}")
        else:
            partner[left] = right
            origin[right] = left
            parent = theirs[left].parent
            other = origin.get(ours[right].parent, -1)
            if partner.get(parent) != ours[right].parent and mended < MOST_MENDED and contradicts_itself(theirs, left, other):
                parent = other
                mended += 1
            depths[left] = depths.get(parent, theirs[left].depth - 1) + 1
            if partner.get(parent) != ours[right].parent:
                found.append(f"{where}: row {left}: {theirs[left].name!r} is under {place(theirs, left)}, "
                             f"we say {parent_name(ours, right)!r}")
            elif depths[left] != ours[right].depth:
                found.append(f"{where}: row {left}: {theirs[left].name!r} under {place(theirs, left)} has depth {depths[left]}, "
                             f"we say {ours[right].depth}")
            else:
                result.right += 1
    if mended:
        result.notes.append(f"{where}: torch's tree contradicts its own times at {mended} rows: those are taken by the times")
    result.differences = found
    result.ends = Counter(row.end for row in ours)
    result.ratios = time_ratios(theirs, ours)
    return result


def time_ratios(theirs: list[Row], ours: list[Row]) -> list[float]:
    """Our total time over torch's, for each name."""
    their_time: Counter[str] = Counter()
    our_time: Counter[str] = Counter()
    for row in theirs:
        their_time[row.name] += row.duration_ns
    for row in ours:
        our_time[row.name] += row.duration_ns
    return [our_time[name] / their_time[name] for name in their_time if their_time[name] and name in our_time]


def check_depths(where: str, rows: list[Row]) -> list[str]:
    """The depth column must agree with the parent column: compared as written, before any row is left out."""
    return [f"{where}: row {index}: {row.name!r} has depth {row.depth}, its parent says "
            f"{rows[row.parent].depth + 1 if row.parent >= 0 else 0}"
            for index, row in enumerate(rows)
            if row.depth != (rows[row.parent].depth + 1 if row.parent >= 0 else 0)]


def window_or_span(rows: list[Row], threads: Iterable[list[Row]], where: str) -> list[Row] | None:
    """The thread's window. A thread of torch's own (the inter-op pool) has no markers: there it is what lies between
    the markers of the process's only thread that has them."""
    inner = window(rows, where)
    if inner is not None:
        return inner
    times = [(begin.start_ns, end.start_ns) for other in threads
             for begin in other if begin.name == BEGIN for end in other if end.name == END]
    if len(times) != 1:
        return None
    return keep(rows, [times[0][0] <= row.start_ns < times[0][1] for row in rows])


def paired_rows(oracles: list[Oracle], ours: Threads) -> Iterator[tuple[Oracle, Row, Row]]:
    """Rows of all windows that are the same row for torch.profiler and for us, by their names and order."""
    for oracle in oracles:
        for key, rows in oracle.threads.items():
            theirs = window_or_span(rows, oracle.threads.values(), "torch.profiler") or []
            same_process = [other for other_key, other in ours.items() if other_key[0] == key[0]]
            mine = window_or_span(ours.get(key, []), same_process, "proftrace") or []
            for left, right in pair_up(theirs, mine):
                if left is not None and right is not None:
                    yield oracle, theirs[left], mine[right]


def compare_thread(oracle: Oracle, key: tuple[int, int], ours: Threads, allowed: frozenset[str]) -> Result:
    where = f"pid {key[0]} tid {key[1]}"
    theirs = window_or_span(oracle.threads[key], oracle.threads.values(), f"torch.profiler, {where}")
    if theirs is None:
        return Result(differences=[f"{where}: torch.profiler has {len(oracle.threads[key])} rows but no markers here"])
    if key not in ours:
        return Result(oracle_rows=len(theirs), differences=[f"{where}: we have no event of this thread"] if theirs else [])
    wrong_depths = check_depths(where, ours[key])
    same_process = [rows for other, rows in ours.items() if other[0] == key[0]]
    mine = window_or_span(ours[key], same_process, f"proftrace, {where}")
    if mine is None:
        return Result(oracle_rows=len(theirs), differences=[f"{where}: we have no marker on this thread"])
    present = {row.name for row in mine}
    missing = {row.name for row in theirs if row.name in allowed and row.name not in present}
    if oracle.deduplicated:
        mine = without_only_children(mine)
    result = compare_rows(where, without_names(theirs, missing), mine)
    result.differences += wrong_depths
    result.not_covered = Counter(row.name for row in theirs if row.name in missing)
    return result


def compare_counts(oracle: Oracle, ours: Threads, missing: set[str], notes: list[str]) -> list[str]:
    """Our counts in the window, by torch's rule for only children, against key_averages() less what torch recorded
    outside the window. Rows in `missing` are left out on both sides before the rule."""
    whole: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    mine: Counter[str] = Counter()
    for key, rows in oracle.threads.items():
        inner = window_or_span(rows, oracle.threads.values(), f"torch.profiler, {key}") or []
        whole += listed(oracle, rows)
        outside += listed(oracle, rows)
        outside.subtract(listed(oracle, inner))
        taken += listed(oracle, inner)
        taken.subtract(listed(oracle, without_names(inner, missing)))
        if key in ours:
            same_process = [other_rows for other, other_rows in ours.items() if other[0] == key[0]]
            mine += counts(without_only_children(window_or_span(ours[key], same_process, "proftrace") or []))
    where = f"pid {oracle.pid}"
    own = {name for name in whole.keys() | oracle.key_averages.keys()
           if name not in FILTERED and whole[name] != oracle.key_averages.get(name, 0)}
    if own:
        notes.append(f"{where}: torch's key_averages() and its own event tree count {len(own)} names differently "
                     f"({', '.join(sorted(own)[:4])}): not compared")
    found = []
    for name in sorted((oracle.key_averages.keys() | mine.keys()) - own - missing):
        expected = oracle.key_averages.get(name, 0) - outside[name] - taken[name]
        if expected != mine[name]:
            found.append(f"{where}: key_averages() counts {name!r} {expected} times, we {mine[name]}")
    return found


def compare(oracles: list[Oracle], ours: Threads, allowed: frozenset[str]) -> Result:
    total = Result()
    judged: set[tuple[int, int]] = set()
    for oracle in oracles:
        total.not_covered += oracle.left_out
        missing: set[str] = set()
        for key in sorted(oracle.threads):
            result = compare_thread(oracle, key, ours, allowed)
            total.add(result)
            missing |= set(result.not_covered)
            judged.add(key)
        total.differences += compare_counts(oracle, ours, missing, total.notes)
    for key in sorted(ours.keys() - judged):
        total.notes.append(f"pid {key[0]} tid {key[1]}: no answer of torch.profiler: {len(ours[key])} rows not compared")
    if total.oracle_rows == 0:
        total.differences.append("torch.profiler recorded nothing between the markers")
    return total


def report(result: Result) -> str:
    lines = [f"rows {result.our_rows} of {result.oracle_rows}, recall {percent(result.right, result.oracle_rows)}, "
             f"precision {percent(result.right, result.our_rows)}"]
    if result.ratios:
        ratios = sorted(result.ratios)
        lines.append(f"time per name, ours / torch's: median {statistics.median(ratios):.3f}, "
                     f"{ratios[0]:.3f} to {ratios[-1]:.3f}, {len(ratios)} names")
    if result.ends:
        lines.append("ends: " + ", ".join(f"{name} {count}" for name, count in sorted(result.ends.items())))
    for name, count in sorted(result.not_covered.items()):
        lines.append(f"not covered: {name} {count}")
    lines += result.notes
    lines += [f"DIFFERENT {text}" for text in result.differences[:SHOWN_DIFFERENCES]]
    if len(result.differences) > SHOWN_DIFFERENCES:
        lines.append(f"… and {len(result.differences) - SHOWN_DIFFERENCES} more differences")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oracle", type=Path, help="the job's --out directory")
    parser.add_argument("events", type=Path, help="proftrace's events.csv or events.csv.gz")
    parser.add_argument("--allow-missing", metavar="NAME", action="append", default=[])
    options = parser.parse_args()
    result = compare(read_oracles(options.oracle), read_events(options.events), frozenset(options.allow_missing))
    print(report(result))
    return 0 if result.same else 1


if __name__ == "__main__":
    sys.exit(main())

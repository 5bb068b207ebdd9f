"""Lays the Python stacks of rows beside torch.profiler's (with_stack=True, events()), row by row.

A frame is a file, a function and, for nn.Modules, the class and the number of the instance. torch has the line where a function
begins, we have the line that runs: tests/live/stacks_test.py checks that one.

torch gives what runs in a node of a backward the stack of the node's forward. Before 2.4 its events() have times in microseconds, and
the rows around one are found by these: a row whose end is then behind its node's is not seen to be in it, nor is what comes after it in
that node. `misplaced` does as torch/autograd/profiler_util.py does, and such rows are counted and not compared.

torch.profiler remembers a module's class by its address, also when the module is gone and another one lies there: a frame of a
Linear then runs the forward() of an observer. Such frames of torch's are told by the file of the forward() that follows.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from compare import pair_up, window_or_span
from model import FILTERED, Oracle, Row, Threads, only_children

SHOWN = 8
ENOUGH = 0.999
# Frames that events() leaves out (torch/autograd/profiler_util.py, _filter_stack_entry).
LAST_MICROSECONDS = (2, 3)
MOST_MISPLACED = 0.15
LEFT_OUT = [("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"), ("torch/tensor", "backward")]
# With Python 3.9 torch.profiler has a second frame for calls that were open when it began: the function's repr.
OPEN_CALL = re.compile(r"<function .* at 0x[0-9a-f]+>")


@dataclasses.dataclass
class StackResult:
    rows: int = 0
    right: int = 0
    frames: int = 0
    modules: int = 0
    misplaced: int = 0  # rows that torch does not find in their node; not among `rows`
    began_before: int = 0  # rows of nodes whose forward torch did not see, or takes for another's; not among `rows`
    stale: int = 0  # rows that are right but for modules that torch takes for others
    wrong: Counter[str] = dataclasses.field(default_factory=Counter)  # by name
    examples: dict[str, str] = dataclasses.field(default_factory=dict)

    def lines(self) -> list[str]:
        share = 100 * self.right / self.rows if self.rows else 0
        lines = [f"stacks of {self.rows} rows: {self.right} right ({share:.3f} %), {self.frames} frames, {self.modules} of nn.Modules"]
        if self.misplaced:
            lines.append(f"of {self.misplaced} more rows torch finds another node around them, by times cut to microseconds: not compared")
        if self.began_before:
            lines.append(f"of {self.began_before} more rows the node's number was there before torch.profiler began: not compared")
        if self.stale:
            lines.append(f"in {self.stale} of them torch names, or counts, a module that was gone")
        lines += [f"different stacks: {count} of {name!r}: {self.examples[name]}" for name, count in self.wrong.most_common(SHOWN)]
        return lines

    def problems(self) -> list[str]:
        if not self.frames:
            return ["torch.profiler recorded no stacks"]
        if self.misplaced + self.began_before > MOST_MISPLACED * (self.rows + self.misplaced + self.began_before):
            return [f"torch misplaces {self.misplaced + self.began_before} rows, and {self.rows} are left to compare"]
        if self.right < ENOUGH * self.rows:
            return [f"{self.rows - self.right} of {self.rows} rows have another stack"]
        return []


def parts(frame: str) -> tuple[str, ...]:
    found = re.fullmatch(r"(.*)\((\d+)\): (.*)", frame)
    return (found[1], found[3]) if found else (frame,)


def forwards(frames: list[tuple[str, ...]]) -> Iterator[tuple[int, str, str]]:
    """Where nn.Modules are, their classes, and the files of the forward() that each runs."""
    for i, frame in enumerate(frames):
        if not frame[0].startswith("nn.Module: "):
            continue
        for later in frames[i + 1:]:
            if later[0].startswith("nn.Module: "):
                break
            if len(later) == 2 and later[1] == "forward":
                yield i, frame[0].removeprefix("nn.Module: ").rpartition("_")[0], later[0]
                break


class Classes:
    """Which classes run which files, by most of torch's own stacks."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.pairs: Counter[tuple[str, str]] = Counter()
        for row in rows:
            self.pairs.update((name, file) for _, name, file in forwards([parts(frame) for frame in row.stack or []]))

    def is_stale(self, name: str, file: str) -> bool:
        own = self.pairs[name, file]
        runs_another = any(count > own for (other, path), count in self.pairs.items() if other == name and path != file)
        is_run_by_another = any(count > own for (other, path), count in self.pairs.items() if path == file and other != name)
        return runs_another and is_run_by_another


def stale_frames(left: list[tuple[str, ...]], right: list[tuple[str, ...]], classes: Classes) -> list[int]:
    """Where torch names a module that was gone, and we another one that runs the same file."""
    ours = {i: (name, file) for i, name, file in forwards(right)}
    return [i for i, name, file in forwards(left)
            if classes.is_stale(name, file) and i in ours and ours[i][1] == file and not classes.is_stale(*ours[i])]


class Instances:
    """torch counts the instances of a class, but not those that it took for another's."""

    def __init__(self) -> None:
        self.taken: dict[str, set[int]] = {}

    def add(self, frame: tuple[str, ...]) -> None:
        name, _, number = frame[0].rpartition("_")
        self.taken.setdefault(name, set()).add(int(number))

    def ours(self, frame: tuple[str, ...]) -> tuple[str, ...]:
        name, _, number = frame[0].rpartition("_")
        if name not in self.taken:
            return frame
        count = int(number)
        for taken in sorted(self.taken[name]):
            count += taken <= count
        return (f"{name}_{count}",)


def both_stacks(theirs: Row, ours: Row) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    def kept(frames: list[str] | None) -> list[str]:
        return [frame for frame in frames or [] if not any(file in frame and name in frame for file, name in LEFT_OUT)]

    return [parts(frame) for frame in kept(theirs.stack) if not OPEN_CALL.fullmatch(frame)], [parts(frame) for frame in kept(ours.stack)]


def compare_row(theirs: Row, ours: Row, classes: Classes, instances: Instances, result: StackResult) -> None:
    left, right = both_stacks(theirs, ours)
    result.rows += 1
    result.frames += len(left)
    result.modules += sum(frame[0].startswith("nn.Module: ") for frame in left)
    if left == right:
        result.right += 1
        return
    stale = stale_frames(left, right, classes)
    mended = [right[i] if i in stale else instances.ours(frame) if frame[0].startswith("nn.Module: ") else frame for i, frame in enumerate(left)]
    if mended == right:
        result.right += 1
        result.stale += 1
        return
    result.wrong[theirs.name] += 1
    if theirs.name in result.examples:
        return
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    result.examples[theirs.name] = f"after {same} frames {left[same:]}, we say {right[same:]}"


def node_of(row: int, parents: list[int], rows: list[Row]) -> int:
    while row >= 0 and rows[row].scope != "BACKWARD_FUNCTION":
        row = parents[row]
    return row


def cut_parents(rows: list[Row]) -> tuple[list[int], list[int]]:
    """Rows in torch's order, and the parent of each, by times that are cut to microseconds (EventList._populate_cpu_children)."""
    starts = [row.start_ns // 1000 for row in rows]
    ends = [start + row.duration_ns // 1000 for start, row in zip(starts, rows)]
    parents = [-1] * len(rows)
    around: list[int] = []
    order = sorted((i for i, row in enumerate(rows) if row.name not in FILTERED), key=lambda i: (starts[i], -ends[i]))
    for row in order:
        while around and (starts[row] >= ends[around[-1]] or ends[row] > ends[around[-1]]):
            around.pop()
        parents[row] = around[-1] if around else -1
        around.append(row)
    return order, parents


Forwards = dict[tuple[int, int], Row]  # by sequence number and thread: whose stack nodes have


def misplaced(threads: dict[int, list[Row]]) -> dict[int, set[int]]:
    """By thread: rows that are in another node by cut times than by whole ones, or in one that has another's forward for its own
    (EventList._set_backward_stacktraces)."""
    nodes: dict[int, tuple[list[int], list[int]]] = {}
    whole, cut = Forwards(), Forwards()
    for tid, rows in threads.items():
        parents = [row.parent for row in rows]
        order, parents_by_cut = cut_parents(rows)
        by_both = []
        for forwards_of, parents_of, rows_of in ((whole, parents, range(len(rows))), (cut, parents_by_cut, order)):
            in_node = [node_of(i, parents_of, rows) for i in range(len(rows))]
            by_both.append(in_node)
            gone = only_children(rows, parents_of)  # before a node's forward is looked for
            for i in rows_of:
                if in_node[i] < 0 and i not in gone:
                    forwards_of.setdefault((rows[i].sequence, tid), rows[i])
        nodes[tid] = by_both[0], by_both[1]
    wrong: dict[int, set[int]] = {}
    for tid, rows in threads.items():
        own, by_cut = nodes[tid]
        wrong[tid] = {i for i in range(len(rows)) if own[i] != by_cut[i]}
        for i, node in enumerate(own):
            key = (rows[node].sequence, rows[node].forward_tid) if node >= 0 else None
            if key and whole.get(key) is not cut.get(key):
                wrong[tid].add(i)
    return wrong


def numbers_before(rows: list[Row], begin_ns: int) -> set[int]:
    """Sequence numbers that rows outside of nodes had before torch.profiler began. The first row of a number is the node's forward
    (EventList._set_backward_stacktraces), and also rows without a node have one: the next row's."""
    parents = [row.parent for row in rows]
    return {row.sequence for i, row in enumerate(rows)
            if row.start_ns < begin_ns and row.sequence >= 0 and row.stack is not None and node_of(i, parents, rows) < 0}


def compared_rows(oracles: list[Oracle], ours: Threads, result: StackResult) -> Iterator[tuple[Row, Row]]:
    for oracle in oracles:
        has_microseconds = tuple(int(part) for part in oracle.torch.split(".")[:2]) <= LAST_MICROSECONDS
        windows = {key: window_or_span(rows, oracle.threads.values(), "torch.profiler") or [] for key, rows in oracle.threads.items()}
        wrong = misplaced({tid: rows for (_, tid), rows in windows.items()}) if has_microseconds else {}
        before: dict[tuple[int, int], set[int]] = {}
        for key, rows in ours.items():
            inner = window_or_span(rows, [other for other_key, other in ours.items() if other_key[0] == key[0]], "proftrace")
            before[key] = numbers_before(rows, inner[0].start_ns) if inner else set()
        for key, theirs in windows.items():
            same_process = [other for other_key, other in ours.items() if other_key[0] == key[0]]
            mine = window_or_span(ours.get(key, []), same_process, "proftrace") or []
            parents = [row.parent for row in mine]
            for left, right in pair_up(theirs, mine):
                if left is None or right is None or theirs[left].stack is None:
                    continue
                node = node_of(right, parents, mine)
                if left in wrong.get(key[1], ()):
                    result.misplaced += 1
                elif node >= 0 and mine[node].sequence in before.get((key[0], mine[node].forward_tid), ()):
                    result.began_before += 1
                else:
                    yield theirs[left], mine[right]


def compare_stacks(oracles: list[Oracle], ours: Threads) -> StackResult:
    result = StackResult()
    pairs = list(compared_rows(oracles, ours, result))
    classes = Classes(theirs for theirs, _ in pairs)
    instances = Instances()
    for left, right in (both_stacks(*pair) for pair in pairs):
        for i in stale_frames(left, right, classes):
            instances.add(right[i])
    for theirs, mine in pairs:
        compare_row(theirs, mine, classes, instances, result)
    return result

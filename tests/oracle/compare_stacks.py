"""Lays the Python stacks of rows beside torch.profiler's (with_stack=True, events()), row by row.

A frame is a file, a function and, for nn.Modules, the class and the number of the instance. torch has the line where a function
begins, we have the line that runs: tests/live/stacks_test.py checks that one.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter

from compare import paired_rows
from model import Oracle, Row, Threads

SHOWN = 8
ENOUGH = 0.999
# Frames that events() leaves out (torch/autograd/profiler_util.py, _filter_stack_entry).
LEFT_OUT = [("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"), ("torch/tensor", "backward")]
# With Python 3.9 torch.profiler has a second frame for calls that were open when it began: the function's repr.
OPEN_CALL = re.compile(r"<function .* at 0x[0-9a-f]+>")


@dataclasses.dataclass
class StackResult:
    rows: int = 0
    right: int = 0
    frames: int = 0
    modules: int = 0
    wrong: Counter[str] = dataclasses.field(default_factory=Counter)  # by name
    examples: dict[str, str] = dataclasses.field(default_factory=dict)

    def lines(self) -> list[str]:
        share = 100 * self.right / self.rows if self.rows else 0
        lines = [f"stacks of {self.rows} rows: {self.right} right ({share:.3f} %), {self.frames} frames, {self.modules} of nn.Modules"]
        lines += [f"different stacks: {count} of {name!r}: {self.examples[name]}" for name, count in self.wrong.most_common(SHOWN)]
        return lines

    def problems(self) -> list[str]:
        if not self.frames:
            return ["torch.profiler recorded no stacks"]
        if self.right < ENOUGH * self.rows:
            return [f"{self.rows - self.right} of {self.rows} rows have another stack"]
        return []


def parts(frame: str) -> tuple[str, ...]:
    found = re.fullmatch(r"(.*)\((\d+)\): (.*)", frame)
    return (found[1], found[3]) if found else (frame,)


def compare_row(theirs: Row, ours: Row, result: StackResult) -> None:
    if theirs.stack is None:
        return
    left = [parts(frame) for frame in theirs.stack if not OPEN_CALL.fullmatch(frame)]
    right = [parts(frame) for frame in ours.stack or [] if not any(file in frame and name in frame for file, name in LEFT_OUT)]
    result.rows += 1
    result.frames += len(left)
    result.modules += sum(frame[0].startswith("nn.Module: ") for frame in left)
    if left == right:
        result.right += 1
        return
    result.wrong[theirs.name] += 1
    if theirs.name in result.examples:
        return
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    result.examples[theirs.name] = f"after {same} frames {left[same:]}, we say {right[same:]}"


def compare_stacks(oracles: list[Oracle], ours: Threads) -> StackResult:
    result = StackResult()
    for _, theirs, mine in paired_rows(oracles, ours):
        compare_row(theirs, mine, result)
    return result

"""Lays what proftrace says operators were called with beside torch.profiler's (record_shapes=True), row by row.

Dims, types, strides and concrete inputs are compared where torch has them: this version's chrome trace, or its event tree
where there is no Kineto. A row for which torch has inputs must have them here, and the other way round. Three exceptions, which
are counted: the names of torch.compile's symbolic numbers live in Python, and are shown as "?"; rows whose inputs proftrace
says that it does not read (`unsupported` in summary.json: "inputs of rows of NAME"); custom Functions in a profile of all
threads, of which torch then shows tensors only.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path

from compare import paired_rows
from model import Oracle, Row, Threads

FIELDS = ("dims", "types", "strides", "concrete")
SHOWN = 8
NO_TENSOR = ("", "Scalar", "ScalarList", "TensorList")


@dataclasses.dataclass
class InputResult:
    rows: int = 0  # that have inputs in torch
    right: Counter[str] = dataclasses.field(default_factory=Counter)  # by field
    compared: Counter[str] = dataclasses.field(default_factory=Counter)
    missing: Counter[str] = dataclasses.field(default_factory=Counter)  # by name: torch has inputs, we have none
    extra: Counter[str] = dataclasses.field(default_factory=Counter)  # the other way round
    wrong: Counter[tuple[str, str]] = dataclasses.field(default_factory=Counter)  # by field and name
    examples: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    unread: Counter[str] = dataclasses.field(default_factory=Counter)  # by name: proftrace says so
    tensors_only: int = 0  # rows of which torch leaves out numbers that we have
    symbolic: int = 0  # concrete inputs that have a symbolic number's name in torch, and a "?" here

    def lines(self) -> list[str]:
        figures = ", ".join(f"{field} {self.right[field]}/{self.compared[field]}" for field in FIELDS if self.compared[field])
        lines = [f"inputs of {self.rows} rows: {figures}"]
        lines += [f"inputs that are said to be unread: {name} {count}" for name, count in self.unread.items()]
        if self.tensors_only:
            lines.append(f"rows whose numbers torch leaves out in a profile of all threads: {self.tensors_only}")
        if self.symbolic:
            lines.append(f"concrete inputs with names of symbolic numbers, shown as ?: {self.symbolic}")
        return lines

    def problems(self) -> list[str]:
        found = [f"{count} rows of {name!r} have no inputs" for name, count in self.missing.items()]
        found += [f"{count} rows of {name!r} have inputs, torch has none" for name, count in self.extra.items()]
        found += [f"{field} of {count} rows of {name!r} differ: {self.examples[field, name]}"
                  for (field, name), count in self.wrong.most_common()]
        if not self.rows:
            found.append("torch.profiler recorded no inputs")
        return found[:SHOWN]


def is_symbolic(theirs: list[str], ours: list[str]) -> bool:
    """Whether these differ in that torch names symbolic numbers ("s4", "2*s0 + 1"), and we show "?" for each."""
    if len(theirs) != len(ours) or not any("?" in value for value in ours):
        return False
    name = r"(?=[^,\[\]]*[a-z])[^,\[\]]+"
    return all(re.fullmatch(re.escape(mine).replace(r"\?", name), their) for their, mine in zip(theirs, ours))


def without_numbers(inputs: dict[str, list[object]]) -> dict[str, list[object]] | None:
    kept = [index for index, kind in enumerate(inputs["types"]) if kind not in NO_TENSOR]
    return {field: [values[index] for index in kept] for field, values in inputs.items()} if kept else None


def compare_row(theirs: Row, ours: Row, result: InputResult) -> None:
    if theirs.inputs is None:
        if ours.inputs is not None:
            result.extra[theirs.name] += 1
        return
    result.rows += 1
    for field in FIELDS:
        result.compared[field] += field in theirs.inputs
    if ours.inputs is None:
        result.missing[theirs.name] += 1
        return
    for field in FIELDS:
        if field not in theirs.inputs:
            continue
        if theirs.inputs[field] == ours.inputs.get(field):
            result.right[field] += 1
            continue
        if field == "concrete" and is_symbolic(theirs.inputs[field], ours.inputs.get(field, [])):
            result.symbolic += 1
            result.compared[field] -= 1
            continue
        result.wrong[field, theirs.name] += 1
        result.examples.setdefault(
            (field, theirs.name), f"{json.dumps(theirs.inputs[field])[:300]}, we say {json.dumps(ours.inputs.get(field))[:300]}")


def names_unread(summary: Path) -> frozenset[str]:
    gaps = json.loads(summary.read_text(encoding="utf-8"))["unsupported"]
    prefix = "inputs of rows of "
    return frozenset(gap["feature"].removeprefix(prefix) for gap in gaps if gap["feature"].startswith(prefix))


def compare_inputs(oracles: list[Oracle], ours: Threads, unread: frozenset[str]) -> InputResult:
    result = InputResult()
    for oracle, theirs, row in paired_rows(oracles, ours):
        if row.name in oracle.tensors_only and row.inputs is not None:
            less = dataclasses.replace(row, inputs=without_numbers(row.inputs))
            result.tensors_only += less.inputs != row.inputs
            row = less
        compare_row(theirs, row, result)
    for name in unread & result.missing.keys():
        count = result.missing.pop(name)
        result.unread[name] += count
        result.rows -= count
        for field in FIELDS:
            result.compared[field] -= min(count, result.compared[field])
    return result

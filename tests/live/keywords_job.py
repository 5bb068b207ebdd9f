"""Annotations with keyword values, each under a profiler of torch's that records inputs; a line on stdin asks for one of the rounds.

Prints READY PID; then, a line a round, what torch made of each row: its category, and the items of its args that are keyword
values, as JSON.
"""

from __future__ import annotations

import enum
import json
import os
import sys
import tempfile
from pathlib import Path

import torch

from keyword_rows import keyword_rows


class Text(str):
    pass


class Number(enum.IntEnum):
    FIVE = 5


class Decimal(float):
    pass


class Words(dict):
    pass


class Plain:
    """Its __dict__ shares its table of keys with the others' of this class."""

    def __init__(self, scope: str, number: int) -> None:
        self.number = number
        self.scope = scope


def taken_out() -> dict[object, object]:
    words: dict[object, object] = {"first": 1, "second": 2, "scope": "function"}
    del words["first"]
    words["scope"] = "user_scope"
    return words


def once_mixed() -> dict[object, object]:
    words: dict[object, object] = {"a": 1, 3: 4}
    del words[3]
    words["scope"] = "user_scope"
    return words


def cases(tensor: torch.Tensor) -> dict[str, object]:
    """By the row's name. None of a double that is a whole number: torch's trace is no JSON then."""
    values = {
        "int": 1, "negative": -5, "wide": 2**62, "least": -2**63, "double": 2.5, "small": 1e-7, "third": 1 / 3, "yes": True, "no": False,
        "text": "text", "empty": "", "wide text": "schön 训练 \N{FIRE}", "latin": "sch\xf6n", "long": "x" * 3000, "path": "C:\\temp",
        "quotes": 'a"b', "bytes": b"bytes", "derived": Text("derived"), "derived wide": Text("训练"), "enum": Number.FIVE, "float": Decimal(0.5),
        "none": None, "complex": 1 + 2j, "tuple": (1, 2), "nested": ((1, 2), 3), "nothing": (), "texts in a tuple": ("a", 1),
        "tensors in a tuple": (tensor, 1), "numbers": [1, 2], "doubles": [1.5], "texts": ["a", "b", Text("c"), b"d"], "no items": [],
        "mixed": ["a", 1], "tensors": [tensor], "tensor": tensor, "dtype": torch.float32, "dict": {"a": 1}, "numbered": {1: 2},
        "empty dict": {}, "set": {1}, "function": len, "size": tensor.shape, "k\xfc": 3, b"key": 4, Text("key 2"): 5,
    }
    return {
        "plain": None, "user scope": {"scope": "user_scope"}, "user scope in bytes": {b"scope": b"user_scope"},
        "user scope of a derived str": {Text("scope"): Text("user_scope")}, "another scope": {"scope": "function"},
        "a scope that is longer": {"scope": "user_scopes"}, "a scope that is a number": {"scope": 7}, "derived dict": Words(scope="user_scope", a=1),
        "shared table": Plain("user_scope", 3).__dict__, "shared table, no annotation": Plain("no", 4).__dict__, "taken out": taken_out(),
        "once mixed": once_mixed(), "stream": {"stream": 3}, "no stream": {"stream": "x"}, "values": values,
        "many": {f"key {i}": i for i in range(200)}, Text("a name that is derived"): {"a": 1},
    }


def run(tensor: torch.Tensor, rows: dict[str, object]) -> None:
    make = torch._C._profiler._RecordFunctionFast
    for name, words in rows.items():
        for inputs in (None, [tensor, 1]):
            arguments = {} if inputs is None else {"input_values": inputs}
            if words is not None:
                arguments["keyword_values"] = words
            with make(name, **arguments):
                tensor.add(1)


def answer(tensor: torch.Tensor, rows: dict[str, object]) -> str:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profile:
        run(tensor, rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return json.dumps(keyword_rows(path, lambda name: not name.startswith("aten::")))


def main() -> None:
    torch.set_num_threads(1)
    tensor = torch.ones(2, 3)
    if hasattr(torch._C._profiler, "_RecordFunctionFast"):
        answer(tensor, {"first": None})
    print(f"READY {os.getpid()}", flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        there = hasattr(torch._C._profiler, "_RecordFunctionFast")
        print(answer(tensor, cases(tensor)) if there else "missing", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Runs a file of PyTorch's own tests as a job to record: prints READY and its PID, waits for `go`, tests, prints DONE.

    own_tests_job.py FILE --out DIR [--only REGEX] [--windows]

DIR/outcomes.jsonl has a line for each test: {"test", "outcome", "why", "seconds"}. With --windows DIR/windows.jsonl has a line for
each profile that a test took, which own_tests.py lays beside a recording: {"test", "tid", "enable_ns", "begin_ns", "end_ns"
(CLOCK_MONOTONIC; the profile begins between the first two), "is_whole", "has_places", "rows", "memory"}. The rows are those of
profiles.py with the `inputs`, `flops` and `stack` of the profile's events; their `tid` is the profiler's own number, and "thread"
is that of the thread that took the profile, or null.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
import threading
import time
import traceback
import unittest
from pathlib import Path
from typing import Any

import torch

import autograd
import profiles
from workload import say, wait_for_go

profiles.RECORDS_STACKS = True  # leaves the tree's rows of Python out
# Where torch has the shape of a row's tensors alone, and not of the tensors in its lists.
NO_SHAPE = ("TensorList", "GenericList")


class Outcomes(unittest.TestResult):
    """Writes how each test ended."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.file = path.open("w", encoding="utf-8")

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began = time.monotonic()
        self.outcome, self.why = "ok", ""

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        seconds = round(time.monotonic() - self.began, 3)
        line = {"test": test.id(), "outcome": self.outcome, "why": self.why, "seconds": seconds}
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()

    def note(self, outcome: str, error: Any) -> None:
        self.outcome = outcome
        self.why = "".join(traceback.format_exception_only(error[0], error[1])).strip()[:2000]

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.note("error", err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.note("failure", err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note("failure", err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcome, self.why = "skipped", reason

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addExpectedFailure(test, err)
        self.outcome = "expected failure"

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        super().addUnexpectedSuccess(test)
        self.outcome = "unexpected success"


class Windows:
    """Looks at the results of torch's profiles as they are taken. The rows in between are the tests' own: nothing is added."""

    def __init__(self, path: Path, outcomes: Outcomes) -> None:
        self.file = path.open("w", encoding="utf-8")
        self.pid = os.getpid()
        self.numbers: dict[int, int] = {}  # the profiler's number of a thread, by the kernel's
        self.test = ""
        self.enable_ns = self.begin_ns = 0
        self.is_whole = True
        self.is_concrete = True  # at the moment; and all the time of a profile
        self.was_concrete = True
        module = torch.autograd.profiler
        self.enable, self.disable = module._enable_profiler, module._disable_profiler
        self.toggle = getattr(module, "_toggle_collection_dynamic", None)
        self.learn_number()
        module._enable_profiler = self.on_enable
        module._disable_profiler = self.on_disable
        if self.toggle is not None:
            module._toggle_collection_dynamic = self.on_toggle
        self.set_concrete = getattr(torch._C._profiler, "_set_record_concrete_inputs_enabled_val", None)
        if self.set_concrete is not None:
            torch._C._profiler._set_record_concrete_inputs_enabled_val = self.on_concrete
        start = outcomes.startTest

        def start_test(test: unittest.TestCase) -> None:
            self.test = test.id()
            start(test)
        outcomes.startTest = start_test  # type: ignore[method-assign]

    def learn_number(self) -> None:
        with torch.autograd.profiler.profile(use_kineto=profiles.has_kineto()) as profile:
            torch.ones(1)
        self.numbers[threading.get_native_id()] = profile.kineto_results.experimental_event_tree()[0].start_tid

    def on_enable(self, *arguments: Any, **named: Any) -> Any:
        self.enable_ns = time.monotonic_ns()
        answer = self.enable(*arguments, **named)
        self.is_whole, self.was_concrete = True, self.is_concrete
        self.begin_ns = time.monotonic_ns()
        return answer

    def on_toggle(self, *arguments: Any) -> Any:
        self.is_whole = False  # torch leaves out what comes until it is turned on again
        return self.toggle(*arguments)

    def on_concrete(self, value: bool) -> None:
        self.is_concrete = value
        self.was_concrete = self.was_concrete and value
        self.set_concrete(value)

    def on_disable(self) -> Any:
        end_ns = time.monotonic_ns()
        result = self.disable()
        if os.getpid() == self.pid and result is not None:  # None: a profile for NVTX or ITT
            self.write(result, end_ns)
        return result

    def write(self, result: Any, end_ns: int) -> None:
        window = {"test": self.test, "tid": threading.get_native_id(), "thread": self.numbers.get(threading.get_native_id()),
                  "enable_ns": self.enable_ns, "begin_ns": self.begin_ns, "end_ns": end_ns, "is_whole": self.is_whole}
        try:
            roots = result.experimental_event_tree()
            events = list(result.events())
            rows = profiles.tree_rows(roots)
            profiles.nest_as_events(rows, events)
            if rows:
                autograd.add_sequences(rows, events)
            add_details(rows, events, self.was_concrete)
            # With frames in it the tree ends an annotation with the frame of its __enter__; and events() takes a row that is still
            # open at the profile's end for asynchronous.
            has_places = not has_frames(roots) and all(event.is_async() or event.start_thread_id() == event.end_thread_id() for event in events)
            window |= {"rows": rows, "memory": memory_of(roots), "has_places": has_places}
        except SystemExit as why:
            window["unread"] = str(why)
        self.file.write(json.dumps(window) + "\n")
        self.file.flush()


def add_details(rows: list[dict[str, Any]], events: list[Any], concrete: bool) -> None:
    """What operators were called with, their flops and their Python stacks, where the profile has any."""
    found = {event.correlation_id(): event for event in events}
    for row in rows:
        event = found.get(row["correlation"])
        if event is None:
            continue
        row["flops"] = event.flops()
        if event.has_shapes() if hasattr(event, "has_shapes") else event.shapes():
            types = list(event.dtypes())
            dims = [None if kind in NO_SHAPE else list(shape) for shape, kind in zip(event.shapes(), types)]
            if not concrete:  # nor the types of lists of numbers
                types = [kind or None for kind in types]
            row["inputs"] = {"dims": dims, "types": types}
        if event.stack():
            row["stack"] = [frame for frame in reversed(event.stack()) if not frame.startswith("<built-in")]


def has_frames(roots: list[Any]) -> bool:
    return any(str(event.tag).endswith(profiles.PYTHON_TAGS) or has_frames(event.children) for event in roots)


def memory_of(roots: list[Any]) -> list[tuple[int, int, int]]:
    """Allocations and frees of the CPU in the order of their times: the profiler's number of the thread, bytes, address."""
    found = []
    stack = list(roots)
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        if event.name == profiles.MEMORY_NAMES[0] and not profiles.bytes_of(event)[1]:
            fields = event.extra_fields
            found.append((event.start_time_ns, event.start_tid, fields.alloc_size, fields.ptr or 0))
    return [record[1:] for record in sorted(found)]


def load_tests(path: Path, only: str) -> unittest.TestSuite:
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    chosen = unittest.TestSuite()
    for group in unittest.defaultTestLoader.loadTestsFromModule(module):
        chosen.addTests(test for test in group if re.search(only, test.id()))
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--windows", action="store_true", help="also write what each profile saw")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # torch.testing reads it
    torch.set_num_threads(1)
    tests = load_tests(options.file.resolve(), options.only)
    outcomes = Outcomes(options.out / "outcomes.jsonl")
    if options.windows:
        Windows(options.out / "windows.jsonl", outcomes)
    say(f"READY {os.getpid()}")
    wait_for_go()
    tests.run(outcomes)
    say("DONE")
    return 0


if __name__ == "__main__":
    sys.exit(main())

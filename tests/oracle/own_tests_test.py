#!/usr/bin/env python3
"""own_tests.py must pass a faithful recording of a test's profile, and fail each kind of wrong one."""

from __future__ import annotations

import csv
import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

import own_tests

PID, TID, WORKER = 100, 100, 101
OFFSET_NS = 5_000_000  # Unix time less CLOCK_MONOTONIC
COLUMNS = ["id", "parent_id", "depth", "name", "category", "scope", "pid", "tid", "start_ns", "duration_ns", "end", "device_type",
           "sequence_nr", "fwd_tid", "input_shapes", "input_types", "flops", "stack", "args"]
OPTIONS = ["--record-shapes", "--with-flops", "--profile-memory", "--with-stack"]
STACK = ["test.py(1): main", "nn/functional.py(7): linear"]


def torch_row(name: str, thread: int, start: int, end: int, parent: int, **more: Any) -> dict[str, Any]:
    return {"name": name, "tid": thread, "start_ns": start, "end_ns": end, "cat": "cpu_op", "scope": "FUNCTION", "parent": parent,
            "seq": -1, "flops": 0, **more}


def our_row(number: int, name: str, tid: int, start: int, duration: int, parent: str = "", **more: Any) -> dict[str, Any]:
    return {"id": str(number), "parent_id": parent, "depth": "1" if parent else "0", "name": name, "category": "cpu_op", "scope": "FUNCTION",
            "pid": str(PID), "tid": str(tid), "start_ns": str(OFFSET_NS + start), "duration_ns": str(duration), "end": "return",
            "device_type": "CPU", **more}


class OwnTestsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        inputs = {"dims": [[2, 3], None, []], "types": ["float", "TensorList", "Scalar"]}
        self.window = {
            "test": "test_made_up", "tid": TID, "thread": 1, "enable_ns": 90, "begin_ns": 100, "end_ns": 900, "is_whole": True, "has_places": True,
            "rows": [torch_row("aten::linear", 1, 10, 60, -1, seq=4, inputs=inputs, stack=STACK),
                     torch_row("aten::mm", 1, 20, 30, 0, flops=12),
                     torch_row("aten::relu", 2, 15, 25, -1)],
            "memory": [[1, 64, 4096], [1, -64, 4096]]}
        memory = {"category": "cpu_instant_event", "name": "[memory]"}
        self.events = [
            our_row(0, "aten::before", TID, 50, 20),
            our_row(1, "aten::linear", TID, 200, 100, sequence_nr="4", input_shapes="[[2, 3], [[4]], []]",
                    input_types='["float", "TensorList", "Scalar"]', stack=";".join(STACK)),
            our_row(2, "aten::relu", WORKER, 205, 10),
            our_row(3, "aten::mm", TID, 210, 20, "1", flops="12"),
            our_row(4, "[memory]", TID, 212, 0, "3") | memory | {"args": '{"bytes": 64, "addr": 4096}'},
            our_row(5, "[memory]", TID, 300, 0) | memory | {"args": '{"bytes": -32, "addr": 8192}'},  # was there before
            our_row(6, "[memory]", TID, 310, 0) | memory | {"args": '{"bytes": -64, "addr": 4096}'},
            our_row(7, "aten::after", TID, 950, 5)]

    def judge(self) -> own_tests.Answer:
        (self.folder / "windows.jsonl").write_text(json.dumps(self.window) + "\n")
        summary = {"clocks": {"first": {"realtime_ns": OFFSET_NS + 7, "monotonic_ns": 7}}, "proftrace": {"arguments": OPTIONS},
                   "unsupported": []}
        (self.folder / "summary.json").write_text(json.dumps(summary))
        with (self.folder / "events.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(self.events)
        return own_tests.compare_windows(PID, self.folder / "windows.jsonl", self.folder)

    def test_a_faithful_recording(self) -> None:
        answer = self.judge()
        self.assertEqual(answer.problems(), [])
        self.assertEqual((answer.windows, answer.rows, answer.right), (1, 3, 3))
        self.assertEqual((answer.numbers, answer.flops, answer.memory), ([1, 1], [1, 1], [2, 2]))
        self.assertEqual((answer.inputs.rows, answer.stacks.rows, answer.stacks.right), (1, 1, 1))

    def test_what_is_wrong_is_found(self) -> None:
        wrong = [("name", 3, {"name": "aten::bmm"}), ("parent", 3, {"parent_id": "", "depth": "0"}), ("sequence", 1, {"sequence_nr": "5"}),
                 ("flops", 3, {"flops": "13"}), ("shape", 1, {"input_shapes": "[[3, 3], [[4]], []]"}), ("stack", 1, {"stack": STACK[0]}),
                 ("bytes", 4, {"args": '{"bytes": 32, "addr": 4096}'}),
                 ("free", 6, {"args": '{"bytes": -64, "addr": 8192}'}), ("allocation", 5, {"args": '{"bytes": 32, "addr": 8192}'}), ("other thread", 2, {"name": "aten::tanh"}),
                 ("extra", 0, {"start_ns": str(OFFSET_NS + 101)}), ("missing", 3, {"start_ns": str(OFFSET_NS + 901)})]
        for what, number, change in wrong:
            with self.subTest(what):
                before = dict(self.events[number])
                self.events[number].update(change)
                self.assertNotEqual(self.judge().problems(), [])
                self.events[number] = before

    def test_a_profile_that_was_off_for_a_while_is_counted_and_not_compared(self) -> None:
        self.window["is_whole"] = False
        self.events = []
        answer = self.judge()
        self.assertEqual((answer.toggled, answer.windows, answer.problems()), (1, 0, []))

    def test_a_free_of_which_torch_has_an_earlier_blocks_size_is_counted(self) -> None:
        self.window["memory"].insert(1, [1, -4, 8192])
        answer = self.judge()
        self.assertEqual((answer.problems(), answer.stale, answer.memory), ([], 1, [3, 3]))
        self.window["memory"][1] = [1, -4, 8200]
        self.assertNotEqual(self.judge().problems(), [])

    def test_where_torch_does_not_tell_places_the_rows_are_compared_all_the_same(self) -> None:
        self.window["has_places"] = False
        self.events[3].update(parent_id="", depth="0")
        answer = self.judge()
        self.assertEqual((answer.problems(), answer.placeless), ([], 3))
        self.events[3]["name"] = "aten::bmm"
        self.assertNotEqual(self.judge().problems(), [])

    def test_a_tree_that_the_job_could_not_read_is_a_problem(self) -> None:
        self.window["unread"] = "the profiler's tree has a row that is no operator"
        self.assertEqual(len(self.judge().problems()), 1)


if __name__ == "__main__":
    unittest.main()

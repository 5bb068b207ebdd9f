#!/usr/bin/env python3
"""compare.py must pass a faithful events.csv and fail each kind of wrong one."""

from __future__ import annotations

import csv
import json
import random
import tempfile
import unittest
from pathlib import Path
from typing import Any, Callable

import compare
import compare_inputs
import compare_stacks
import model

PID, TID = 100, 101
COLUMNS = ["id", "parent_id", "depth", "path", "name", "category", "pid", "tid", "start_ns", "duration_ns", "self_ns",
           "end"]
Record = dict[str, Any]


def made_up_tree(seed: int = 7, roots: int = 40) -> list[Record]:
    """Rows as profiles.py writes them: markers around random trees, some with an only child of the same name."""
    draw = random.Random(seed)
    rows: list[Record] = []
    clock = 1_000

    def add(name: str, parent: int, depth: int) -> None:
        nonlocal clock
        clock += 10
        index = len(rows)
        rows.append({"name": name, "tid": TID, "start_ns": clock, "end_ns": 0, "cat": "cpu_op", "is_async": False,
                     "parent": parent})
        for _ in range(draw.choice([0, 0, 1, 2, 3]) if depth < 4 else 0):
            add(draw.choice([name, "aten::empty", "aten::mul", "aten::add", "detach"]), index, depth + 1)
        clock += 10
        rows[index]["end_ns"] = clock

    def mark(name: str) -> None:
        add_leaf(name, "user_annotation")

    def add_leaf(name: str, category: str) -> None:
        nonlocal clock
        rows.append({"name": name, "tid": TID, "start_ns": clock + 1, "end_ns": clock + 2, "cat": category,
                     "is_async": False, "parent": -1})
        clock += 10

    add_leaf("aten::zeros", "cpu_op")
    mark(model.BEGIN)
    for _ in range(roots):
        add(draw.choice(["aten::linear", "aten::mm", "MmBackward0"]), -1, 0)
    mark(model.END)
    return rows


def write_oracle(directory: Path, rows: list[Record], deduplicated: bool = False) -> None:
    header = {"pid": PID, "torch": "0", "source": "made up", "deduplicated": deduplicated}
    (directory / f"oracle-{PID}.jsonl").write_text("\n".join(json.dumps(row) for row in [header, *rows]))
    threads = model.Threads()
    for row in rows:
        threads.setdefault((PID, TID), []).append(
            model.Row(row["name"], row["start_ns"], row["end_ns"] - row["start_ns"], row["parent"], 0, row["cat"]))
    listed = threads[(PID, TID)] if deduplicated else model.without_only_children(threads[(PID, TID)])
    averages = [{"name": name, "count": count} for name, count in model.counts(listed).items()]
    (directory / f"key_averages-{PID}.json").write_text(json.dumps(averages))


def events_of(rows: list[Record]) -> list[Record]:
    """The faithful events.csv of these rows."""
    events: list[Record] = []
    for index, row in enumerate(rows):
        parent = row["parent"]
        depth = events[parent]["depth"] + 1 if parent >= 0 else 0
        events.append({
            "id": index + 5, "parent_id": parent + 5 if parent >= 0 else "", "depth": depth, "path": "", "name": row["name"],
            "category": row["cat"], "pid": PID, "tid": row["tid"], "start_ns": row["start_ns"],
            "duration_ns": row["end_ns"] - row["start_ns"], "self_ns": 0, "end": "return"})
    return events


def remove(events: list[Record], gone: Callable[[Record], bool]) -> list[Record]:
    """Leaves events out; children move up, depths follow."""
    parents = {event["id"]: event["parent_id"] for event in events if gone(event)}
    depths: dict[Any, int] = {"": -1}
    kept = []
    for event in events:
        if event["id"] in parents:
            continue
        event = dict(event)
        while event["parent_id"] in parents:
            event["parent_id"] = parents[event["parent_id"]]
        event["depth"] = depths[event["parent_id"]] + 1
        depths[event["id"]] = event["depth"]
        kept.append(event)
    return kept


class StacksTest(unittest.TestCase):
    """Before 2.4 torch looks for the node around a row by times in microseconds."""

    def rows(self) -> list[model.Row]:
        def row(name: str, start: int, end: int, parent: int, **more: Any) -> model.Row:
            return model.Row(name, start, end - start, parent, 0, "cpu_op", stack=["a.py(1): f"], **more)
        return [row("aten::mul", 500, 900, -1, sequence=7),
                row("NodeBackward0", 1000, 5900, -1, scope="BACKWARD_FUNCTION", sequence=7, forward_tid=1),
                row("aten::in_it", 2000, 3000, 1),
                row("aten::behind_it_when_cut", 4500, 5890, 1),  # the node: 1 to 5; this one: 4 to 5
                row("OtherBackward0", 7999, 9000, -1, scope="BACKWARD_FUNCTION", sequence=8, forward_tid=1),
                row("aten::past_it_when_cut", 8000, 9000, 4, sequence=9),  # 8 to 9, its node 7 to 8
                row("aten::after_that", 8500, 8600, 4),
                row("ThirdBackward0", 11000, 12000, -1, scope="BACKWARD_FUNCTION", sequence=9, forward_tid=1),
                row("aten::by_another_forward", 11000, 11500, 7)]

    def test_rows_that_are_misplaced_by_cut_times(self) -> None:
        self.assertEqual(compare_stacks.misplaced({1: self.rows()}), {1: {5, 6, 7, 8}})

    def test_a_forward_is_no_only_child_of_its_name(self) -> None:
        def row(name: str, start: int, end: int, parent: int, **more: Any) -> model.Row:
            return model.Row(name, start, end - start, parent, 0, "cpu_op", stack=["a.py(1): f"], **more)
        # By whole times the second one is gone before the node looks for its forward; cut, it ends behind the first one and is not.
        rows = [row("aten::sin", 1900, 4800, -1), row("aten::sin", 2100, 5100 - 400, 0, sequence=7), row("aten::sum", 5000, 5900, -1, sequence=7),
                row("NodeBackward0", 6000, 8000, -1, scope="BACKWARD_FUNCTION", sequence=7, forward_tid=1)]
        self.assertEqual(compare_stacks.misplaced({1: rows}), {1: {3}})
        rows[0].start_ns, rows[0].duration_ns = 2000, 2900
        self.assertEqual(compare_stacks.misplaced({1: rows}), {1: set()})

    def test_they_are_counted_and_not_compared(self) -> None:
        def in_window() -> list[model.Row]:
            begin, end = (model.Row(name, start, 10, -1, 0, "user_annotation") for name, start in ((model.BEGIN, 0), (model.END, 20000)))
            rows = self.rows()
            for row in rows:
                row.parent += row.parent >= 0
            return [begin, *rows, end]

        oracle = model.Oracle(1, "2.1.2", "", False, {(1, 1): in_window()}, {})
        mine = {(1, 1): in_window()}
        mine[1, 1][7].stack = ["b.py(2): g"]  # aten::after_that
        result = compare_stacks.compare_stacks([oracle], mine)
        self.assertEqual((result.rows, result.right, result.misplaced), (5, 5, 4))
        oracle.torch = "2.5.1"
        result = compare_stacks.compare_stacks([oracle], mine)
        self.assertEqual((result.rows, result.right, result.misplaced), (9, 8, 0))
        # torch takes the first row with a node's number for its forward: one that it did not see has our rows' stack.
        before = model.Row("aten::add", -500, 100, -1, 0, "cpu_op", stack=["c.py(3): h"], sequence=7)
        for row in mine[1, 1]:
            row.parent += row.parent >= 0
        mine[1, 1].insert(0, before)
        mine[1, 1][4].stack = before.stack  # aten::in_it
        result = compare_stacks.compare_stacks([oracle], mine)
        self.assertEqual((result.rows, result.right, result.began_before), (6, 5, 3))


class CompareTest(unittest.TestCase):
    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.rows = made_up_tree()
        self.events = events_of(self.rows)

    def judge(self, events: list[Record], allowed: frozenset[str] = frozenset(), deduplicated: bool = False,
              rows: list[Record] | None = None) -> compare.Result:
        folder = Path(self.directory.name)
        write_oracle(folder, self.rows if rows is None else rows, deduplicated)
        path = folder / "events.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(events)
        return compare.compare(model.read_oracles(folder), model.read_events(path), allowed)

    def inner(self, name: str, leaf: bool = True) -> int:
        """A row in the middle of the window with that name."""
        parents = {event["parent_id"] for event in self.events}
        places = [index for index, event in enumerate(self.events)
                  if event["name"] == name and event["depth"] > 1 and (event["id"] not in parents) == leaf]
        return places[len(places) // 2]

    def test_faithful_events_pass(self) -> None:
        result = self.judge(self.events)
        self.assertEqual(result.differences, [])
        self.assertGreater(result.right, 50)
        self.assertEqual(result.right, result.oracle_rows)
        self.assertEqual(result.right, result.our_rows)
        self.assertIn("recall 100 %", compare.report(result))

    def test_missing_row_fails(self) -> None:
        gone = self.events[self.inner("aten::mul")]["id"]
        result = self.judge(remove(self.events, lambda event: event["id"] == gone))
        self.assertLess(result.right, result.oracle_rows)
        self.assertTrue(any("missing 'aten::mul'" in text for text in result.differences), result.differences)

    def test_extra_row_fails(self) -> None:
        place = self.inner("aten::mul")
        extra = dict(self.events[place], id=10_000, name="aten::surprise")
        result = self.judge(self.events[:place] + [extra] + self.events[place:])
        self.assertTrue(any("extra 'aten::surprise'" in text for text in result.differences), result.differences)
        self.assertEqual(result.right, result.our_rows - 1)

    def test_wrong_parent_fails(self) -> None:
        place = self.inner("aten::mul")
        grandparent = next(event["parent_id"] for event in self.events
                           if event["id"] == self.events[place]["parent_id"])
        self.events[place].update(parent_id=grandparent, depth=self.events[place]["depth"] - 1)
        result = self.judge(self.events)
        self.assertEqual(result.right, result.oracle_rows - 1)
        self.assertIn("is under", result.differences[0])

    def test_wrong_sibling_as_parent_fails(self) -> None:
        """Name, depth and the parent's name are right; only its place is wrong."""
        rows = [{"name": name, "tid": TID, "start_ns": start, "end_ns": end, "cat": "cpu_op", "is_async": False,
                 "parent": parent}
                for name, start, end, parent in [
                    (model.BEGIN, 1, 2, -1), ("a", 10, 20, -1), ("b", 11, 12, 1), ("a", 30, 40, -1), ("b", 31, 32, 3),
                    (model.END, 50, 51, -1)]]
        events = events_of(rows)
        self.assertTrue(self.judge(events, rows=rows).same)
        events[4]["parent_id"] = events[1]["id"]
        self.assertFalse(self.judge(events, rows=rows).same)

    def test_a_tree_that_contradicts_its_own_times_is_taken_by_the_times(self) -> None:
        names = [(model.BEGIN, 1, 2, -1), ("a", 10, 40, -1), ("b", 11, 30, 1), ("c", 12, 20, 2), ("d", 13, 14, 3),
                 (model.END, 50, 51, -1)]
        rows = [{"name": name, "tid": TID, "start_ns": start, "end_ns": end, "cat": "cpu_op", "is_async": False,
                 "parent": parent} for name, start, end, parent in names]
        events = events_of(rows)
        rows[3]["parent"] = 1
        result = self.judge(events, rows=rows)
        self.assertTrue(result.same, result.differences)
        self.assertTrue(any("contradicts its own times at 1 rows" in note for note in result.notes), result.notes)
        rows[3]["end_ns"] = 35  # now its times agree with its tree
        self.assertFalse(self.judge(events, rows=rows).same)

    def test_wrong_depth_fails(self) -> None:
        self.events[self.inner("aten::mul")]["depth"] += 1
        result = self.judge(self.events)
        self.assertTrue(any("has depth" in text for text in result.differences), result.differences)

    def test_swapped_names_fail(self) -> None:
        place = self.inner("aten::mul")
        other = next(index for index in range(place, len(self.events)) if self.events[index]["name"] == "aten::add")
        self.events[place]["name"], self.events[other]["name"] = "aten::add", "aten::mul"
        self.assertFalse(self.judge(self.events).same)

    def test_event_on_another_thread_fails(self) -> None:
        top = [index for index, event in enumerate(self.events) if event["depth"] == 0]
        place = next(index for index in top[5:] if index + 1 in top)
        self.events[place]["tid"] = TID + 1
        result = self.judge(self.events)
        self.assertFalse(result.same)
        self.assertTrue(any(f"tid {TID + 1}: no answer" in note for note in result.notes))

    def test_one_missing_marker_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            self.judge([event for event in self.events if event["name"] != model.BEGIN])

    def test_no_marker_fails(self) -> None:
        markers = {model.BEGIN, model.END}
        self.assertFalse(self.judge([event for event in self.events if event["name"] not in markers]).same)

    def test_empty_recording_fails(self) -> None:
        self.assertFalse(self.judge([]).same)

    def test_allowed_name_may_be_missing_and_is_listed(self) -> None:
        events = remove(self.events, lambda event: event["name"] == "detach")
        self.assertFalse(self.judge(events).same)
        result = self.judge(events, allowed=frozenset({"detach"}))
        self.assertEqual(result.differences, [])
        missing = sum(event["name"] == "detach" for event in self.events)
        self.assertIn(f"not covered: detach {missing}", compare.report(result))

    def test_allowed_name_that_is_there_in_part_fails(self) -> None:
        gone = self.events[self.inner("detach")]["id"]
        events = remove(self.events, lambda event: event["id"] == gone)
        self.assertFalse(self.judge(events, allowed=frozenset({"detach"})).same)

    def test_only_children_are_left_out_where_the_oracle_lacks_them(self) -> None:
        threads: list[model.Row] = []
        for row in self.rows:
            depth = threads[row["parent"]].depth + 1 if row["parent"] >= 0 else 0
            threads.append(model.Row(row["name"], row["start_ns"], row["end_ns"] - row["start_ns"], row["parent"], depth,
                                     row["cat"]))
        reduced = model.without_only_children(threads)
        self.assertLess(len(reduced), len(threads))
        rows = [{"name": row.name, "tid": TID, "start_ns": row.start_ns, "end_ns": row.start_ns + row.duration_ns,
                 "cat": row.category, "is_async": False, "parent": row.parent} for row in reduced]
        self.assertEqual(self.judge(self.events, rows=rows, deduplicated=True).differences, [])
        self.assertFalse(self.judge(self.events, rows=rows).same)

    def test_counts_are_compared_with_key_averages(self) -> None:
        folder = Path(self.directory.name)
        self.judge(self.events)
        ours = model.read_events(folder / "events.csv")
        path = folder / f"key_averages-{PID}.json"
        averages = json.loads(path.read_text())
        oracle = model.read_oracles(folder)[0]
        self.assertEqual(compare.compare_counts(oracle, ours, set(), []), [])
        rows = ours[(PID, TID)]
        rows[self.inner("aten::mul")].name = "aten::other"
        found = compare.compare_counts(oracle, ours, set(), [])
        self.assertEqual(len(found), 2, found)
        self.assertIn("aten::mul", found[0])
        averages[0]["count"] += 1
        path.write_text(json.dumps(averages))
        notes: list[str] = []
        compare.compare_counts(model.read_oracles(folder)[0], ours, set(), notes)
        self.assertIn("count 1 names differently", notes[0])

    def test_inputs_are_judged_on_every_row(self) -> None:
        theirs = {"dims": [[2], []], "types": ["float", "Scalar"], "concrete": ["", "2*s0"]}

        def judged(ours: dict[str, Any] | None, truth: dict[str, Any] | None = theirs,
                   name: str = "record_param_comms") -> compare_inputs.InputResult:
            result = compare_inputs.InputResult()
            rows = [model.Row(name, 1, 2, -1, 0, "cpu_op", inputs=inputs) for inputs in (truth, ours)]
            compare_inputs.compare_row(*rows, result)
            return result

        self.assertTrue(judged(None).problems())
        self.assertTrue(judged({"dims": []}, None).problems())
        self.assertEqual(judged(theirs).problems(), [])
        symbolic = judged({**theirs, "concrete": ["", "?"]})
        self.assertEqual((symbolic.problems(), symbolic.symbolic), ([], 1))
        for wrong in (["", "3"], ["?", "?"], ["", "[?]"], ["?"]):
            self.assertTrue(judged({**theirs, "concrete": wrong}).problems(), wrong)
        self.assertTrue(judged({**theirs, "concrete": ["", "?"]}, {**theirs, "concrete": ["", "3"]}).problems())

    def test_numbers_may_lack_in_rows_that_torch_shows_tensors_of_only(self) -> None:
        ours = {"dims": [[], [2]], "types": ["Scalar", "float"], "strides": [[], [1]], "concrete": ["True", ""]}
        tensor = {field: values[1:] for field, values in ours.items()}

        def judged(name: str, truth: dict[str, Any], mine: dict[str, Any]) -> compare_inputs.InputResult:
            rows = [[model.Row(model.BEGIN, 1, 1, -1, 0, "user_annotation"), model.Row(name, 3, 2, -1, 0, "cpu_op", inputs=inputs),
                     model.Row(model.END, 6, 1, -1, 0, "user_annotation")] for inputs in (truth, mine)]
            oracle = model.Oracle(PID, "0", "made up", False, {(PID, TID): rows[0]}, {}, frozenset({"Doubled"}))
            return compare_inputs.compare_inputs([oracle], {(PID, TID): rows[1]}, frozenset())

        found = judged("Doubled", tensor, ours)
        self.assertEqual((found.problems(), found.tensors_only), ([], 1))
        self.assertTrue(judged("aten::mul", tensor, ours).problems())
        self.assertTrue(judged("Doubled", {**tensor, "dims": [[3]]}, ours).problems())
        self.assertTrue(judged("Doubled", tensor, {**ours, "types": ["Scalar", "int"]}).problems())

    def test_parent_must_come_before_its_child(self) -> None:
        self.events[3]["parent_id"] = 999_999
        with self.assertRaises(ValueError):
            self.judge(self.events)


if __name__ == "__main__":
    unittest.main()

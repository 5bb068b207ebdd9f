#!/usr/bin/env python3
"""--with-stack against frames that the job itself sees (sys._getframe): file, line that runs, function."""

from __future__ import annotations

import collections
import csv
import json
import os
import re
import signal
import threading
import unittest
from pathlib import Path

import live
from dump_test import Target
from live import HERE, Job, LiveTest, Result, Tracer

SCRIPT = HERE / "stacks_job.py"
FRAME = re.compile(r"(.*)\((-?\d+)\): (.*)")
MOST_FRAMES = 128


# Names that no program should have, and frames that hang together wrongly while operators are called.
HOSTILE = r"""
import ctypes, sys, types, torch
value = torch.ones(3)
def named(name, file='named.py'):
    code = (lambda: value.add_(1)).__code__.replace(co_name=name, co_filename=file)
    return types.FunctionType(code, globals())
functions = [named('x' * 1_000_000), named('half \ud800 of a pair'), named('zero \0, "quoted", a;b\nc'), named(''),
             named('f', 'd/' * 500_000)]
OFFSETS = {11: 48, 12: 8, 13: 8, 14: 8}  # of _PyInterpreterFrame.previous
def wrong(link):
    frame = sys._getframe()
    place = id(frame) + 24  # PyFrameObject.f_back up to 3.10, its f_frame from 3.11 on
    if sys.version_info >= (3, 11):
        place = ctypes.c_uint64.from_address(place).value
        own, place = place, place + OFFSETS[sys.version_info[1]]
    else:
        own = id(frame)
    previous = ctypes.c_uint64.from_address(place)
    kept = previous.value
    previous.value = own if link is None else link
    value.mul_(1)
    previous.value = kept
print('READY', flush=True)
sys.stdin.readline()
for _ in range(300):
    for function in functions: function()
    for link in (None, 0x10, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, 0x1234_5678_9abc_def1): wrong(link)
print('DONE', value.tolist(), flush=True)
sys.stdin.readline()
"""


class StacksTest(LiveTest):
    def record(self, command: str, *more: str, stops: bool = False) -> tuple[Result, dict[str, list[str]]]:
        """`stops`: nobody empties the rings of jumps for a while."""
        out = self.directory / "result"
        with Job(script=SCRIPT) as job:
            with Tracer("record", "-p", job.pid, "-o", out, "--format", "events-csv,modules", "--with-stack", *more) as tracer:
                tracer.wait_until_recording()
                if stops:
                    tracer.process.send_signal(signal.SIGSTOP)
                    threading.Timer(0.5, tracer.process.send_signal, (signal.SIGCONT,)).start()
                truth = Path(job.do(command)["truth"])
                self.assertEqual(tracer.stop(), 0, tracer.text())
        frames = json.loads(truth.read_text(encoding="utf-8"))
        os.unlink(truth)
        return Result(out), frames

    def difference(self, theirs: list[str], stack: str) -> str | None:
        """The job's frames, then those of mark() and below it, which are left out."""
        ours = stack.split(";")
        at = next((index for index, frame in enumerate(ours) if frame.endswith(": mark")), None)
        if at is None:
            return f"no mark() in {stack!r}"
        ours = [frame for frame in ours[:at]]
        # A call of an nn.Module has the module's name. Before torch 2.1, nn.Module.__call__ is _call_impl.
        calls = ": _wrapped_call_impl" if any(frame.endswith(": _wrapped_call_impl") for frame in theirs) else ": _call_impl"
        theirs = ["nn.Module" if frame.endswith(calls) else frame for frame in theirs]
        ours = [frame.split(":")[0] if frame.startswith("nn.Module") else frame for frame in ours]
        if len(theirs) != len(ours):
            return f"{theirs} has another length than {ours}"
        for their, our in zip(theirs, ours):
            left, right = FRAME.fullmatch(their), FRAME.fullmatch(our)
            if left is None or right is None:
                if their != our:
                    return f"{their}, we say {our}"
            elif left.group(2, 3) != right.group(2, 3) or not left[1].endswith(right[1]):
                return f"{their}, we say {our}"
        return None

    def test_frames_are_those_that_the_job_sees(self) -> None:
        result, truth = self.record("round 3")
        rows = {row["name"]: row for row in result.events() if row["name"].startswith("stack ")}
        self.assertEqual(set(rows), set(truth))
        wrong = collections.Counter()
        for name, frames in truth.items():
            problem = self.difference(frames, rows[name]["stack"])
            kind = name.split(" ", 2)[2]
            if problem and kind == "backward of a function":
                continue  # inside of a node: the forward's stack, see below
            if problem:
                wrong[f"{kind}: {problem}"] += 1
        self.assertEqual(dict(wrong), {}, f"{sum(wrong.values())} of {len(truth)}")
        self.assertEqual(result.ledger["stacks_unread"], 0)
        self.assertEqual(result.ledger["stacks_cut"], 0)

    def test_operators_have_the_stack_of_their_annotation(self) -> None:
        result, _ = self.record("round 1")
        by_id = {row["id"]: row for row in result.events()}
        count = 0
        for row in by_id.values():
            above = by_id.get(row["parent_id"])
            if row["name"] != "aten::neg" or above is None or not above["name"].startswith("stack "):
                continue
            if above["name"].endswith("backward of a function"):
                continue
            count += 1
            mine, its = row["stack"].split(";"), above["stack"].split(";")
            at = next(index for index, frame in enumerate(its) if frame.endswith(": mark"))
            self.assertEqual(mine[:at], its[:at])
            self.assertTrue(mine[at].endswith(": mark"), mine)
            self.assertEqual(len(mine), at + 1, mine)
        self.assertGreater(count, 100)

    def test_backward_rows_have_the_stack_of_their_forward(self) -> None:
        result, _ = self.record("round 1")
        rows = list(result.events())
        forward = [row for row in rows if row["name"] == "aten::addmm"]
        node = [row for row in rows if row["name"] == "AddmmBackward0"]
        self.assertEqual(len(node), 3)
        self.assertEqual(collections.Counter(row["stack"] for row in forward), collections.Counter(row["stack"] for row in node))
        for row in node:
            self.assertTrue(row["stack"].endswith(": forward"), row["stack"])
            self.assertIn("nn.Module: Linear_", row["stack"])
        engine = [row for row in rows if row["name"] == "autograd::engine::evaluate_function: AddmmBackward0"]
        self.assertTrue(all(row["stack"].split(";")[-1].endswith(("_engine_run_backward", ": backward")) for row in engine), engine)
        # A module's backward is that of the engine's rows around the nodes that its operators have made, and of what these lead to.
        of_modules: collections.Counter[str] = collections.Counter()
        by_id = {row["id"]: row for row in rows}
        for row in rows:
            if row["scope"] == "BACKWARD_FUNCTION":
                forward_row = by_id.get(str(json.loads(row["args"] or "{}").get("forward_id")))
                around = by_id[row["parent_id"]]
                self.assertTrue(around["name"].startswith("autograd::engine::evaluate_function: "), around["name"])
                if forward_row is not None:
                    self.assertEqual((around["module"], around["module_class"]), (forward_row["module"], forward_row["module_class"]))
            if row["name"].startswith("autograd::engine::evaluate_function: ") and row["module_class"].startswith("Linear_"):
                of_modules[row["module_class"]] += int(row["duration_ns"])
        self.assertEqual(len(of_modules), 3)
        with (result.path / "modules.csv").open(encoding="utf-8", newline="") as file:
            for module in csv.DictReader(file):
                if module["module_class"] in of_modules:
                    self.assertAlmostEqual(float(module["self_backward_us"]), of_modules.pop(module["module_class"]) / 1e3, delta=0.01)
        self.assertEqual(of_modules, {})

    def test_modules_have_the_names_of_their_places(self) -> None:
        result, truth = self.record("modules 1")
        rows = [row for row in result.events() if row["name"] in truth]
        self.assertEqual(len(rows), len(truth))
        wrong = {(row["name"].split(" ", 3)[3], row["module"]) for row in rows if row["name"].split(" ", 3)[3] != row["module"]}
        self.assertEqual(wrong, set())
        classes = {row["module"]: row["module_class"] for row in rows}
        self.assertEqual(classes[""], "Model_0")
        self.assertTrue(classes["blocks.1.by_name.norm"].startswith("LayerNorm_"), classes)
        self.assertTrue(classes["attention.layers.1.self_attn"].startswith("MultiheadAttention_"), classes)
        self.assertIn("later", classes)
        self.assertGreater(len(classes), 20)

    def test_deep_stacks_are_cut_and_counted(self) -> None:
        result, truth = self.record("deep 2")
        rows = {row["name"]: row for row in result.events() if row["name"].startswith("stack ")}
        self.assertEqual(set(rows), set(truth))
        for name, frames in truth.items():
            self.assertGreater(len(frames), 300)
            ours = [FRAME.fullmatch(frame) for frame in rows[name]["stack"].split(";")]
            self.assertEqual(len(ours), MOST_FRAMES)
            at = next(index for index, frame in enumerate(ours) if frame and frame[3] == "mark")
            theirs = [FRAME.fullmatch(frame) for frame in frames[-at:]]
            self.assertEqual([frame.group(2, 3) for frame in ours[:at] if frame],
                             [frame.group(2, 3) for frame in theirs if frame])
        self.assertGreater(result.ledger["stacks_cut"], 0)

    def test_hostile_names_and_frames_cost_little_and_are_counted(self) -> None:
        """Bounded work, gaps that are counted, and the job minds nothing."""
        with Target(HOSTILE) as target:
            target.wait("READY", live.START_S)
            with Tracer("record", "-p", target.pid, "-o", self.out, "--format", "events-csv,chrome,flamegraph", "--with-stack",
                        "--sample", "997Hz") as tracer:
                tracer.wait_until_recording()
                target.tell()
                self.assertEqual(target.wait("DONE .*", live.START_S), "DONE [1501.0, 1501.0, 1501.0]")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            target.tell()
            self.assertEqual(target.process.wait(live.STOP_S), 0)
        result = Result(self.out)
        self.assert_identities(result.ledger)
        for counter in ("stacks_cut", "stacks_unread", "names_cut"):
            self.assertGreater(result.ledger[counter], 0, counter)
        rows = [row for row in result.events() if row["name"] in ("aten::add_", "aten::mul_")]
        self.assertEqual(len(rows), 300 * 10)
        innermost = collections.Counter(row["stack"].rpartition("): ")[2][:20] for row in rows if row["name"] == "aten::add_")
        self.assertEqual(innermost["x" * 20], 300)
        self.assertEqual(innermost["half \N{REPLACEMENT CHARACTER} of a pair"], 300)
        # A frame that is its own caller: as many as are read at most, all the same.
        longest = max((row["stack"].split(";") for row in rows), key=len)
        self.assertEqual((len(longest), {FRAME.fullmatch(frame)[3] for frame in longest}), (MOST_FRAMES, {"wrong"}))
        self.assertLess((self.out / "capture.ptrec").stat().st_size, 4 << 20)

    def test_lost_records_give_no_wrong_stacks(self) -> None:
        result, truth = self.record("round 30", "--buffer-size", "16K", stops=live.by_jumps())
        rows = {row["name"]: row for row in result.events() if row["name"].startswith("stack ")}
        self.assertGreater(result.ledger["ring_lost"], 0)
        known = [name for name in rows if rows[name]["stack"] and not name.endswith("backward of a function")]
        wrong = [name for name in known if name in truth and self.difference(truth[name], rows[name]["stack"])]
        self.assertEqual(wrong, [], f"of {len(known)}")

    def test_nothing_is_read_without_the_option(self) -> None:
        out = self.directory / "result"
        with Job(script=SCRIPT) as job, Tracer("record", "-p", job.pid, "-o", out, "--format", "events-csv") as tracer:
            tracer.wait_until_recording()
            os.unlink(job.do("round 1")["truth"])
            self.assertEqual(tracer.stop(), 0)
        self.assertEqual({row["stack"] for row in Result(out).events()}, {""})


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""--tier patch --with-stack in jobs whose Python is hard to read: the job reads its own frames, and must never fail by it."""

from __future__ import annotations

import collections
import json
import os
import signal
import unittest
from pathlib import Path

os.environ.setdefault("PROFTRACE_LIVE_TIER", "patch")

import live  # noqa: E402
import namespaces_test  # noqa: E402
import stacks_test  # noqa: E402
from live import HERE, Job, Result, Tracer  # noqa: E402

SCRIPT = HERE / "stack_storms_job.py"


class StackStormsTest(live.LiveTest):
    def check(self, result: Result, truth: dict[str, list[str]]) -> None:
        rows = {row["name"]: row for row in result.events() if row["name"].startswith("stack ")}
        wrong: collections.Counter[str] = collections.Counter()
        for name in truth.keys() & rows.keys():
            if any(frame.endswith(": mark") or "(0):" in frame or "(None):" in frame for frame in truth[name]):
                continue  # a handler in mark() itself, before a first line, or at an instruction that has no line
            problem = stacks_test.StacksTest.difference(self, truth[name], rows[name]["stack"])  # type: ignore[arg-type]
            if problem:
                wrong[f"{name.split(' ', 2)[2]}: {problem}"] += 1
        self.assertEqual(dict(wrong), {}, f"{sum(wrong.values())} of {len(truth)}")
        self.assertEqual(result.ledger["stacks_unread"], 0)
        if result.ledger["ring_lost"] == 0:
            self.assertEqual(rows.keys(), truth.keys())
        kinds = {name.split(" ", 2)[2] for name in rows}
        self.assertGreaterEqual(kinds, {"short thread", "finalizer", "made code", "generator", "after an exception", "signal handler"})

    def storm(self, *more: str) -> None:
        with Job(script=SCRIPT) as job:
            job.do("storm 1")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--with-stack", *more) as tracer:
                tracer.wait_until_recording()
                truth = Path(job.do("storm 6")["truth"])
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual((live.patches(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
            job.do("storm 1")
        result = Result(self.out)
        self.check(result, json.loads(truth.read_text(encoding="utf-8")))
        os.unlink(truth)
        rows = list(result.events())
        # Rows that a pool's threads of C++ run have no stack.
        main = {row["tid"] for row in rows if "short thread" not in row["name"] and row["name"].startswith("stack ")}
        marked = {row["tid"] for row in rows if row["name"].startswith("stack ")}
        pool = [row for row in rows if row["name"] == "aten::neg" and row["tid"] not in marked]
        self.assertTrue(main)
        self.assertEqual({row["stack"] for row in pool}, {""} if pool else set())

    def test_stacks_are_right_in_a_storm(self) -> None:
        self.storm()

    def test_stacks_are_right_in_a_storm_by_jumps_alone(self) -> None:
        self.storm("--no-bpf")

    def test_threads_of_a_containers_first_process_are_told_apart(self) -> None:
        with Job(prefix=live.CONTAINER, script=SCRIPT) as job:
            self.assertEqual(job.own_pid, 1)
            with Tracer("-p", namespaces_test.child_of(job.pid), "-o", self.out, "--format", "events-csv", "--with-stack") as tracer:
                tracer.wait_until_recording()
                truth = Path(job.do("storm 2")["truth"])
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.check(result, json.loads(truth.read_text(encoding="utf-8")))
        self.assertEqual(result.ledger["end_lost"], 0)
        os.unlink(truth)
        threads = {row["tid"] for row in result.events() if row["name"].endswith("short thread")}
        self.assertEqual(len(threads), 48)  # also of those that had ended before they were looked for

    def test_forked_children_have_stacks(self) -> None:
        with Job(script=SCRIPT) as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--with-stack") as tracer:
                tracer.wait_until_recording()
                job.do("fork 2")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        rows = [row for row in Result(self.out).events() if row["name"].startswith("stack ") and row["pid"] != str(job.pid)]
        self.assertGreater(len(rows), 50)
        for row in rows:
            self.assertIn(": mark", row["stack"], row["name"])
            self.assertIn(": in_child", row["stack"] if "short thread" not in row["name"] else ": in_child", row["name"])

    def test_a_killed_tracer_leaves_a_job_that_goes_on(self) -> None:
        with Job(script=SCRIPT) as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "none", "--with-stack") as tracer:
                tracer.wait_until_recording()
                job.tell("storm 4")
                os.kill(tracer.process.pid, signal.SIGKILL)
                job.answer()
                job.do("storm 2")


if __name__ == "__main__":
    live.run()

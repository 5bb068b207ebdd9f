#!/usr/bin/env python3
"""Python stacks where a thread has a state in several interpreters, or there are thousands of threads."""

from __future__ import annotations

import collections
import json
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

SCRIPT = Path(__file__).with_name("interpreters_job.py")
# More than anybody goes through one by one.
MANY = 4200


class InterpretersTest(LiveTest):
    tier = "bpf"

    def check(self, *before: str, late: tuple[str, ...] = ()) -> None:
        with Job(script=SCRIPT, fresh=True) as job:
            for line in before:
                job.do(line)
            tracer = Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--with-stack", "--tier", self.tier)
            result, answers = self.record_by(tracer, job, *late, "work")
            self.assert_stacks(result, int(answers[-1]["times"]))
            dump = json.loads(self.run_proftrace("dump", "-p", job.pid, "--json").stdout)
            first = next(thread for thread in dump["threads"] if thread["tid"] == job.pid)
            names = [frame["name"] for stack in first["stacks"] for frame in stack["frames"]]
            self.assertIn("main", names)
            self.assertEqual(job.end(), 0)

    def assert_stacks(self, result: Result, times: int) -> None:
        stacks: collections.Counter[tuple[bool, bool]] = collections.Counter()
        for row in result.events():
            if row["name"] == "aten::mm":
                stacks["innermost" in row["stack"], "outermost" in row["stack"]] += 1
        self.assertEqual(stacks, {(True, True): times})

    def test_a_subinterpreter_that_the_first_thread_made(self) -> None:
        self.check("sub main")

    def test_a_subinterpreter_that_is_made_meanwhile(self) -> None:
        self.check("sub thread", late=("sub main",))

    def test_thousands_of_threads(self) -> None:
        self.check(f"threads {MANY}")


class InterpretersByJumpsTest(InterpretersTest):
    tier = "patch"


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""Why a GPU is idle: what is planted between launches (a sleep, a read, a lock, a computation, an operator, a wait for the GPU, a wait for
data) is what each gap is charged to, with the stand-ins for CUDA and CUPTI as the GPU."""

from __future__ import annotations

import collections
import csv
import gzip
import json
import os
from pathlib import Path

import live
from gpu_test import CUPTI, DOUBLES, RUNTIME
from live import Job, LiveTest, Result, Tracer

KERNEL_NS = 200_000
ROUNDS = 8
# What is planted (cuda_job.py), and the column that it belongs to.
PLANTED = {"sleep": "system_ns", "read": "io_ns", "lock": "lock_ns", "compute": "python_ns", "operator": "operator_ns", "synchronize": "synchronizing_ns",
           "data": "dataloader_ns"}
FUNCTIONS = {"sleep": "plant_sleep", "read": "plant_read", "lock": "plant_lock", "compute": "plant_compute"}
CAUSES = ("operator_ns", "synchronizing_ns", "cuda_call_ns", "dataloader_ns", "outside_operators_ns", "launched_ns", "unknown_ns", "io_ns", "lock_ns",
          "run_queue_ns", "system_ns", "python_ns")
UNCLEAR = 2  # rounds
LEAST_PART = 0.9  # of what the job itself measured, where the machine lets it run
SLACK_NS = 500_000  # for what lies around it in the function that was measured: short operators, most of all


class GpuIdleTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        with Job(script=live.HERE / "cuda_job.py", environment={**DOUBLES, "CUDA_DOUBLE_KERNEL_NS": str(KERNEL_NS)}) as job:
            for line in (f"cupti {CUPTI}", f"load {RUNTIME}", "cuda 1"):
                job.do(line)
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,chrome,table,gpu-idle", "--gpu", "agent", "--with-stack",
                        "--activities", "cpu,cuda,syscalls,sched") as tracer:
                tracer.wait_until_recording()
                job.do("agent")
                answer = job.do(f"idle {ROUNDS}")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertTrue((self.out / "gpu_idle.csv").exists(), tracer.text())
        # For each planted piece, in order: how long it took by the job's own clock.
        self.took = [(what, int(ns)) for what, ns in (words.split(":") for words in answer["took"].split(","))]
        self.gaps = self.gaps_of_stream("")

    def gaps_of_stream(self, stream: str) -> list[dict[str, str]]:
        """Those that end with the kernel that follows something planted."""
        with open(self.out / "gpu_idle.csv", encoding="utf-8", newline="") as file:
            return [row for row in csv.DictReader(file) if row["next_name"] == "planted()" and row["stream"] == stream]

    def test_each_gap_is_charged_to_what_was_planted(self) -> None:
        self.assertEqual(len(self.gaps), len(self.took))
        total: collections.Counter = collections.Counter()
        right: collections.Counter = collections.Counter()
        for (what, took), gap in zip(self.took, self.gaps):
            parts = {cause: int(gap[cause]) for cause in CAUSES}
            self.assertEqual(sum(parts.values()), int(gap["duration_ns"]))
            # The rest is the run queue's on a busy machine: of that the job's own clock knows nothing.
            charged, waited = parts[PLANTED[what]], parts["run_queue_ns"]
            if what == "operator":  # which maps and unmaps its memory: calls that take long on a busy machine
                charged += parts["system_ns"]
            if what != "synchronize":  # the wait for the kernel before lies in the gap, too, as long as it takes to wake up
                self.assertLessEqual(charged, took + SLACK_NS, (what, gap))
            total[what] += 1
            right[what] += charged + waited >= LEAST_PART * took - SLACK_NS
            if what in FUNCTIONS and waited < took / 2:
                self.assertRegex(gap["python_function"], rf"cuda_job\.py\(\d+\): {FUNCTIONS[what]}$")
        # The job knows nothing of the wait for the interpreter's lock, too: Python gives it up for
        # a read.
        for what, rounds in total.items():
            self.assertGreaterEqual(right[what], rounds - UNCLEAR, (what, right))

    def test_the_other_outputs_say_the_same(self) -> None:
        result = Result(self.out)
        idle = result.summary["gpu"]["idle"]
        whole = next(part for part in idle if part["stream"] is None)
        with open(self.out / "gpu_idle.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["stream"] == ""]
        self.assertEqual(whole["idle_ns"], sum(int(row["duration_ns"]) for row in rows), (idle, rows))
        self.assertEqual(whole["by_cause_ns"]["lock"], sum(int(row["lock_ns"]) for row in rows))
        self.assertEqual(whole["gaps"], len(rows))
        # The second stream has work of its own, and gaps of its own.
        self.assertEqual([part["stream"] for part in idle], [None, 7, 20])
        self.assertEqual(idle[2]["gaps"], ROUNDS - 1)
        footer = (self.out / "key_averages.txt").read_text(encoding="utf-8")
        self.assertRegex(footer, r"GPU 0 of PID \d+: idle [\d.]+ of [\d.]+ ms .*lock")
        self.assertRegex(footer, r"GPU 0 of PID \d+, stream 20: idle ")
        with gzip.open(self.out / "trace.json.gz", "rt", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        begins = [event for event in events if event.get("cat") == "gpu_idle" and event["ph"] == "b" and event["name"].startswith("idle: ")]
        longer = [row for row in rows if int(row["duration_ns"]) >= 10_000]
        self.assertEqual(collections.Counter(event["name"] for event in begins), collections.Counter("idle: " + row["main_cause"] for row in longer))
        self.assertEqual(sum(event["args"].get("lock ns", 0) for event in begins), sum(int(row["lock_ns"]) for row in longer))
        shown = json.loads(self.run_proftrace("report", self.out, "--gpu-idle", "--json", "--row-limit", "-1").stdout)["rows"]
        self.assertEqual({row["cause"]: row["ns"] for row in shown if row["stream"] == "all"}, whole["by_cause_ns"])
        # On a busy machine most of a sleep's gap may be something else's.
        self.assertRegex(self.run_proftrace("report", self.out, "--gpu-idle").stdout, r"cuda_job\.py\(\d+\): plant_")


if __name__ == "__main__":
    if not CUPTI.exists():
        print(f"{CUPTI} was not built: CUPTI's headers were not found")
        raise SystemExit(live.SKIP)
    live.run()

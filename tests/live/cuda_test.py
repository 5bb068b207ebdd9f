#!/usr/bin/env python3
"""--gpu launch: calls of the CUDA Runtime and Driver as rows, with a stand-in for CUDA."""

from __future__ import annotations

import collections
import gzip
import json
import os
import statistics
import subprocess
import unittest
from pathlib import Path

import children_test
import cuda_job_facts as facts
import live
from live import Job, LiveTest, Result

DOUBLE = Path(os.environ.get("PROFTRACE_CUDA_DOUBLE", live.BINARY.parents[1] / "tests/support/cuda_double"))
RUNTIME = DOUBLE / "libcudart.so.12"
ROUNDS = 6
# How often each path comes in a round of a thread.
ROWS = {"copy/aten::add": 1, "copy/cudaMemcpyAsync": 1, "launch/cudaLaunchKernel": 2, "wait/cudaStreamSynchronize": 1, "cudaMemsetAsync": 1,
        "cudaMalloc": 1, "cudaFree": 1, "driver/cuLaunchKernel": 1, "driver/aten::mul": 1}
BYTES = {"copy/cudaMemcpyAsync": facts.COPIED, "cudaMemsetAsync": facts.SET, "cudaMalloc": facts.ALLOCATED}


def is_call(row: dict[str, str]) -> bool:
    return row["category"] in ("cuda_runtime", "cuda_driver")


class CudaTest(LiveTest):
    record = children_test.ChildrenTest.record

    def cuda_job(self) -> Job:
        return Job(script=live.HERE / "cuda_job.py")

    def check_rows(self, result: Result, answer: dict[str, str], rounds: int = ROUNDS) -> None:
        self.assertEqual(answer["failures"], "0")
        rows = list(result.events())
        for tid in answer["tids"].split(","):
            counts = collections.Counter(row["path"] for row in rows if row["tid"] == tid)
            self.assertEqual({path: counts[path] for path in ROWS}, {path: count * rounds for path, count in ROWS.items()})
            # What the Runtime does through the Driver is no row, and neither is what is not asked for.
            calls = {row["path"] for row in rows if row["tid"] == tid and is_call(row)}
            self.assertEqual(calls, {path for path in ROWS if "aten" not in path})
        for row in filter(is_call, rows):
            self.assertEqual(row["category"], "cuda_driver" if row["name"] == "cuLaunchKernel" else "cuda_runtime")
            self.assertEqual(json.loads(row["args"] or "{}"), {"bytes": BYTES[row["path"]]} if row["path"] in BYTES else {})
            self.assertEqual(row["end"], "return")
        waits = [int(row["duration_ns"]) for row in rows if row["name"] == "cudaStreamSynchronize"]
        self.assertGreaterEqual(min(waits), facts.WAIT_NS)
        self.assertLess(statistics.median(waits), 3 * facts.WAIT_NS)
        self.assertEqual(result.summary["proftrace"]["gpu"], "launch")
        self.assertEqual(result.summary["events"]["runtime"], sum(map(is_call, rows)))
        self.assertIn("GPU kernels, copies and their times", [gap["feature"] for gap in result.summary["unsupported"]])

    def test_libraries_that_are_there(self) -> None:
        with self.cuda_job() as job:
            job.do(f"load {RUNTIME}")
            job.do("cuda 1")
            result, (answer,) = self.record(job, f"cuda {ROUNDS}")
        self.check_rows(result, answer)
        self.check_trace(result)
        self.check_table(result)

    def test_a_driver_that_comes_while_recording(self) -> None:
        with self.cuda_job() as job:
            job.do(f"load {RUNTIME}")
            result, (_, _, answer) = self.record(job, "cuda 1", "steps 300", f"cuda {ROUNDS}")
        tids = answer["tids"].split(",")
        calls = collections.Counter(row["path"] for row in result.events() if row["tid"] in tids and is_call(row))
        self.assertEqual(calls, {path: 2 * ROUNDS * count for path, count in ROWS.items() if "aten" not in path})

    def test_what_is_asked_for(self) -> None:
        with self.cuda_job() as job:
            job.do(f"load {RUNTIME}")
            # The Runtime alone is no use of a GPU: every CUDA build of torch maps it.
            result, _ = self.record(job, "steps 3")
            self.assertEqual(result.summary["proftrace"]["gpu"], "off")
            hits = []
            job.do("cuda 1")
            for number, options in enumerate((("--gpu", "off"), ("--activities", "cpu"), ("--activities", "cpu,cuda"), ("--gpu", "launch"))):
                self.directory /= str(number)
                self.directory.mkdir()
                result, _ = self.record(job, f"cuda {ROUNDS}", options=options)
                hits.append(sum(map(is_call, result.events())))
                self.assertEqual(result.summary["proftrace"]["gpu"], "launch" if hits[-1] else "off")
        calls = 2 * ROUNDS * sum(count for path, count in ROWS.items() if "aten" not in path)
        self.assertEqual(hits, [0, 0, calls, calls])

    def test_the_real_runtime(self) -> None:
        """Each call of the Runtime that torch brings is one row with one end; without a GPU all of them fail early."""
        with self.cuda_job() as job:
            if "missing" in job.do("real 1"):
                self.skipTest("this torch has no CUDA Runtime")
            result, (answer,) = self.record(job, f"real {ROUNDS}", options=("--gpu", "launch"))
        names = answer["names"].split(",")
        self.assertGreater(len(names), 20)
        rows = collections.Counter((row["path"], row["category"], row["end"]) for row in result.events() if is_call(row))
        self.assertEqual(rows, {(f"real/{name}", "cuda_runtime", "return"): ROUNDS for name in names})

    def test_options_that_exclude_each_other(self) -> None:
        for options in (("--gpu", "agents"), ("--gpu", "off", "--activities", "cpu,cuda"), ("--gpu", "launch", "--activities", "cpu"),
                        ("--gpu", "agent", "--activities", "cpu"), ("--gpu", "agent", "--no-inject"), ("--activities", "cuda")):
            with self.subTest(options=options):
                self.assert_fails(2, ("record", "-p", os.getpid(), *options), options[1])

    def check_trace(self, result: Result) -> None:
        proftrace = [str(live.BINARY), "export", str(result.path), "--format", "chrome", "-o", str(self.directory / "trace.json.gz")]
        subprocess.run(proftrace, check=True, capture_output=True)
        with gzip.open(self.directory / "trace.json.gz", "rt", encoding="utf-8") as stream:
            events = [event for event in json.load(stream)["traceEvents"] if event.get("ph") == "X"]
        annotations = [event for event in events if event["name"] == "copy" and event["cat"] == "user_annotation"]
        copies = [event for event in events if event["name"] == "cudaMemcpyAsync"]
        self.assertEqual(len(copies), 2 * ROUNDS)
        for event in copies:
            self.assertEqual((event["cat"], event["args"]["bytes"]), ("cuda_runtime", facts.COPIED))
            self.assertNotIn("External id", event["args"])  # no operator is around it
            self.assertTrue(any(row["tid"] == event["tid"] and row["ts"] <= event["ts"] < row["ts"] + row["dur"] for row in annotations))

    def check_table(self, result: Result) -> None:
        done = subprocess.run([str(live.BINARY), "report", str(result.path), "--json"], check=True, capture_output=True, text=True)
        averages = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
        self.assertEqual(averages["cudaLaunchKernel"]["count"], 4 * ROUNDS)
        self.assertGreaterEqual(averages["cudaStreamSynchronize"]["cpu_time_total_us"], 2 * ROUNDS * facts.WAIT_NS / 1e3)


if __name__ == "__main__":
    live.run()

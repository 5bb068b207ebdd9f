#!/usr/bin/env python3
"""A record of each kind of CUPTI's (tests/support/cupti_double/every_kind.c) on its whole way: double, agent, ring, capture, and
its row in each output, with every value."""

from __future__ import annotations

import csv
import gzip
import json
from typing import Any

import live
from gpu_test import CUPTI, DOUBLES, RUNTIME
from live import Job, LiveTest, Result, Tracer

FIRST = 900_000  # correlation id
STEP, WORK = 100_000, 20_000  # ns: from call to call, and from a call to what it asks for
CALL_NS = 10_000
# In the order of their correlation ids.
CALLS = [("cudaLaunchKernel", "cuda_runtime", 211), ("cuLaunchKernel", "cuda_driver", 307), ("cudaMemcpyAsync", "cuda_runtime", 41),
         ("cudaMemcpyAsync", "cuda_runtime", 41), ("cudaMemsetAsync", "cuda_runtime", 51), ("cudaEventRecord", "cuda_runtime", 135),
         ("cudaStreamWaitEvent", "cuda_runtime", 147), ("cudaMalloc", "cuda_runtime", 20)]


def place(call: int, stream: int) -> dict[str, Any]:
    return {"device": 0, "context": 1, "stream": stream, "correlation": FIRST + call}


# (category, name): its call, start and duration in ns since the first call, stream, args.
ROWS: dict[tuple[str, str], tuple[int | None, int, int | None, int | None, dict[str, Any]]] = {
    ("kernel", "every_kind(float*, int)"): (0, WORK, 5000, 21, {
        "queued": 0, **place(0, 21), "registers per thread": 40, "shared memory": 23, "blocks per SM": 1.590909, "warps per SM": 3.181818,
        "grid": [5, 6, 7], "block": [32, 2, 1], "est. achieved occupancy %": 5, "priority": 0}),
    ("kernel", "CUDA Graph"): (1, STEP + WORK, 6000, 21, {**place(1, 21), "graph id": 9, "graph node id": 0}),
    ("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)"): (2, 2 * STEP + WORK, 2000, 21, {
        **place(2, 21), "bytes": 8192, "memory bandwidth (GB/s)": 4.096}),
    ("gpu_memcpy", "Memcpy PtoP (Device -> Device)"): (3, 3 * STEP + WORK, 3000, 22, {
        "fromDevice": 0, "inDevice": 0, "toDevice": 1, **place(3, 22), "bytes": 12288, "memory bandwidth (GB/s)": 4.096}),
    ("gpu_memset", "Memset (Device)"): (4, 4 * STEP + WORK, 4000, 21, {**place(4, 21), "bytes": 512, "memory bandwidth (GB/s)": 0.128}),
    ("cuda_event", "cudaEvent"): (5, 5 * STEP + WORK, None, 21, {"event_id": 33, **place(5, 21)}),
    ("cuda_sync", "Stream Wait Event"): (6, 6 * STEP + WORK, 7000, 22, {
        "cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 21, "wait_on_cuda_event_record_corr_id": FIRST + 5,
        "wait_on_cuda_event_id": 33, **place(6, 22)}),
    ("gpu_memory", "Memory Allocation (Device)"): (7, 7 * STEP + WORK, None, None, {"addr": 0x7F0000000000, "bytes": 65536}),
    ("gpu_memory_pool", "Memory Pool Created"): (None, 8 * STEP, None, None, {"addr": 0x7E0000000000, "bytes": 4096}),
    ("overhead", "Lazy Function Loading"): (None, 9 * STEP, 8000, None, {}),
    ("overhead", "Runtime Triggered Module Loading"): (None, 11 * STEP, 6000, None, {}),
    ("nvtx", "a range"): (None, 10 * STEP, 9000, None, {}),
}
HOSTS = {"overhead", "nvtx"}  # rows of a thread
NOT_IN_THE_TRACE = {"gpu_memory", "gpu_memory_pool"}  # Kineto has no rows of these
RANGES = 10_000_000  # added to a thread's number: the track of its ranges
RECORDS = len(CALLS) + len(ROWS) + 1 + 1  # a range has two, an external id has no row


class GpuKindsTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        with Job(script=live.HERE / "cuda_job.py", environment=DOUBLES) as job:
            for line in (f"cupti {CUPTI}", f"load {RUNTIME}", "cuda 1"):
                job.do(line)
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,chrome,csv,table", "--gpu", "agent", "--cuda-sync-events") as tracer:
                tracer.wait_until_recording()
                job.do("agent")
                said = job.do(f"kinds {FIRST}")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        self.pid, self.tid, self.start_ns = job.pid, said["tid"], int(said["start"])
        self.result = Result(self.out)
        self.rows = list(self.result.events())
        self.annotation = next(row for row in self.rows if (row["name"], row["category"]) == ("every kind", "user_annotation"))
        self.calls = {row["correlation_id"]: row for row in self.rows if row["category"].startswith("cuda_") and row["device_type"] == "CPU"}

    def test_events_csv(self) -> None:
        first = self.calls[str(FIRST)]
        unix_ns = int(first["start_ns"])
        for number, (name, category, callback) in enumerate(CALLS):
            call = self.calls[str(FIRST + number)]
            told = [call[key] for key in ("name", "category", "tid", "pid", "duration_ns", "parent_id", "end")]
            self.assertEqual(told, [name, category, self.tid, str(self.pid), str(CALL_NS), self.annotation["id"], "return"])
            self.assertEqual(int(call["start_ns"]) - unix_ns, number * STEP)
            self.assertEqual(json.loads(call["args"]), {"cbid": callback, "result": 0})
        for (category, name), (call, start, duration, stream, args) in ROWS.items():
            with self.subTest(category=category, name=name):
                row, = [row for row in self.rows if (row["category"], row["name"]) == (category, name) and int(row["start_ns"]) >= unix_ns]
                self.assertEqual(int(row["start_ns"]) - unix_ns, start)
                self.assertEqual(row["duration_ns"], "" if duration is None else str(duration))
                self.assertEqual(row["stream"], "" if stream is None else str(stream))
                self.assertEqual(row["pid"], str(self.pid))
                on_host = category in HOSTS
                self.assertEqual((row["device_type"], row["device_index"]), ("CPU", "") if on_host else ("CUDA", "0"))
                self.assertEqual(row["tid"], "" if category == "gpu_memory_pool" else self.tid)
                if call is None:
                    self.assertEqual((row["parent_id"], row["correlation_id"]), ("", ""))
                else:
                    self.assertEqual((row["parent_id"], row["correlation_id"]), (self.calls[str(FIRST + call)]["id"], str(FIRST + call)))
                told = json.loads(row["args"]) if row["args"] else {}
                self.assertEqual(told.keys(), args.keys())
                for key, value in args.items():
                    self.assertEqual(told[key], value) if not isinstance(value, float) else self.assertAlmostEqual(told[key], value, 5)
        spans = sorted((row["stream"], int(row["start_ns"]) - unix_ns, int(row["duration_ns"]))
                       for row in self.rows if row["category"] == "gpu_user_annotation" and row["name"] == "every kind")
        self.assertEqual(spans, [("21", WORK, 4 * STEP + 4000), ("22", 3 * STEP + WORK, 3000)])

    def test_chrome_trace(self) -> None:
        trace = json.loads(gzip.open(self.out / "trace.json.gz").read())
        events = trace["traceEvents"]
        calls = {event["args"]["correlation"]: event for event in events
                 if event.get("cat") in ("cuda_runtime", "cuda_driver") and event["ph"] == "X" and "correlation" in event["args"]}
        first = calls[FIRST]
        arrows = {(event["ph"], event["id"]): event for event in events if event.get("cat") == "ac2g"}
        for (category, name), (call, start, duration, stream, args) in ROWS.items():
            found = [event for event in events if (event.get("cat"), event["name"]) == (category, name) and event.get("ts", 0) >= first["ts"]]
            if category in NOT_IN_THE_TRACE:
                self.assertEqual(found, [])
                continue
            with self.subTest(category=category, name=name):
                row, = found
                self.assertEqual(row["ph"], "X")
                self.assertAlmostEqual(row["ts"] - first["ts"], start / 1000, 2)
                self.assertAlmostEqual(row["dur"], (duration or 1) / 1000, 3)
                places = {"overhead": (-1, 0), "nvtx": (self.pid, RANGES + int(self.tid))}
                self.assertEqual((row["pid"], row["tid"]), places.get(category, (0, stream)))
                told = {key: value for key, value in row["args"].items() if key not in ("External id", "Ev Idx")}
                self.assertEqual(told.keys(), args.keys())
                for key, value in args.items():
                    self.assertEqual(told[key], value) if not isinstance(value, float) else self.assertAlmostEqual(told[key], value, 5)
                if call is None or category == "cuda_event":
                    continue
                begin, end = arrows["s", FIRST + call], arrows["f", FIRST + call]
                self.assertEqual((begin["pid"], begin["tid"], begin["ts"]), (self.pid, int(self.tid), calls[FIRST + call]["ts"]))
                self.assertEqual((end["pid"], end["tid"], end["ts"], end["bp"]), (0, stream, row["ts"], "e"))
        device, = trace["deviceProperties"]
        told = [device[key] for key in ("id", "name", "totalGlobalMem", "computeMajor", "numSms", "warpSize", "maxThreadsPerBlock")]
        self.assertEqual(told, [0, "Double H100", 80 << 30, 9, 132, 32, 1024])

    def test_tables_and_ledger(self) -> None:
        with (self.out / "key_averages.csv").open(newline="", encoding="utf-8") as stream:
            averages = {(row["name"], row["device_type"]): row for row in csv.DictReader(stream)}
        table = (self.out / "key_averages.txt").read_text(encoding="utf-8")
        for (category, name), (_, _, duration, _, _) in ROWS.items():
            if category in ("kernel", "gpu_memcpy", "gpu_memset") and name != "Memset (Device)":  # the round before has some, too
                row = averages[name, "CUDA"]
                self.assertEqual((row["count"], row["self_device_time_total_us"]), ("1", f"{duration / 1000:.3f}"))
                self.assertIn(name, table)
            if category == "overhead":  # of the CPU, as in torch's table
                row = averages[name, "CPU"]
                self.assertEqual((row["count"], row["self_cpu_time_total_us"], row["self_device_time_total_us"]), ("1", f"{duration / 1000:.3f}", "0.000"))
                self.assertIn(name, table)
        self.assertIn("CUDA total", table)
        ledger = self.result.summary["gpu"]["ledger"]
        self.assertEqual(ledger["records"], sum(ledger[name] for name in ("merged", "unlinked", "outside_window", "unfinished", "unknown", "malformed")))
        self.assertEqual([ledger[name] for name in ("malformed", "unknown", "unlinked", "ring_dropped", "unread")], [0, 0, 0, 0, 1])
        self.assertGreaterEqual(ledger["merged"], RECORDS)
        agent, = self.result.summary["gpu"]["agents"]
        self.assertEqual((agent["cupti_records"], agent["unread_records"]), (agent["ring_records"] + 1, 1))
        counts = self.result.summary["events"]
        self.assertEqual([counts[name] for name in ("cuda_graphs", "cuda_events", "overheads", "gpu_memory_pools", "markers")], [1, 1, 2, 1, 1])


if __name__ == "__main__":
    if not CUPTI.exists():
        print(f"{CUPTI} was not built: CUPTI's headers were not found")
        raise SystemExit(live.SKIP)
    live.run()

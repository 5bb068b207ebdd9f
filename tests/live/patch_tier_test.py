#!/usr/bin/env python3
"""--tier patch in the command line: what recordings by the kernel's probes are tested with (children, execs, threads, exceptions, killed tracers),
by jumps; and what is different."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
import unittest
from pathlib import Path

os.environ["PROFTRACE_LIVE_TIER"] = "patch"

import harmless_test  # noqa: E402
import live  # noqa: E402
from children_test import ChildrenTest, CommandTest, ExecTest  # noqa: E402, F401
from live import Job, LiveTest, Result, Tracer  # noqa: E402


class HarmlessTest(harmless_test.HarmlessTest):
    def test_two_tracers_at_once_both_complete(self) -> None:
        """Two that change one process's code would kill it: the second goes on without jumps, of whichever tier, and with no probe at those of the
        first, which records all; whoever ends first."""
        with Job() as job:
            job.tell("loop")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "none") as first:
                first.wait_until_recording()
                written = live.changed_text_bytes(job.pid)
                for tier in ("patch", "bpf"):
                    out = self.directory / tier
                    with Tracer("-p", job.pid, "-o", out, "--tier", tier, "--format", "events-csv", "--activities", "cpu,syscalls") as second:
                        second.wait_until_recording()
                        time.sleep(1)
                        self.assertEqual(live.changed_text_bytes(job.pid), written)
                        self.assertEqual(second.stop(), 0, second.text())
                    self.assertRegex(second.text(), rf"PID {job.pid}: another proftrace has its jumps in it")
                    result = Result(out)
                    self.assertIn("another proftrace", json.dumps(result.summary["unsupported"]))
                    self.assertEqual(result.ledger["end_lost"], 0)
                    # What is not by the job's code is there.
                    self.assertGreater(sum(row["category"] == "syscall" for row in result.events()), 0)
                    self.assert_fails(4, ("-p", job.pid, "-d", "1", "-o", self.directory / f"{tier}-alone", "--tier", "patch", "--no-bpf"),
                                      "patched|records it", str(first.process.pid))
                late = Tracer("-p", job.pid, "-o", self.directory / "late", "--format", "none")
                late.wait_until_recording()
                self.assertEqual(first.stop(), 0, first.text())
            self.assertEqual(live.changed_text_bytes(job.pid) // 100, 0)
            with late:
                # By now its code is free; who has no jumps does not keep others from having some.
                with Tracer("-p", job.pid, "-o", self.directory / "third", "--format", "none") as third:
                    third.wait_until_recording()
                    self.assertGreater(live.changed_text_bytes(job.pid), 1000)
                    self.assertEqual(third.stop(), 0, third.text())
                self.assertEqual(late.stop(), 0, late.text())
            self.assert_same_results(job.finish_loop())
            self.assertEqual(job.end(), 0)


class PatchTierTest(LiveTest):
    def test_nearly_all_comes_by_jumps(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--profile-memory") as tracer:
                tracer.wait_until_recording()
                self.assertEqual(len(live.patches(job.pid)), 1)
                answer = job.do("steps 200")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual((live.patches(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
            self.assert_same_results(answer)
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual(result.summary["proftrace"]["tier"], "patch")
        cost = result.summary["cost"]
        self.assertGreater(cost["jumps"], 5 * cost["probe_hits"])
        self.assertTrue(0 < cost["ns_per_jump"] < cost["probe_ns_per_hit"])
        rows = list(result.events())
        steps = sum(row["name"] == "step" for row in rows)
        self.assertEqual(steps, 200)
        for name, count in (("aten::linear", 3), ("aten::relu", 3), ("AddmmBackward0", 3)):
            self.assertEqual(sum(row["name"] == name for row in rows), count * steps, name)
        # Annotations are probes' rows, operators in them jumps': in one order.
        linear = [row for row in rows if row["name"] == "aten::linear"]
        self.assertEqual({row["path"] for row in linear}, {"step/forward/aten::linear"})
        self.assertGreater(sum(row["name"] == "[memory]" for row in rows), steps)
        self.assertTrue(result.summary["memory"]["totals_known"])

    def test_inputs_are_those_of_the_probes(self) -> None:
        """By probes, by both, and by jumps alone: operators and nodes are called with the same."""
        calls = []
        with Job() as job:
            for name, options in (("bpf", ("--tier", "bpf")), ("both", ()), ("alone", ("--no-bpf",))):
                out = self.directory / name
                with Tracer("-p", job.pid, "-o", out, "--format", "events-csv", "--record-shapes", *options) as tracer:
                    tracer.wait_until_recording()
                    self.assert_same_results(job.do("steps 20"))
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                result = Result(out)
                self.assert_lossless(result)
                self.assertEqual(result.summary["ledger"]["inputs_unread"], 0)
                columns = ("path", "name", "input_shapes", "input_types", "input_strides", "concrete_inputs")
                calls.append([tuple(row[column] for column in columns) for row in result.events() if row["path"].startswith("step/")])
            self.assertEqual((live.patches(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
        self.assertEqual(calls[0], calls[1])
        self.assertEqual(calls[0], calls[2])
        self.assertGreater(sum(row[2] == "[[8], [4, 8], [8, 8], [], []]" for row in calls[0]), 50)

    def test_beside_a_tracer_with_probes(self) -> None:
        """Jumps and another's probes at once: both record the same rows, in all that a row has but its times."""
        options = ("--format", "events-csv", "--record-shapes", "--profile-memory")
        with Job() as job:
            other = self.directory / "other"
            with Tracer("-p", job.pid, "-o", other, "--tier", "bpf", *options) as first:
                first.wait_until_recording()
                with Tracer("-p", job.pid, "-o", self.out, *options) as second:
                    second.wait_until_recording()
                    self.assert_same_results(job.do("steps 50"))
                    job.do("raise 50")
                    job.do("threads 4")
                    self.assertEqual(second.stop(), 0, second.text())
                self.assertEqual(first.stop(), 0, first.text())
            self.assertEqual((live.patches(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
            self.assertEqual(job.end(), 0)
        columns = ("path", "name", "overload_name", "category", "scope", "sequence_nr", "fwd_tid", "is_async", "input_shapes", "input_types",
                   "input_strides", "concrete_inputs", "cpu_memory_bytes", "self_cpu_memory_bytes", "end")
        threads: list[dict[str, list[tuple[str, ...]]]] = []
        for path in (self.out, other):
            result = Result(path)
            self.assert_lossless(result)
            threads.append({})
            for row in result.events():
                if row["path"].startswith(("step", "throwing", "forward")):
                    threads[-1].setdefault(row["tid"], []).append(tuple(row[column] for column in columns))
        jumps = Result(self.out).summary["cost"]
        self.assertGreater(jumps["jumps"], 1000, jumps)
        self.assertEqual(threads[0].keys(), threads[1].keys())
        self.assertGreater(len(threads[0]), 3)
        for tid, rows in threads[0].items():
            self.assertEqual(rows, threads[1][tid])
        rows = [row for thread in threads[0].values() for row in thread]
        self.assertGreater(len(rows), 1000)
        self.assertLessEqual({"return", "exception"}, {row[-1] for row in rows})

    def test_what_stacks_cost_is_measured_in_the_job(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--with-stack") as tracer:
                tracer.wait_until_recording()
                begin = time.monotonic_ns()
                self.assert_same_results(job.do("steps 300"))
                elapsed_ns = time.monotonic_ns() - begin
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        cost = result.summary["cost"]
        found = re.search(r"Python stacks that jumps read count (\d+) ns each", cost["basis"])
        self.assertIsNotNone(found, cost)
        self.assertTrue(20 <= int(found[1]) <= 20_000, cost)
        # What was measured is counted, beside the jumps, and is no more than there was.
        jumps_ns = cost["jumps"] * cost["ns_per_jump"]
        percent = cost["estimated_overhead_percent"]
        estimated_ns = percent / (100 + percent) * result.summary["window"]["duration_ns"]
        self.assertGreater(estimated_ns, 1.5 * jumps_ns, cost)
        self.assertLess(estimated_ns, elapsed_ns, cost)

    def test_another_tier_is_refused(self) -> None:
        with Job() as job:
            self.assert_fails(2, ("-p", job.pid, "--tier", "magic"), "none of auto, bpf, patch")
            self.assertEqual(live.changed_text_bytes(job.pid), 0)

    def test_another_debugger_is_not_disturbed(self) -> None:
        """A process that somebody else traces is refused, and goes on."""
        with Job() as job:
            with subprocess.Popen(["strace", "-f", "-q", "-o", "/dev/null", "-p", str(job.pid)]) as other:
                live.wait_until(lambda: "TracerPid:\t0" not in Path(f"/proc/{job.pid}/status").read_text(), live.READY_S, "strace attached")
                self.assert_fails(4, ("-p", job.pid, "-d", "1", "-o", self.out), "trac|permit")
                other.terminate()
            self.assert_same_results(job.do("steps 3"))
            self.assertEqual(live.changed_text_bytes(job.pid), 0)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""Probes that go into all processes with a library, as on Linux 6.6 to 6.9 (forced): what is recorded, what is not, and who is left alone."""

from __future__ import annotations

import subprocess
import time
import unittest

import live
from live import Job, LiveTest, Result, Tracer
from patch_test import LONG, TOOL, PatchJob, patch_regions

FORCED = (live.Switch("links-for-all"), "--format", "events-csv")


class OtherProcessesTest(LiveTest):
    def test_only_the_process_is_recorded_with_all_its_threads(self) -> None:
        with Job() as job, Job() as other:
            other.tell("loop")
            with Tracer("-p", job.pid, "-o", self.out, *FORCED, "--record-shapes", "--with-stack") as tracer:
                tracer.wait_until_recording()
                job.do("crowd 6")
                self.assert_same_results(job.do("steps 20"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            other.finish_loop()
            self.assertEqual((live.changed_text_bytes(job.pid), live.changed_text_bytes(other.pid)), (0, 0))
        result = Result(self.out)
        self.assert_lossless(result)
        rows = [row for row in result.events() if row["category"] == "cpu_op"]
        self.assertEqual({row["pid"] for row in rows}, {str(job.pid)})
        self.assertGreater(len({row["tid"] for row in rows}), 6)
        self.assertIn("probes of the recorded processes alone", {gap["feature"] for gap in result.summary["unsupported"]})

    def test_two_processes_and_their_children_at_once(self) -> None:
        with Job() as first, Job() as second:
            with Tracer("-p", first.pid, "-p", second.pid, "-o", self.out, *FORCED) as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(second.do("steps 20"))
                first.do("fork 2 3")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual((live.changed_text_bytes(first.pid), live.changed_text_bytes(second.pid)), (0, 0))
        result = Result(self.out)
        self.assert_lossless(result)
        pids = {row["pid"] for row in result.events() if row["category"] == "cpu_op"}
        self.assertIn(str(second.pid), pids)
        self.assertEqual(len(pids - {str(first.pid), str(second.pid)}), 2)

    def test_one_that_has_jumps_is_left_alone(self) -> None:
        with Job() as job, PatchJob(2, LONG) as other:
            tool = subprocess.Popen([TOOL, str(other.pid), "20"], stdout=subprocess.PIPE, text=True)
            live.wait_until(lambda: bool(patch_regions(other.pid)), 60, "patched")
            self.assert_fails(6, ("record", "-p", job.pid, "-d", "1s", "-o", self.out, *FORCED), f"PID {other.pid} has jumps .*--tier patch here")
            time.sleep(0.5)
            self.assertIsNone(other.process.poll())
            tool.send_signal(2)
            self.assertIn("; OK", tool.communicate(timeout=60)[0])
            self.assertEqual(live.changed_text_bytes(other.pid), 0)


if __name__ == "__main__":
    live.run()
    unittest.main(verbosity=2)

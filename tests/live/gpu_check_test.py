#!/usr/bin/env python3
"""tests/gpu/check_gpu.py, which compares with torch.profiler on a GPU, with the stand-ins for CUDA and CUPTI in its place: Kineto records
with these, too, so what it makes of the same records is what ours must be. And that the check notices what is wrong."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
from pathlib import Path

import live
from live import LiveTest

GPU = live.HERE.parent / "gpu"
CUDA = Path(os.environ.get("PROFTRACE_CUDA_DOUBLE", live.BINARY.parents[1] / "tests/support/cuda_double"))
sys.path.insert(0, str(GPU))
import check_gpu  # noqa: E402


class GpuCheckTest(LiveTest):
    def test_kineto_makes_the_same_of_the_same_records(self) -> None:
        major = live.cuda_of_torch() or "0"
        if not live.cupti_double(major).exists():
            self.skipTest(f"no stand-in for the CUPTI of CUDA {major}")
        self.out.mkdir()
        done = subprocess.run([sys.executable, GPU / "check_gpu.py", "--proftrace", live.BINARY, "--out", self.out, "--python", self.python, "--job",
                               GPU / "double_job.py", "--steps", "20", "--cycles", "2", "all"], capture_output=True, text=True, timeout=400,
                              env={**os.environ, "PROFTRACE_DOUBLES": str(CUDA.parent)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("WRONG", done.stdout)
        # 20 steps: 2 forward, 2 backward, 3 on streams, 3 of a graph; 3 copies, 1 memset.
        self.assertIn("  280 and 280 device rows", done.stdout)
        # What loading code takes: two rows a step of CUPTI's own track, and of the CPU in the table.
        theirs, ours = (collections.Counter((event["name"], event["pid"], event["tid"]) for event in check_gpu.events(self.out / path)
                                            if event.get("cat") == "overhead") for path in ("all.torch.json", "all/trace.json.gz"))
        self.assertEqual(ours, theirs)
        self.assertEqual(ours, {("Lazy Function Loading", -1, 0): 20, ("Runtime Triggered Module Loading", -1, 0): 20})
        self.check_the_check(self.out / "all/trace.json.gz", self.out / "all/key_averages.csv")

    def check_the_check(self, trace: Path, averages: Path) -> None:
        events = check_gpu.events(trace)
        times = check_gpu.operator_times(events)
        self.assertEqual(check_gpu.check_links(events), [])
        self.assertEqual(check_gpu.check_operators(times, averages), [])
        wrong = {**times, "Layer": [2 * own for own in times["Layer"]]}
        self.assertEqual([fault.split(":")[0] for fault in check_gpu.check_operators(wrong, averages)],
                         ["self_device_time_total_us of Layer", "device_time_total_us of Layer"])
        arrows = [event for event in events if event.get("cat") == "ac2g" and event["ph"] == "s"]
        self.assertEqual(len(check_gpu.check_links([event for event in events if event is not arrows[0]])), 1)
        shifted = json.loads(json.dumps(events))
        next(event for event in shifted if event.get("cat") == "ac2g" and event["ph"] == "s")["ts"] += 1
        self.assertEqual(len(check_gpu.check_links(shifted)), 1)


if __name__ == "__main__":
    live.run()

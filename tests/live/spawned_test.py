#!/usr/bin/env python3
"""Children that have a PyTorch of their own: those that are there at the attach, and those that load it while recording."""

from __future__ import annotations

import collections
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

SCRIPT = Path(__file__).with_name("spawned_job.py")
ROWS = 40
LOADED = "start of processes that loaded PyTorch while recording"


class SpawnedTest(LiveTest):
    tier = "bpf"

    def tracer(self, job: Job, *options: str) -> Tracer:
        return Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--tier", self.tier, *options)

    def children_of(self, answer: dict[str, str]) -> dict[int, str]:
        return {int(pid): kind for pid, kind in (one.split(":") for one in answer["children"].split(","))}

    def gaps(self, result: Result) -> dict[str, str]:
        return {gap["feature"]: gap["reason"] for gap in result.summary["unsupported"]}

    def test_each_child_is_recorded_from_its_first_operator_on(self) -> None:
        with Job(script=SCRIPT, fresh=True) as job:
            result, (answer,) = self.record_by(self.tracer(job), job, "work")
            children = self.children_of(answer)
            rows: dict[int, collections.Counter[str]] = collections.defaultdict(collections.Counter)
            for row in result.events():
                rows[int(row["pid"])][row["path"]] += 1
            for pid, kind in children.items():
                self.assertEqual((rows[pid][kind], rows[pid][f"{kind}/aten::mm"]), (ROWS, ROWS), kind)
            targets = {target["pid"]: target for target in result.summary["target"]}
            self.assertLessEqual(set(children), set(targets))
            self.assertEqual({targets[pid]["probes_late_ms"] for pid in children}, {0})
            self.assertNotIn(LOADED, self.gaps(result))
            self.assertEqual(job.end(), 0)

    def test_without_follow_children_none_is(self) -> None:
        with Job(script=SCRIPT, fresh=True) as job, self.tracer(job, "--no-follow-children") as tracer:
            tracer.wait_until_recording()
            job.do("work")
            self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual([target["pid"] for target in Result(self.out).summary["target"]], [job.pid])

    def test_how_late_the_probes_of_one_that_loads_pytorch_were_is_said(self) -> None:
        with Job(script=SCRIPT, fresh=True) as job, self.tracer(job, "-v") as tracer:
            tracer.wait_until_recording()
            pid = int(job.do("load")["pid"])
            tracer.lines.wait(rf"PID {pid}\b", live.WORK_S)
            self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
            self.assertRegex(self.gaps(result)[LOADED], rf"^1 process, PID {pid} \(\d+ ms\): ")
            late_ms = {target["pid"]: target["probes_late_ms"] for target in result.summary["target"]}
            self.assertGreater(late_ms[pid], 0)
            self.assertEqual(late_ms[job.pid], 0)


class SpawnedByJumpsTest(SpawnedTest):
    tier = "patch"


if __name__ == "__main__":
    live.run()

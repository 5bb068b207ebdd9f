#!/usr/bin/env python3
"""Jobs whose code the kernel's probes do not reach, and jobs that call nothing of PyTorch: rows, or a sentence that says why not."""

from __future__ import annotations

from pathlib import Path

import live
from live import Job, LiveTest, Result

SCRIPT = Path(__file__).resolve().parent / "displaced_job.py"
MULTIPLICATIONS = 50


class DisplacedTest(LiveTest):
    def job(self, how: str) -> Job:
        return Job(script=SCRIPT, environment={"DISPLACE": how})

    def record(self, job: Job, line: str, *options: str) -> tuple[Result, str]:
        with live.Tracer("-p", job.pid, "-o", self.out, "--force", "--format", "events-csv", *options) as tracer:
            tracer.wait_until_recording()
            job.do(line)
            self.assertEqual(tracer.stop(), 0, tracer.text())
            return Result(self.out), tracer.text()

    def gap(self, result: Result, feature: str) -> str:
        return "\n".join(gap["reason"] for gap in result.summary["unsupported"] if gap["feature"] == feature)

    def check_displaced(self, how: str, why: str) -> None:
        with self.job(how) as job:
            for tier in ("bpf", "patch"):
                with self.subTest(tier=tier):
                    result, said = self.record(job, f"operators {MULTIPLICATIONS}", "--tier", tier)
                    named = self.gap(result, "code that no probe reaches")
                    self.assertRegex(named, rf"PID {job.pid}: \d+ of \d+ places of libtorch_cpu\.so")
                    self.assertIn(why, named)
                    self.assertIn("proftrace: warning: ", said)
                    self.assertIn(why, said)
                    # The job is as it was, and nothing of ours is in it.
                    self.assertEqual(live.patches(job.pid), [])
                    self.assertEqual(job.do("operators 1")["sum"], "512")

    def test_a_part_in_anonymous_memory(self) -> None:
        self.check_displaced("part", "not mapped from the file")

    def test_a_part_in_a_shared_memfd(self) -> None:
        self.check_displaced("memfd", "not mapped from the file")

    def test_a_part_that_moves_while_it_is_recorded(self) -> None:
        with self.job("nothing") as job:
            with live.Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--tier", "bpf") as tracer:
                tracer.wait_until_recording()
                job.do(f"operators {MULTIPLICATIONS}")
                job.do("displace part")
                job.do(f"operators {MULTIPLICATIONS}")
                self.assertEqual(tracer.stop(), 0, tracer.text())
                said = tracer.text()
            result = Result(self.out)
            self.assertGreaterEqual(result.names[job.pid]["aten::mm"], MULTIPLICATIONS)
            named = self.gap(result, "code that no probe reaches")
            self.assertRegex(named, rf"^PID {job.pid}: \d+ of \d+ places of libtorch_cpu\.so.* \(since some moment of the recording\)$")
            self.assertIn(named, said)
            self.assertEqual(job.do("operators 1")["sum"], "512")

    def test_writable_code_has_jumps_but_no_probes(self) -> None:
        with self.job("writable") as job:
            result, said = self.record(job, f"operators {MULTIPLICATIONS}", "--tier", "bpf")
            self.assertIn("shared or writable", self.gap(result, "code that no probe reaches"))
            self.assertIn("shared or writable", said)
            result, said = self.record(job, f"operators {MULTIPLICATIONS}", "--tier", "patch")
            self.assertGreaterEqual(result.names[job.pid]["aten::mm"], MULTIPLICATIONS)
            self.assertEqual(job.do("operators 1")["sum"], "512")

    def test_all_of_it_elsewhere_is_refused(self) -> None:
        with self.job("whole") as job:
            for tier in ("bpf", "patch"):
                self.assert_fails(6, ("-p", job.pid, "-d", "300ms", "-o", self.out.parent / "none", "--tier", tier),
                                  rf"PID {job.pid} has no code of \S*libtorch_cpu\.so\S* mapped from the file")
            self.assertEqual(job.do("operators 1")["sum"], "512")

    def test_where_all_is_reached_nothing_is_said(self) -> None:
        with self.job("nothing") as job:
            for tier in ("bpf", "patch"):
                result, said = self.record(job, f"operators {MULTIPLICATIONS}", "--tier", tier)
                self.assertEqual(result.names[job.pid]["aten::mm"], MULTIPLICATIONS + 1)
                self.assertEqual(self.gap(result, "code that no probe reaches"), "")
                self.assertEqual(self.gap(result, "rows of processes that ran"), "")
                self.assertNotIn("warning", said)

    def test_one_that_works_without_pytorch(self) -> None:
        with self.job("nothing") as job:
            for tier in ("bpf", "patch"):
                result, said = self.record(job, "busy 0.4", "--tier", tier)
                named = self.gap(result, "rows of processes that ran")
                self.assertRegex(named, rf"^PID {job.pid} \(0\.\d+ s of CPU time\) ran, but there is no row")
                self.assertIn(named, said)


if __name__ == "__main__":
    live.run()

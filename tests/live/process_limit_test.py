#!/usr/bin/env python3
"""proftrace in a control group that gives it no more processes and threads: a sentence that says so, the job as it was, and nothing of a
recording lost that has begun."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import live
from live import Job, LiveTest
from memory_limit_test import hierarchy

ENOUGH = 64


class ProcessLimitTest(LiveTest):
    @contextlib.contextmanager
    def group(self) -> Iterator[Path]:
        found = hierarchy("pids")
        if found is None:
            self.skipTest("no control groups that limit processes")
        group = found[0] / f"proftrace-{os.getpid()}-{time.monotonic_ns()}"
        group.mkdir()
        try:
            yield group
        finally:
            live.wait_until(lambda: not (group / "cgroup.procs").read_text(), 10, "an empty group")
            group.rmdir()

    def prefix(self, group: Path) -> tuple[str, ...]:
        return "sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh"

    def test_too_few_from_the_begin(self) -> None:
        with Job() as job, self.group() as group:
            for most in (1, 2, 3, 5):
                for tier in ("bpf", "patch"):
                    with self.subTest(most=most, tier=tier):
                        (group / "pids.max").write_text(str(most))
                        self.assert_fails(6, ("-p", job.pid, "-d", "300ms", "-o", self.out, "--tier", tier), "this host gives no more",
                                          "raise pids.max of proftrace's control group", prefix=self.prefix(group))
            self.assertEqual(live.patches(job.pid), [])
            self.assertEqual(live.changed_text_bytes(job.pid), 0)
            self.assert_same_results(job.do("steps 5"))

    def test_none_when_it_ends(self) -> None:
        with Job() as job, self.group() as group:
            (group / "pids.max").write_text(str(ENOUGH))
            with live.Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", prefix=self.prefix(group)) as tracer:
                tracer.wait_until_recording()
                answer = job.do("steps 20")
                (group / "pids.max").write_text("1")
                self.assertEqual(tracer.stop(), 6, tracer.text())
                self.assertRegex(tracer.text(), rf"raise pids.max .*; all that was recorded is in {self.out}/capture.ptrec")
            self.assert_same_results(answer)
            shown = self.run_proftrace("export", self.out, "--format", "events-csv", "-o", "-")
            self.assertEqual(shown.stdout.count(",step,,user_annotation,"), 20)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""A job that writes what it likes into the ring that it shares with proftrace costs its own rows, and no more than that."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import live

HERE = Path(__file__).parent
STEPS = 200
HEADER = HERE.parent.parent / "bpf" / "abi" / "patch_memory.h"


class FloodingJob:
    """In a PID namespace of its own: thread numbers in its records are not the tracer's."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", live.LiveTest.python,
                                         str(HERE / "flooding_job.py"), str(HEADER)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=live.job_variables())

    def __enter__(self) -> "FloodingJob":
        assert self.process.stdout is not None
        self.lines = live.LineReader(self.process.stdout)
        self.lines.wait(r"READY", live.START_S)
        self.pid = int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.wait()
        self.lines.close()


class FloodedRingTest(live.LiveTest):
    def test_only_the_job_that_floods_its_ring_loses_rows(self) -> None:
        with FloodingJob() as hostile, live.Job() as job:
            tracer = live.Tracer("-p", hostile.pid, "-p", job.pid, "--tier", "patch", "-o", self.out, "--format", "none")
            with tracer:
                tracer.wait_until_recording()
                answer = job.do(f"steps {STEPS}")
                begin = time.monotonic()
                self.assertEqual(tracer.stop(), 0, tracer.text())
                self.assertLess(time.monotonic() - begin, 30, "the end of the recording")
            result = live.Result(self.out)
            self.assertGreater(result.ledger["ring_lost"], 0)
            self.assert_same_results(answer)
            self.assertIsNone(hostile.process.poll())
            rows = self.run_proftrace("export", self.out, "--pid", job.pid, "--format", "events-csv", "-o", "-").stdout
            self.assertEqual(rows.count(",step,,user_annotation,"), STEPS)


if __name__ == "__main__":
    live.run()

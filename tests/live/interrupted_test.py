#!/usr/bin/env python3
"""Which blocking system calls of a job see EINTR when its threads are stopped for jumps: those that docs/ names, and no other."""

from __future__ import annotations

import unittest

import live
from live import HERE, Job, LiveTest, Tracer

SCRIPT = HERE / "interrupted_job.py"
# signal(7): interrupted by a stop and a continue, without any handler.
INTERRUPTED = {"epoll_wait", "epoll_pwait", "io_getevents", "recv_with_a_timeout", "send_with_a_timeout", "semop", "semtimedop", "sigtimedwait"}


class InterruptedTest(LiveTest):
    def interrupted(self, *options: str) -> set[str]:
        with Job(script=SCRIPT) as job:
            with Tracer("-p", job.pid, "-o", self.directory / "-".join(("out", *options)), "--format", "none", *options) as tracer:
                tracer.wait_until_recording()
                job.do("step")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            answer = job.do("end")
            self.assertGreater(int(answer["waits"]), 20)
            self.assertEqual(answer["alive"], "0", answer)
            return set(answer["interrupted"].split(",")) - {""}

    def test_no_call_is_interrupted_by_probes(self) -> None:
        self.assertEqual(self.interrupted("--tier", "bpf"), set())

    def test_calls_that_stops_interrupt(self) -> None:
        self.assertEqual(self.interrupted("--tier", "patch"), INTERRUPTED)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""`-a` beside a process that is made to cost much: it costs its own rows and a bounded time, never those of other jobs; and whatever is
being read of it, a recording that is asked to end ends."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

HERE = Path(__file__).parent
STEPS = 40
# One process may cost 20 s of processor time before the recording begins (ReadBudget).
MOST_START_S = 60
MOST_END_S = 20
MOST_STOP_S = 5


class HostileNeighbourTest(LiveTest):
    @contextlib.contextmanager
    def hostile(self, kind: str) -> "Iterator[subprocess.Popen[bytes]]":
        directory = self.directory / "hostile"
        directory.mkdir()
        with subprocess.Popen([sys.executable, str(HERE / "hostile_job.py"), kind, str(directory)], stdout=subprocess.PIPE) as process:
            lines = live.LineReader(process.stdout)
            try:
                lines.wait(r"READY \d+", live.START_S)
                yield process
            finally:
                process.kill()
                lines.close()

    def assert_it_costs_itself_alone(self, kind: str, but: tuple[str, ...] = ()) -> Result:
        with Job() as job, self.hostile(kind) as hostile:
            begin = time.monotonic()
            with Tracer("-a", "-o", self.out, "--format", "events-csv") as tracer:
                tracer.lines.wait(r"^proftrace: recording ", MOST_START_S)
                start_s = time.monotonic() - begin
                answer = job.do(f"steps {STEPS}")
                begin = time.monotonic()
                self.assertEqual(tracer.stop(), 0, tracer.text())
                print(f"{kind}: recording after {start_s:.1f} s, ended {time.monotonic() - begin:.1f} s after it was asked to", file=sys.stderr)
                self.assertLess(time.monotonic() - begin, MOST_END_S)
            self.assertIsNone(hostile.poll())
            self.assert_same_results(answer)
        result = Result(self.out)
        self.assert_lossless(result, but)
        self.assertEqual(result.names[job.pid]["step"], STEPS)
        return result

    def test_sections_without_an_end(self) -> None:
        self.assert_it_costs_itself_alone("sections")

    def test_names_without_an_end(self) -> None:
        self.assert_it_costs_itself_alone("names")

    def test_tens_of_thousands_of_mappings(self) -> None:
        self.assert_it_costs_itself_alone("mappings")

    def test_threads_that_come_and_go(self) -> None:
        self.assert_it_costs_itself_alone("threads")

    def test_a_lease_that_is_never_given_back(self) -> None:
        result = self.assert_it_costs_itself_alone("lease", but=("follow_failed",))
        self.assertRegex(str(result.summary["unsupported"]), "libtorch_cpu.so: a process holds a lease on it")

    def test_it_ends_while_it_reads(self) -> None:
        for kind in ("sections", "mappings", "lease"):
            with self.subTest(kind), self.hostile(kind) as hostile:
                for delay_s in (0.05, 0.3, 1.0):
                    with Tracer("-p", hostile.pid, "-o", self.out, "--format", "none") as tracer:
                        time.sleep(delay_s)  # it may be anywhere in its work
                        begin = time.monotonic()
                        tracer.process.send_signal(signal.SIGTERM)
                        tracer.wait()
                        took_s = time.monotonic() - begin
                        print(f"{kind}, asked to end after {delay_s} s: {took_s:.2f} s, exit {tracer.process.returncode}", file=sys.stderr)
                        self.assertLess(took_s, MOST_STOP_S)
            for left in (self.directory / "hostile").iterdir():
                left.unlink()
            (self.directory / "hostile").rmdir()


if __name__ == "__main__":
    Job.is_fresh = True  # -a would find what they are forked from
    live.run(own_host=True)

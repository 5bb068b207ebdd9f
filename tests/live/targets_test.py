#!/usr/bin/env python3
"""What is said of targets: those that cannot be recorded beside others, a command that goes on."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import live
from live import Job, LiveTest, Result


class TargetsTest(LiveTest):
    def test_one_without_pytorch_does_not_refuse_the_others(self) -> None:
        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        try:
            with Job() as job:
                for first, second in ((job.process.pid, other.pid), (other.pid, job.process.pid)):
                    done = self.run_proftrace("-p", first, "-p", second, "-d", "300ms", "-o", self.out, "--force", "--format", "none")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn(f"PID {other.pid} is not recorded: ", done.stderr)
                    self.assertRegex(done.stderr, rf"recording PID {job.process.pid} \([^)]*\), \d+ operators")
                    summary = Result(self.out).summary
                    self.assertIn(f"process {other.pid}", [gap["feature"] for gap in summary["unsupported"]])
                    self.assertEqual([target["pid"] for target in summary["target"]], [job.process.pid])
                # It does not go on for one that is not recorded.
                with live.Tracer("-p", job.process.pid, "-p", other.pid, "-o", self.out, "--force", "--format", "none") as tracer:
                    tracer.wait_until_recording()
                    job.end()
                    self.assertEqual(tracer.wait(), 0, tracer.text())
            self.assertIsNone(other.poll())
            self.assert_fails(5, ("-p", other.pid, "-p", os.getpid(), "-d", "300ms", "-o", self.out.parent / "none"), "no libtorch")
        finally:
            other.kill()
            other.wait()

    def test_a_command_that_goes_on_is_named(self) -> None:
        # It lets go of the pipes, whose end is waited for.
        code = ("import os, time, torch\nnull = os.open(os.devnull, os.O_WRONLY)\nos.dup2(null, 1)\nos.dup2(null, 2)\n"
                "while True: torch.ones(2) + 1; time.sleep(0.001)")
        command = (live.find_python(), "-c", code)
        # Long enough for an import of PyTorch on a busy machine.
        done = self.run_proftrace("record", "-d", "20s", "-o", self.out, "--format", "none", "--", *command)
        said = re.search(r"goes on as PID (\d+); to end it: kill \1\n", done.stderr)
        self.assertIsNotNone(said, done.stderr)
        os.kill(int(said[1]), signal.SIGTERM)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.run_proftrace("record", "-o", self.out, "--force", "--format", "none", "--", command[0], "-c", "import torch; torch.ones(2) + 1")
        self.assertNotIn("goes on", done.stderr)

    def test_the_end_of_the_job_is_told_where_it_cuts_the_recording_short(self) -> None:
        cut = "all recorded processes have ended, and the recording with them"
        for option, count, told in (("-d", "600s", f"{cut}, before the 600 s of --duration were over"),
                                    ("--steps", "1000", rf"{cut}, after \d+ of the 1000 steps of --steps"), ("-v", None, None)):
            with self.subTest(option), Job() as job:
                more = (option,) if count is None else (option, count)
                with live.Tracer("-p", job.pid, *more, "-o", self.out, "--force", "--format", "none") as tracer:
                    tracer.wait_until_recording()
                    job.do("steps 5")
                    job.end()
                    self.assertEqual(tracer.wait(), 0, tracer.text())
                if told is None:
                    self.assertNotIn(cut, tracer.text())  # it was to last until the job's end
                else:
                    self.assertRegex(tracer.text(), told)


if __name__ == "__main__":
    live.run()

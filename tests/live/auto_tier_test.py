#!/usr/bin/env python3
"""--tier auto: what probes would cost a job is looked at before anything is put into it, and jumps take their place where that is too much."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import time
from collections.abc import Iterator

import live
from live import Job, LiveTest, Result, Tracer

PTRACE_SEIZE, PTRACE_DETACH, PTRACE_INTERRUPT = 0x4206, 17, 0x4207
# Much work an operator: its calls are a few hundred a second.
LARGE = ("import torch, time; torch.set_num_threads(1); a = torch.rand(700, 700); print('READY', flush=True)\n"
         "while True: a = (a @ a).sigmoid()")
LAUNCHED = ("import torch\nx = torch.ones(4)\nfor _ in range(20000): x.add_(1)\nassert x.sum().item() == 4 * 20001, x\n")


class AutoTierTest(LiveTest):
    def record(self, *arguments: object, seconds: float = 0.5) -> tuple[Result, str]:
        tracer = Tracer(*arguments, "--tier", "auto", "-d", f"{seconds}s", "-o", self.out, "--format", "table,events-csv")
        with tracer:
            self.assertEqual(tracer.wait(), 0, tracer.text())
            said = tracer.text()
        result = Result(self.out)
        self.assert_identities(result.ledger)
        return result, said

    def choice(self, result: Result) -> dict[str, object]:
        choice = result.summary["proftrace"]["tier_choice"]
        footer = (self.out / "key_averages.txt").read_text(encoding="utf-8")
        how = "jumps" if result.summary["proftrace"]["tier"] == "patch" else "the kernel's probes"
        self.assertIn(f"Recorded by {how} (--tier auto): {choice['reason']}", footer)
        return choice

    def large_job(self) -> "subprocess.Popen[bytes]":
        job = subprocess.Popen([self.python, "-c", LARGE], stdout=subprocess.PIPE, env=live.job_variables())
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        assert job.stdout is not None
        self.addCleanup(job.stdout.close)
        job.stdout.readline()
        return job

    def test_many_small_operators_are_recorded_by_jumps(self) -> None:
        with Job() as job:
            job.tell("loop")
            result, said = self.record("-p", job.pid)
            answer = job.finish_loop()
            self.assertEqual((live.patches(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
        choice = self.choice(result)
        self.assertEqual(result.summary["proftrace"]["tier"], "patch")
        self.assertGreater(choice["probes_percent"], 3)
        self.assertEqual(choice["tid"], job.pid)
        self.assertRegex(said, r"proftrace: operators are recorded by jumps: probes of the kernel would slow thread \d+ by about [\d.]+ %")
        self.assertGreater(result.summary["cost"]["jumps"], 0)
        self.assert_lossless(result)
        self.assert_same_results(answer)

    def test_large_operators_keep_probes(self) -> None:
        job = self.large_job()
        tracer = Tracer("-p", job.pid, "--tier", "auto", "-o", self.out, "--format", "table,events-csv", "--auto-limit", "10%")
        with tracer:
            tracer.wait_until_recording()
            time.sleep(0.3)
            self.assertEqual(live.patches(job.pid), [])
            self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertNotIn("by jumps", tracer.text())
        result = Result(self.out)
        choice = self.choice(result)
        self.assertEqual(result.summary["proftrace"]["tier"], "bpf")
        self.assertLess(choice["probes_percent"], 10)
        self.assertGreater(choice["operators_per_s"], 0)
        self.assert_lossless(result)

    def test_what_probes_may_cost_is_the_users_to_say(self) -> None:
        job = self.large_job()
        result, _ = self.record("-p", job.pid, "--auto-limit", "0.001%")
        self.choice(result)
        self.assertEqual(result.summary["proftrace"]["tier"], "patch")
        with Job() as busy:
            busy.tell("loop")
            for arguments in (("--tier", "bpf"), ("--no-inject",)):
                tier = () if "--tier" in arguments else ("--tier", "auto")
                done = self.run_proftrace("-p", busy.pid, *arguments, *tier, "-d", "200ms", "-o", self.out, "--force", "--format", "none")
                self.assertEqual(done.returncode, 0, done.stderr)
                recorded = Result(self.out).summary["proftrace"]
                self.assertEqual(recorded["tier"], "bpf")
                self.assertNotIn("tier_choice", recorded)
            self.assert_same_results(busy.finish_loop())

    def test_an_idle_job_keeps_probes(self) -> None:
        with Job() as job:
            tracer = Tracer("-p", job.pid, "--tier", "auto", "-o", self.out, "--format", "table,events-csv")
            with tracer:
                tracer.wait_until_recording()
                answer = job.do("steps 50")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
        choice = self.choice(result)
        self.assertEqual((result.summary["proftrace"]["tier"], choice["probes_percent"]), ("bpf", 0))
        self.assertEqual(result.names[job.pid]["step"], 50)
        self.assert_lossless(result)
        self.assert_same_results(answer)

    def test_a_process_that_is_told_apart_keeps_probes_beside_one_with_jumps(self) -> None:
        with Job() as busy, Job() as idle:
            busy.tell("loop")
            tracer = Tracer("-p", busy.pid, "-p", idle.pid, "--tier", "auto", "-o", self.out, "--format", "table,events-csv")
            with tracer:
                tracer.wait_until_recording()
                self.assertTrue(live.patches(busy.pid))
                self.assertEqual(live.patches(idle.pid), [])
                answer = idle.do("steps 20")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            busy_answer = busy.finish_loop()
            self.assertEqual((live.patches(busy.pid), live.changed_text_bytes(busy.pid), live.changed_text_bytes(idle.pid)), ([], 0, 0))
        result = Result(self.out)
        self.assertEqual(result.summary["proftrace"]["tier"], "patch")
        self.assertEqual(result.names[idle.pid]["step"], 20)
        self.assertGreater(result.names[busy.pid]["step"], 5)
        for one in (answer, busy_answer):
            self.assert_same_results(one)
        self.assert_lossless(result)

    @contextlib.contextmanager
    def debugged(self, job: Job) -> Iterator[None]:
        """A debugger keeps jumps away."""
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.assertEqual(libc.ptrace(PTRACE_SEIZE, job.pid, None, None), 0, os.strerror(ctypes.get_errno()))
        yield
        # Only a thread that stands still can be let go.
        libc.ptrace(PTRACE_INTERRUPT, job.pid, None, None)
        os.waitpid(job.pid, 0x40000000)
        self.assertEqual(libc.ptrace(PTRACE_DETACH, job.pid, None, None), 0)

    def test_where_jumps_cannot_be_probes_record_and_the_reason_is_said(self) -> None:
        with Job() as job:
            job.tell("loop")
            with self.debugged(job):
                result, said = self.record("-p", job.pid, seconds=0.3)
            answer = job.finish_loop()
        choice = self.choice(result)
        self.assertEqual(result.summary["proftrace"]["tier"], "bpf")
        self.assertRegex(choice["reason"], "jumps cannot be used: .*(trace|debug)")
        self.assertRegex(said, "proftrace: operators are recorded by probes: .*jumps cannot be used")
        self.assertNotIn("--tier patch records the same", said)
        self.assertGreater(result.names[job.pid]["step"], 5)
        self.assert_same_results(answer)

    def test_one_that_cannot_have_jumps_keeps_them_from_nobody(self) -> None:
        with Job() as closed, Job() as open_:
            for pair in ((closed, open_), (open_, closed)):
                with self.subTest(first=pair[0].pid):
                    for job in pair:
                        job.tell("loop")
                    tracer = Tracer(*(part for job in pair for part in ("-p", job.pid)), "--tier", "auto", "-o", self.out, "--force",
                                    "--format", "table,events-csv")
                    with self.debugged(closed), tracer:
                        tracer.wait_until_recording()
                        self.assertTrue(live.patches(open_.pid), tracer.text())
                        self.assertEqual(live.patches(closed.pid), [])
                        time.sleep(0.5)
                        self.assertEqual(tracer.stop(), 0, tracer.text())
                    answers = [job.finish_loop() for job in pair]
                    result = Result(self.out)
                    self.assertRegex(self.choice(result)["reason"], "; 1 of the 2 busy processes keeps probes, because jumps cannot be used there: ")
                    self.assertEqual(result.summary["proftrace"]["tier"], "patch")
                    for job, answer in zip(pair, answers):
                        self.assertGreater(result.names[job.pid]["step"], 5)
                        self.assert_same_results(answer)
                        self.assertEqual((live.patches(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
                    self.assert_identities(result.ledger)

    def test_stacks_that_only_probes_can_read_keep_probes(self) -> None:
        hidden = self.directory / "hidden_python_state.so"
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", hidden, live.HERE / "hidden_python_state.c", "-ldl"], check=True)
        with Job(environment={"LD_PRELOAD": str(hidden)}) as job:
            job.tell("loop")
            result, said = self.record("-p", job.pid, "--with-stack", "--auto-limit", "0.01%", seconds=0.3)
            answer = job.finish_loop()
        self.assertEqual(result.summary["proftrace"]["tier"], "bpf")
        self.assertRegex(self.choice(result)["reason"], "jumps cannot be used: rows of PID [0-9]+ would have no Python stacks: ")
        self.assertRegex(said, "proftrace: operators are recorded by probes: .*no Python stacks")
        rows = [row for row in result.events() if row["name"] == "aten::linear"]
        self.assertGreater(sum("job.py" in row["stack"] for row in rows), 0.95 * len(rows))
        self.assertTrue(rows)
        self.assert_same_results(answer)

    def test_a_job_that_is_started_is_recorded_whole(self) -> None:
        program = self.directory / "program.py"
        program.write_text(LAUNCHED, encoding="utf-8")
        tracer = Tracer("--tier", "auto", "-o", self.out, "--format", "table,events-csv", "--", self.python, program)
        with tracer:
            self.assertEqual(tracer.process.wait(live.WORK_S), 0, tracer.text())
        result = Result(self.out)
        self.choice(result)
        self.assertEqual(result.summary["proftrace"]["tier"], "patch")
        (names,) = result.names.values()
        self.assertEqual(names["aten::add_"], 20000)
        self.assert_lossless(result)

    def test_stacks_are_recorded_either_way(self) -> None:
        for limit, tier in (("0.01%", "patch"), ("99%", "bpf")):
            with self.subTest(tier=tier), Job() as job:
                job.tell("loop")
                result, _ = self.record("-p", job.pid, "--with-stack", "--auto-limit", limit, "--force", seconds=0.3)
                answer = job.finish_loop()
                if tier == "bpf" and result.summary["proftrace"]["tier"] == "patch":
                    self.assertGreater(self.choice(result)["probes_percent"], 99)
                else:
                    self.assertEqual(result.summary["proftrace"]["tier"], tier)
                rows = [row for row in result.events() if row["name"] == "aten::linear"]
                self.assertTrue(rows)
                with_stack = sum("job.py" in row["stack"] for row in rows)
                self.assertGreater(with_stack, 0.95 * len(rows))
                self.assert_same_results(answer)


if __name__ == "__main__":
    live.run()

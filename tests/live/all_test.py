#!/usr/bin/env python3
"""`-a`: every PyTorch process of the host."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import live
from live import CONTAINER, Job, LiveTest, Result, Tracer
import ranks_test
from namespaces_test import child_of

ORPHANS = 22
TOP_JOB = live.HERE / "top_job.py"
# Works until it is told to end; without a torch of its own it is a process like any other.
NO_TORCH = "import time\nwhile True: time.sleep(0.01)"


class AllTest(ranks_test.LaunchedRanks):
    def record_all(self, *options: object) -> Tracer:
        return Tracer("-a", "-o", self.out, "--format", "events-csv,chrome", *options)

    def assert_steps(self, result: Result, expected: dict[int, int], late: set[int]) -> None:
        """Steps of each process. A late one makes one when it has loaded PyTorch, before or after its probes are live."""
        steps = collections.Counter(int(row["pid"]) for row in result.events() if row["path"] == "step")
        for pid in late:
            self.assertIn(steps[pid], (expected[pid], expected[pid] + 1))
        self.assertEqual({**steps, **{pid: expected[pid] for pid in late}}, expected)

    def spans_by_pid(self, result: Result) -> "collections.Counter[int]":
        return collections.Counter(int(row["pid"]) for row in result.events() if row["path"] in ("step", "forward"))

    def linked_pids(self, tracer: Tracer) -> set[int]:
        """Of the processes for which it holds uprobes; 0 = one that is for every process."""
        pids = set()
        for path in Path(f"/proc/{tracer.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                text = path.read_text()
                if re.search(r"^link_type:\s+uprobe_multi", text, re.MULTILINE):
                    pids.add(int(re.search(r"^pid:\s+(\d+)", text, re.MULTILINE).group(1)))
        return pids

    def test_running_and_later_processes_are_recorded_and_no_others(self) -> None:
        with Job() as first, Job() as second, subprocess.Popen([sys.executable, "-c", NO_TORCH]) as other:
            with contextlib.ExitStack() as stack:
                stack.callback(other.kill)  # leaving the outer block waits for its end
                tracer = stack.enter_context(self.record_all())
                said = tracer.lines.wait(r"^proftrace: recording all PyTorch processes, (\d+) now", live.READY_S)
                self.assertEqual(said.group(1), "2")
                with Job() as third:
                    tracer.lines.wait(rf"^proftrace: recording PID {third.pid}, ", live.READY_S)
                    pids = {job.pid for job in (first, second, third)}
                    linked = self.linked_pids(tracer)
                    # The kernel tells from 6.17 on.
                    self.assertIn(linked, (pids, set()))
                    for count, job in enumerate((first, second, third), 5):
                        self.assert_same_results(job.do(f"steps {count}"))
                    self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        self.assert_steps(result, {first.pid: 5, second.pid: 6, third.pid: 7}, {third.pid})
        self.assertEqual({target["pid"] for target in result.summary["target"]}, pids)

    def test_top_shows_all_of_them(self) -> None:
        """Those that are there, and one that comes while it looks, whose waits are told before its operators are."""
        with Job(script=TOP_JOB) as first, Job(script=TOP_JOB) as second:
            top = subprocess.Popen([str(live.BINARY), "top", "-a", "--json", "--window", "2s", "--interval", "500ms"], stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
            assert top.stdout is not None
            seen: set[int] = set()
            try:
                with Job(script=TOP_JOB) as third:
                    pids = {job.pid for job in (first, second, third)}
                    end = time.monotonic() + live.WORK_S
                    shown = {"processes": 0}
                    while (seen, shown["processes"]) != (pids, 3) and time.monotonic() < end:
                        shown = json.loads(top.stdout.readline())
                        seen = {int(pid) for row in shown["tables"]["threads"]["rows"] for pid in re.findall(r"\(PID (\d+)\)", row["name"])}
                    self.assertEqual((seen, shown["processes"]), (pids, 3))
                    self.assertEqual({row["name"] for row in shown["tables"]["operators"]["rows"]} & {"aten::mm"}, {"aten::mm"})
            finally:
                top.send_signal(signal.SIGINT)
                top.stdout.close()
            self.assertEqual(top.wait(live.STOP_S), 0)

    def test_it_waits_for_the_first_process(self) -> None:
        with self.record_all() as tracer:
            tracer.lines.wait(r"^proftrace: no process has loaded PyTorch yet; waiting for the first", live.READY_S)
            with Job() as job:
                tracer.lines.wait(rf"^proftrace: recording PID {job.pid}, ", live.READY_S)
                job.do("steps 100")  # the last ones after their names were read
            # It goes on after the end of all, for those that come.
            with Job() as again:
                tracer.lines.wait(rf"^proftrace: recording PID {again.pid}, ", live.READY_S)
                again.do("steps 3")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        self.assert_steps(result, {job.pid: 100, again.pid: 3}, {job.pid, again.pid})

    def test_without_any_process_it_ends_with_5(self) -> None:
        self.assert_fails_late(5, ("-a", "-d", "300ms"), "no process that had loaded PyTorch")

    def assert_fails_late(self, code: int, arguments: tuple[object, ...], *words: str) -> None:
        done = self.run_proftrace(*arguments)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        for word in words:
            self.assertRegex(done.stderr.splitlines()[-1], word)
        self.assertEqual(os.listdir(self.directory), [])

    def test_with_a_pid_or_without_children_it_is_2(self) -> None:
        self.assert_fails(2, ("-a", "-p", os.getpid()), "-a")
        self.assert_fails(2, ("-a", "--no-follow-children"), "children")

    def test_many_processes_are_recorded_at_once(self) -> None:
        """Children whose parent has ended: each is a process of its own."""
        with Job() as job:
            pids = {int(pid) for pid in job.do(f"orphans {ORPHANS}")["pids"].split(",")}
            self.assertEqual(job.end(), 0)
            with self.record_all() as tracer:
                said = tracer.lines.wait(r"^proftrace: recording all PyTorch processes, (\d+) now.* after ([\d.]+) s", live.READY_S)
                print(f"{said.group(1)} processes attached to in {said.group(2)} s", file=sys.stderr)
                for pid in pids:
                    os.kill(pid, signal.SIGUSR1)
                live.wait_until(lambda: not any(map(self.is_alive, pids)), live.WORK_S, "the orphans' end")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual(self.spans_by_pid(result), {pid: 4 for pid in pids})

    @staticmethod
    def is_alive(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        return False

    def test_processes_that_end_at_any_moment_harm_nothing(self) -> None:
        program = "import torch, os, sys; x = torch.ones(4, 4)\nfor _ in range(int(sys.argv[1])): torch.mm(x, x)\n"
        with Job() as job:
            with self.record_all() as tracer:
                tracer.wait_until_recording()
                short = [subprocess.Popen([LiveTest.python, "-c", program, str(count)]) for count in (0, 1)]
                killed = subprocess.Popen([LiveTest.python, "-c", program, "1000000"])
                live.wait_until(lambda: "libtorch_cpu" in Path(f"/proc/{killed.pid}/maps").read_text(), live.START_S, "its torch")
                killed.kill()
                for process in (*short, killed):
                    process.wait()
                self.assert_same_results(job.do("steps 5"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_identities(result.ledger)
        for name in ("ring_lost", "malformed", "end_lost", "follow_failed"):
            self.assertEqual(result.ledger[name], 0, name)
        targets = {target["pid"] for target in result.summary["target"]}
        reasons = [gap["reason"] for gap in result.summary["unsupported"] if gap["feature"] == "short-lived processes"]
        missed = sum(process.pid not in targets for process in (*short, killed))
        # One that ended while its probes went in is a target, and had not all of them live.
        self.assertTrue(all(target["comm"] for target in result.summary["target"]))
        told = sum(int(reason.split()[0]) for reason in reasons)
        self.assertIn(told, range(missed, len((*short, killed)) + 1))
        self.assertEqual(sum(row["path"] == "step" for row in result.events()), 5)

    def test_containers_and_other_users_are_recorded(self) -> None:
        with Job(prefix=CONTAINER) as contained, Job(prefix=live.nobody()) as foreign:
            pids = [child_of(contained.pid), foreign.pid]
            with self.record_all() as tracer:
                tracer.wait_until_recording()
                contained.do("steps 4")
                foreign.do("steps 4")
                with Job(prefix=CONTAINER) as late:
                    pids.append(child_of(late.pid))
                    tracer.lines.wait(rf"^proftrace: recording PID {child_of(late.pid)}, ", live.READY_S)
                    late.do("steps 4")
                    self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        self.assert_steps(result, {pid: 4 for pid in pids}, {pids[-1]})

    def test_ranks_of_a_launcher_are_recorded_with_autograd_and_groups(self) -> None:
        self.check_launched(lambda _: ("-a",))

    def test_others_pay_nothing(self) -> None:
        """Processes without PyTorch that map, fork and exec are as fast beside a tracer that stands still."""
        def run_s() -> float:
            began = time.perf_counter()
            for _ in range(100):
                subprocess.run(["/bin/true"], check=True)
            return time.perf_counter() - began

        with Job() as job, self.record_all() as tracer:
            tracer.wait_until_recording()
            ratios = []
            for _ in range(5):
                with_tracer = run_s()
                tracer.process.send_signal(signal.SIGSTOP)
                ratios.append(with_tracer / run_s())
                tracer.process.send_signal(signal.SIGCONT)
            print(f"100 execs beside -a take {sorted(ratios)[2]:.3f} of their time beside a stopped tracer", file=sys.stderr)
            self.assertLess(sorted(ratios)[2], 1.5)
            self.assert_same_results(job.do("steps 1"))
            self.assertEqual(tracer.stop(), 0, tracer.text())


if __name__ == "__main__":
    Job.is_fresh = True  # -a would find what they are forked from
    live.run(own_host=True)

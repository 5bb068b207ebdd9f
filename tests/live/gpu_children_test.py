#!/usr/bin/env python3
"""GPU agents in processes that begin to use a GPU while they are recorded: late users, spawned, forked and exec'd children, and
all processes of the host. With stand-ins for CUDA and CUPTI."""

from __future__ import annotations

import collections
import os
import time
import unittest
from pathlib import Path

import live
from gpu_test import CUPTI, DOUBLES, RUNTIME, memories, threads
from live import Job, LiveTest, Result, Tracer

LIBRARIES = (f"cupti {CUPTI}", f"load {RUNTIME}")
ROUNDS = 300
FEATURE = "GPU activity by CUPTI"


class GpuChildrenTest(LiveTest):
    def job(self, prefix: tuple[str, ...] = (), fresh: bool = False, **environment: str) -> Job:
        return Job(prefix=prefix, script=live.HERE / "cuda_job.py", environment={**DOUBLES, **environment}, fresh=fresh)

    def tracer(self, *options: object) -> Tracer:
        return Tracer("-o", self.out, "--format", "events-csv,chrome", *options)

    def reasons(self, result: Result, feature: str = FEATURE) -> str:
        return " | ".join(gap["reason"] for gap in result.summary["unsupported"] if gap["feature"] == feature)

    def kernels(self, result: Result) -> "collections.Counter[int]":
        """Of each process; each is linked to a call, but for those whose call began before it was looked at."""
        rows = list(result.events())
        calls: dict[tuple[str, str], list[dict[str, str]]] = collections.defaultdict(list)
        for row in rows:
            if row["category"] in ("cuda_runtime", "cuda_driver") and row["correlation_id"]:
                calls[row["pid"], row["correlation_id"]].append(row)
        kernels: "collections.Counter[int]" = collections.Counter()
        unlinked: "collections.Counter[str]" = collections.Counter()
        for row in rows:
            if row["category"] != "kernel":
                continue
            kernels[int(row["pid"])] += 1
            # A program after an exec counts anew.
            before = [call for call in calls[row["pid"], row["correlation_id"]] if int(call["start_ns"]) <= int(row["start_ns"])]
            if not before:
                self.assertEqual(row["parent_id"], "")
                unlinked[row["pid"]] += 1
                continue
            call = before[-1]
            self.assertIn(call["name"], ("cudaLaunchKernel", "cuLaunchKernel"))
            self.assertEqual(row["parent_id"], call["id"])
        ledger = result.summary["gpu"]["ledger"]
        self.assertEqual(ledger["records"], sum(ledger[name] for name in ("merged", "unlinked", "outside_window", "unfinished", "unknown", "malformed")))
        self.assertEqual((ledger["malformed"], ledger["unknown"], ledger["ring_dropped"]), (0, 0, 0))
        # At the moment in which an agent begins.
        self.assertLessEqual(sum(unlinked.values()), ledger["unlinked"])
        self.assertLess(sum(unlinked.values()), sum(kernels.values()) // 10)
        return kernels

    def agents(self, result: Result) -> dict[int, str]:
        """Of each target: how its agent fared."""
        said = {agent["pid"]: agent["state"] for agent in result.summary["gpu"]["agents"]}
        targets = {target["pid"]: target["gpu_agent"] for target in result.summary["target"]}
        self.assertEqual({pid: state for pid, state in targets.items() if state is not None}, said)
        return said

    def assert_left_alone(self, pid: int) -> None:
        self.assertEqual(memories(pid), [])
        self.assertNotIn("memfd:proftrace_agent", Path(f"/proc/{pid}/maps").read_text())

    def test_a_job_that_begins_to_use_a_gpu(self) -> None:
        """The driver comes with the first call, and is initialized a second later."""
        with self.job() as job:
            with self.tracer("-p", job.pid) as tracer:
                tracer.wait_until_recording()
                job.do("steps 5")
                for line in (*LIBRARIES, "agent"):
                    job.do(line)
                self.assertEqual(job.do(f"cuda {ROUNDS}")["failures"], "0")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            live.wait_until(lambda: "proftrace-gpu" not in threads(job.pid), 2, "the agent's thread ends")
            self.assertEqual((memories(job.pid), live.changed_text_bytes(job.pid)), ([], 0))
            self.assertEqual(job.do("cuda 3")["failures"], "0")
        result = Result(self.out)
        self.assertEqual((self.agents(result), self.reasons(result)), ({job.pid: "stopped"}, ""))
        # Two threads, two kernels a round.
        self.assertGreater(self.kernels(result)[job.pid], ROUNDS)
        self.assertRegex(self.reasons(result, "start of GPU activity"), r"^1 processes .* \d+ ms at most")
        self.assertEqual(self.reasons(result, "GPU kernels, copies and their times"), "")
        # Calls have probes, before the agent runs and after: each is one row.
        ends: dict[tuple[str, str], int] = collections.defaultdict(int)
        for row in result.events():
            if row["category"] in ("cuda_runtime", "cuda_driver"):
                self.assertGreaterEqual(int(row["start_ns"]), ends[row["tid"], row["name"]])
                ends[row["tid"], row["name"]] = int(row["start_ns"]) + int(row["duration_ns"] or 0)

    def test_a_driver_that_is_not_initialized(self) -> None:
        with self.job(CUDA_DOUBLE_LAZY="1") as job:
            with self.tracer("-p", job.pid) as tracer:
                tracer.wait_until_recording()
                for line in (*LIBRARIES, "cuda 1500"):
                    job.do(line)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertEqual(memories(job.pid), [])
        result = Result(self.out)
        self.assertIn("has not initialized CUDA", self.reasons(result))
        self.assertEqual(result.summary["proftrace"]["gpu"], "launch")
        self.assertGreater(sum(row["name"] == "cudaLaunchKernel" for row in result.events()), 10)

    def test_spawned_children(self) -> None:
        """As torch.multiprocessing and torchrun's ranks: another program, with CUDA of its own; one ends before the stop."""
        with self.job() as job:
            with self.tracer("-p", job.pid, "--gpu", "agent") as tracer:
                tracer.wait_until_recording()
                short = job.do(f"spawncuda {CUPTI} {RUNTIME} {ROUNDS} 0")
                self.assertEqual(short["failures"], "0")
                long = job.do(f"spawncuda {CUPTI} {RUNTIME} {ROUNDS} 5")
                self.assertEqual(long["failures"], "0")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_left_alone(job.pid)
            pids = {int(short["pid"]), int(long["pid"])}
            self.assertEqual(memories(int(long["pid"])), [])
        result = Result(self.out)
        self.assertEqual(self.agents(result), {pid: "stopped" for pid in pids})
        kernels = self.kernels(result)
        self.assertEqual(set(kernels), pids)
        for pid in pids:
            self.assertGreater(kernels[pid], ROUNDS)
        self.assertEqual(self.reasons(result), f"PID {job.pid} has not loaded the CUDA driver: no agent was put into it")

    def test_children_that_are_forked_before_cuda(self) -> None:
        """Both load CUDA at the same place, each for itself."""
        with self.job() as job:
            with self.tracer("-p", job.pid) as tracer:
                tracer.wait_until_recording()
                job.do("steps 1")
                job.tell(f"forkcuda {CUPTI} {RUNTIME} {ROUNDS}")
                answer = job.answer()
                self.assertEqual(answer["failures"], "0,0")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        pids = {job.pid, int(answer["pid"])}
        self.assertEqual(set(self.agents(result)), pids)
        kernels = self.kernels(result)
        for pid in pids:
            self.assertGreater(kernels[pid], ROUNDS)

    def test_children_that_are_forked_after_cuda_are_left_alone(self) -> None:
        with self.job() as job:
            for line in (*LIBRARIES, "cuda 1"):
                job.do(line)
            job.tell("fork 1 20")  # the answer comes when the child has ended
            early = self.a_child_of(job)
            with self.tracer("-p", job.pid) as tracer:
                tracer.wait_until_recording()
                time.sleep(0.5)
                self.assert_left_alone(early)
                os.kill(early, 9)
                job.answer()
                job.tell(f"cuda {ROUNDS}")
                self.assertEqual(job.answer()["failures"], "0")
                job.tell("fork 2 1.5")
                live.wait_until(lambda: len(children(job.pid)) == 2, 5, "two children")
                late = children(job.pid)
                time.sleep(0.7)
                for pid in late:
                    self.assertEqual(memories(pid), [])
                    self.assertNotIn("proftrace-gpu", threads(pid))
                said = job.answer()["children"]
                self.assertEqual({int(words.split(":")[0]) for words in said.split(",")}, set(late))
                self.assertEqual({words.split(":")[3] for words in said.split(",")}, {"1"})
                self.assertEqual(job.do("cuda 30")["failures"], "0")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assertEqual(self.agents(result), {job.pid: "stopped"})
        named = ", ".join(map(str, sorted((early, *late))))
        self.assertEqual(self.reasons(result), f"PID {named}: forked by a process that had loaded CUDA, which does not work in such a "
                                               "child: no agent was put into it")

    def a_child_of(self, job: Job) -> int:
        live.wait_until(lambda: len(children(job.pid)) == 1, 5, "a child")
        return children(job.pid)[0]

    def test_an_exec_takes_the_agent_away(self) -> None:
        """The new program is a process like any other: it gets an agent of its own."""
        with self.job() as job:
            for line in (*LIBRARIES, "cuda 1"):
                job.do(line)
            with self.tracer("-p", job.pid) as tracer:
                tracer.wait_until_recording()
                self.assertEqual(job.do("cuda 50")["failures"], "0")
                job.tell(f"exec {LiveTest.python} {live.HERE / 'cuda_job.py'}")
                job.lines.wait(r"READY", live.START_S)
                tracer.lines.wait(rf"^proftrace: recording PID {job.pid}, ", live.READY_S)
                for line in (*LIBRARIES, "agent"):
                    job.do(line)
                self.assertEqual(job.do(f"cuda {ROUNDS}")["failures"], "0")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        said = [agent["state"] for agent in result.summary["gpu"]["agents"]]
        self.assertEqual(len(said), 2, result.summary["gpu"]["agents"])
        self.assertEqual(said[1], "stopped")
        self.assertGreater(self.kernels(result)[job.pid], ROUNDS)

    def test_without_injection(self) -> None:
        for options in (("--no-inject",), ("--gpu", "launch"), ("--gpu", "off")):
            with self.subTest(options=options), self.job() as job:
                with Tracer("-p", job.pid, "-o", self.directory / options[-1], "--format", "events-csv", *options) as tracer:
                    tracer.wait_until_recording()
                    for line in (*LIBRARIES, "cuda 100"):
                        job.do(line)
                    self.assert_left_alone(job.pid)
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                result = Result(self.directory / options[-1])
                self.assertEqual(result.summary["proftrace"]["gpu"], "off" if options[-1] == "off" else "launch")

    def test_all_processes_also_later_ones(self) -> None:
        with self.job(fresh=True) as running, self.job(fresh=True) as waiting:
            for line in (*LIBRARIES, "cuda 1"):
                running.do(line)
            running.tell("cuda 2000")
            with self.tracer("-a") as tracer:
                tracer.wait_until_recording()  # it has its agent by then
                with self.job(fresh=True) as late:
                    for job in (waiting, late):
                        if job is late:
                            tracer.lines.wait(rf"^proftrace: recording PID {late.pid}, ", live.READY_S)
                        for line in (*LIBRARIES, "agent"):
                            job.do(line)
                        self.assertEqual(job.do(f"cuda {ROUNDS}")["failures"], "0")
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                    for job in (running, waiting, late):
                        self.assertEqual(memories(job.pid), [])
        result = Result(self.out)
        pids = {running.pid, waiting.pid, late.pid}
        self.assertEqual({pid: state for pid, state in self.agents(result).items() if pid in pids}, {pid: "stopped" for pid in pids})
        kernels = self.kernels(result)
        for pid in pids:
            self.assertGreater(kernels[pid], ROUNDS)

    def test_a_command_with_an_environment_of_its_own(self) -> None:
        """A child that was not given the variable by which a command brings its agent gets one like others."""
        program = (f"import os, subprocess, sys\nfor variable in ({{}}, {{'CUDA_INJECTION64_PATH': ''}}):\n"
                   f"    work = subprocess.Popen([sys.executable, {str(live.HERE / 'cuda_job.py')!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE,\n"
                   "        text=True, env={**os.environ, **variable})\n"
                   "    work.stdout.readline()\n"
                   f"    for line in ({LIBRARIES[0]!r}, {LIBRARIES[1]!r}, 'cuda 1', 'init', 'agent', 'cuda {ROUNDS}'):\n"
                   "        print(line, file=work.stdin, flush=True)\n"
                   "        print(work.pid, work.stdout.readline(), flush=True)\n"
                   "    work.stdin.close(); work.wait()\n")
        done = self.run_proftrace("-o", self.out, "--format", "events-csv", "--", self.python, "-c", program, env={**os.environ, **DOUBLES})
        self.assertEqual(done.returncode, 0, done.stderr)
        pids = {int(line.split()[0]) for line in done.stdout.splitlines() if "DONE" in line}
        self.assertEqual(done.stdout.count("failures=0"), 4, done.stdout)
        result = Result(self.out)
        kernels = self.kernels(result)
        self.assertEqual(set(kernels), pids, self.reasons(result))
        for pid in pids:
            self.assertGreater(kernels[pid], ROUNDS)


def children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


if __name__ == "__main__":
    if not CUPTI.exists():
        print(f"{CUPTI} was not built: CUPTI's headers were not found")
        raise SystemExit(live.SKIP)
    live.run(own_host=True)

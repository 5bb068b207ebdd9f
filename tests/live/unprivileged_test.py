#!/usr/bin/env python3
"""--tier patch without eBPF: a user without any right records his own job, and root with --no-bpf. Root starts both as that user."""

from __future__ import annotations

import collections
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

os.environ["PROFTRACE_LIVE_TIER"] = "patch"

import live  # noqa: E402
from live import Job, LiveTest, Result, Tracer  # noqa: E402

YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")
CACHE = tempfile.TemporaryDirectory(prefix="proftrace-user-")
# Without a word of what it is for, a process that waits until it is killed.
WAITS = "import ctypes, sys, time; libc = ctypes.CDLL(None); {} print('READY', flush=True); time.sleep(600)"


def capabilities(pid: int) -> int:
    return int(re.search(r"^CapEff:\s+(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE).group(1), 16)


def choose_python() -> None:
    """One that the user can start himself, not only by root's hand: the system's, with the same torch, where the other's home is root's."""
    def imports(python: str, **variables: str) -> bool:
        command = [*live.nobody(), "sh", "-c", '"$0" -c "import torch"', python]
        return subprocess.run(command, env=dict(os.environ, **variables), capture_output=True).returncode == 0

    if imports(LiveTest.python):
        return
    packages = subprocess.run([LiveTest.python, "-c", "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"],
                              capture_output=True, text=True, check=True).stdout.strip()
    LiveTest.python = "/usr/bin/python3"
    if imports(LiveTest.python, PYTHONPATH=packages):
        os.environ["PYTHONPATH"] = packages
    elif not imports(LiveTest.python):
        raise unittest.SkipTest(f"user {live.NOBODY} has no Python that imports torch")


class UserTest(LiveTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        choose_python()

    def setUp(self) -> None:
        super().setUp()
        os.chown(self.directory, live.NOBODY, live.NOBODY)
        os.chown(CACHE.name, live.NOBODY, live.NOBODY)
        # The user's own cache of plans.
        self.environment = {name: value for name, value in os.environ.items() if name != "PROFTRACE_CACHE_DIR"}
        self.environment["XDG_CACHE_HOME"] = CACHE.name

    def job(self) -> Job:
        return Job(prefix=live.nobody())

    def tracer(self, *arguments: object) -> Tracer:
        return Tracer(*arguments, prefix=live.nobody(), env=self.environment, cwd=self.directory)

    def assert_refused(self, code: int, arguments: tuple[object, ...], *words: str) -> None:
        self.assert_fails(code, arguments, *words, prefix=live.nobody(), env=self.environment)

    def assert_untouched(self, pid: int) -> None:
        self.assertEqual((live.patches(pid), live.changed_text_bytes(pid)), ([], 0))

    def gaps(self, result: Result) -> dict[str, str]:
        return {gap["feature"]: gap["reason"] for gap in result.summary["unsupported"]}

    def children_of(self, answer: dict[str, str]) -> dict[int, int]:
        """The steps that each child made; all with one result."""
        children = {}
        for words in answer["children"].split(","):
            pid, _, steps, distinct = words.split(":")
            self.assertEqual(distinct, "1")
            children[int(pid)] = int(steps)
        return children


class RecordTest(UserTest):
    def test_a_user_gets_the_table_of_his_own_job(self) -> None:
        with self.job() as job:
            with self.tracer("-p", job.pid, "-o", self.out, "--format", "table,csv,events-csv,chrome", "--profile-memory") as tracer:
                tracer.wait_until_recording()
                if len(live.nobody()) == 4:
                    self.assertEqual((capabilities(job.pid), capabilities(tracer.process.pid)), (0, 0))
                self.assertEqual(tracer.kernel_ids(), (set(), set()))
                self.assertEqual(len(live.patches(job.pid)), 1)
                answer = job.do("steps 200")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_untouched(job.pid)
            self.assert_same_results(answer)
        self.assertRegex(tracer.text(), r"eBPF cannot be used, so that only what jumps can see is recorded: [^\n]*CAP_BPF")
        result = Result(self.out)
        self.assert_lossless(result)
        names = result.names[job.pid]
        # What job.py does in a step.
        for name, count in (("aten::linear", 3), ("aten::relu", 3), ("aten::div", 6), ("AddmmBackward0", 3), ("ReluBackward0", 3)):
            self.assertEqual(names[name], 200 * count, name)
        self.assertGreater(names["[memory]"], 200)
        self.assertTrue(result.summary["memory"]["totals_known"])
        cost = result.summary["cost"]
        self.assertEqual((cost["probe_hits"], cost["jumps"] > 200 * 20, cost["ns_per_jump"] > 0), (0, True, True))
        gaps = self.gaps(result)
        self.assertIn("CAP_BPF", gaps["eBPF"])
        self.assertIn("found by looking", gaps["forks, execs and ends of processes"])
        self.assertIn("aten::linear", (self.out / "key_averages.txt").read_text())
        self.assertEqual({path.stat().st_uid for path in self.out.iterdir()}, {live.NOBODY})
        plans = Path(CACHE.name) / "proftrace"
        self.assertEqual((plans.stat().st_uid, plans.stat().st_mode & 0o777, any(plans.iterdir())), (live.NOBODY, 0o700, True))

    def test_the_counts_are_those_of_torch_profiler(self) -> None:
        command = [*live.nobody(), LiveTest.python, str(live.HERE / "profiled_job.py")]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment) as job:
            self.addCleanup(job.kill)
            pid = int(job.stdout.readline())
            with self.tracer("-p", pid, "-o", self.out, "--format", "csv") as tracer:
                tracer.wait_until_recording()
                print(file=job.stdin, flush=True)
                torch_counts = json.loads(job.stdout.readline())
                self.assertEqual(tracer.stop(), 0, tracer.text())
            print(file=job.stdin, flush=True)
            self.assertEqual(job.wait(live.STOP_S), 0)
        result = Result(self.out)
        self.assert_lossless(result)
        with (self.out / "key_averages.csv").open(newline="", encoding="utf-8") as stream:
            ours = {row["name"]: int(row["count"]) for row in csv.DictReader(stream)}
        # Annotations, which are boxed operators, and rows of at::RecordFunction may be among what is named as missing.
        may_miss = [re.compile(pattern) for kind, pattern in (("operators that are called boxed", r"Optimizer\.|ProfilerStep"),
                                                              ("rows of at::RecordFunction", r"[a-z_]+$"))
                    if any(gap.startswith(kind) for gap in self.gaps(result))]
        missing = {name: count for name, count in torch_counts.items()
                   if ours.get(name) != count and not (name not in ours and any(pattern.match(name) for pattern in may_miss))}
        self.assertEqual(missing, {}, ours)
        self.assertGreater(len(torch_counts), 40)

    def test_root_without_bpf(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--no-bpf") as tracer:
                tracer.wait_until_recording()
                self.assertEqual(tracer.kernel_ids(), (set(), set()))
                self.assert_same_results(job.do("steps 200"))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_untouched(job.pid)
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual(result.names[job.pid]["aten::linear"], 600)
        self.assertIn("--no-bpf", self.gaps(result)["eBPF"])

    def test_beside_anothers_probes(self) -> None:
        """Rows are whole or missing altogether."""
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.directory / "other", "--format", "events-csv", "--tier", "bpf") as first:
                first.wait_until_recording()
                with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--no-bpf") as second:
                    second.wait_until_recording()
                    self.assert_same_results(job.do("steps 100"))
                    self.assertEqual(second.stop(), 0, second.text())
                self.assertEqual(first.stop(), 0, first.text())
            self.assert_untouched(job.pid)
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual((result.ledger["unmatched_end"], result.ledger["truncated"]), (0, 0))
        theirs, ours = Result(self.directory / "other").names[job.pid], result.names[job.pid]
        # Some rows may be missing where a name has several functions.
        self.assertEqual({name: count for name, count in ours.items() if count > theirs[name]}, {})
        # Where the other one's probes are not where jumps go (Debian's build), nothing is.
        if any(name.startswith("aten::") and name not in ours for name in theirs):
            self.assertIn("operators and functions", self.gaps(result))

    def test_threads_that_come_and_go_are_told_apart(self) -> None:
        with self.job() as job:
            with self.tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                answer = job.do("threads 200")
                self.assertEqual(tracer.stop(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        counts = collections.Counter(row["tid"] for row in result.events() if row["name"] == "aten::linear")
        self.assertEqual(counts, collections.Counter({tid: 3 * count for tid, count in collections.Counter(answer["tids"].split(",")).items()}))

    def test_all_processes_of_the_user(self) -> None:
        """-a: his own are found; root's is counted among those that he may not look into."""
        with self.job() as job, Job() as other:
            with self.tracer("-a", "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                job.do("steps 20")
                other.do("steps 3")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assert_untouched(other.pid)
        result = Result(self.out)
        self.assertEqual(result.names[job.pid]["aten::linear"], 60)
        self.assertNotIn(other.pid, {target["pid"] for target in result.summary["target"]})
        self.assertIn("may not be looked into", self.gaps(result)["processes"])


class ChildrenTest(UserTest):
    def record(self, job: Job, *lines: str, but: tuple[str, ...] = ()) -> tuple[Result, list[dict[str, str]]]:
        return self.record_by(self.tracer("-p", job.pid, "-o", self.out, "--format", "events-csv"), job, *lines, but=but)

    def assert_child_recorded(self, result: Result, pid: int, steps: int) -> None:
        linear = result.names[pid]["aten::linear"]
        self.assertGreater(linear, 0, self.gaps(result))
        self.assertLessEqual(linear, 3 * steps)
        self.assertTrue({target["pid"]: target for target in result.summary["target"]}[pid]["followed"])

    def test_forked_children(self) -> None:
        with self.job() as job:
            result, (answer,) = self.record(job, "fork 2 4")
            for pid, steps in self.children_of(answer).items():
                self.assert_child_recorded(result, pid, steps)
            gap = self.gaps(result)["start of children"]
            self.assertRegex(gap, r"^2 forked processes")
            print(gap, file=sys.stderr)

    def test_grandchildren(self) -> None:
        """They live for a second, in which a busy machine may not get to them."""
        with self.job() as job:
            result, answers = self.record(job, *["grandchild"] * 4, but=("follow_failed",))
            probed = [target for target in result.summary["target"] if target["operators_probed"] > 0]
            self.assertLessEqual(len(probed) + result.ledger["follow_failed"], 1 + 2 * 4)
            recorded = 0
            for answer in answers:
                (pid, steps), = self.children_of(answer).items()
                recorded += result.names[pid]["aten::linear"] > 0
                self.assertLessEqual(result.names[pid]["aten::linear"], 3 * steps)
            self.assertGreater(recorded, 0, self.gaps(result))

    def test_data_loader_workers(self) -> None:
        """Likewise."""
        with self.job() as job:
            expected = job.do("workers fork")["total"]
            result, answers = self.record(job, *["workers fork"] * 4)
            counts = []
            for answer in answers:
                self.assertEqual(answer["total"], expected)
                counts += [result.names[int(worker)]["aten::sqrt"] for worker in answer["workers"].split(",")]
            # Half of 400 items each, less those from before its ring was there.
            self.assertTrue(0 < max(counts) <= 200, (counts, self.gaps(result)))

    def test_spawned_children(self) -> None:
        with self.job() as job:
            result, (answer,) = self.record(job, "spawn 3")
            (pid, steps), = self.children_of(answer).items()
            self.assert_child_recorded(result, pid, steps)

    def test_a_storm_of_short_children_harms_nothing(self) -> None:
        with self.job() as job:
            result, answers = self.record(job, "steps 1", "storm 200", "steps 5", but=("follow_failed",))
            self.assert_same_results(answers[2])
            self.assertEqual(result.names[job.pid]["aten::linear"], 18)
            self.assert_untouched(job.pid)


class EndTest(UserTest):
    def test_the_end_of_the_target(self) -> None:
        for kill in (False, True):
            with self.job() as job:
                out = self.directory / f"kill-{kill}"
                with self.tracer("-p", job.pid, "-o", out, "--format", "events-csv") as tracer:
                    tracer.wait_until_recording()
                    self.assert_same_results(job.do("steps 100"))
                    if kill:
                        job.process.kill()
                    else:
                        self.assertEqual(job.end(), 0)
                    self.assertEqual(tracer.wait(), 0, tracer.text())
                result = Result(out)
                self.assert_lossless(result)
                self.assertEqual(result.names[job.pid]["aten::linear"], 300)

    def test_an_exec_in_the_middle(self) -> None:
        with self.job() as job:
            with self.tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(job.do("steps 100"))
                job.tell(f"exec {LiveTest.python} {live.JOB}")
                job.lines.wait(rf"READY {job.pid}", live.START_S)
                live.wait_until(lambda: bool(live.patches(job.pid)), live.READY_S, "jumps in the new program")
                live.wait_until(lambda: live.changed_text_bytes(job.pid) > 10_000, live.READY_S, "jumps in the new program")
                self.assert_same_results(job.do("steps 10"))
                self.assertEqual(job.end(), 0)
                self.assertEqual(tracer.wait(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        # With the first step of the new program, or a part of it, where its jumps were there already.
        self.assertTrue(330 <= result.names[job.pid]["aten::linear"] <= 333)

    def test_a_killed_tracer_is_cleaned_up_after(self) -> None:
        with self.job() as job:
            before = job.do("fds")["fds"]
            for delay_s in (0.0, 0.05, 0.3):
                with self.tracer("-p", job.pid, "-o", self.directory / f"result{delay_s}", "--format", "none") as tracer:
                    live.wait_until(lambda: bool(live.patches(job.pid)), live.READY_S, "patched")
                    time.sleep(delay_s)
                    tracer.process.kill()
                    tracer.process.wait()
                live.wait_until(lambda: not live.patches(job.pid), live.STOP_S, "cleaned by the guardian")
                self.assert_untouched(job.pid)
            self.assertEqual(job.do("fds")["fds"], before)
            self.assert_same_results(job.do("steps 20"))

    def test_clean_by_the_user(self) -> None:
        """With the guardian killed as well, he cleans up himself."""
        with self.job() as job:
            with self.tracer("-p", job.pid, "-o", self.out, "--format", "none") as tracer:
                tracer.wait_until_recording()
                children = Path(f"/proc/{tracer.process.pid}/task/{tracer.process.pid}/children").read_text().split()
                for child in map(int, children):
                    if Path(f"/proc/{child}/comm").read_text() == "proftrace-guard\n":
                        os.kill(child, signal.SIGKILL)
                tracer.process.kill()
                tracer.process.wait()
            self.assertGreater(live.changed_text_bytes(job.pid), 10_000)
            done = self.run_proftrace("clean", "-p", job.pid, prefix=live.nobody(), env=self.environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assert_untouched(job.pid)
            self.assert_same_results(job.do("steps 20"))


class RefusedTest(UserTest):
    def waiting(self, first: str, prefix: tuple[str, ...]) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([*prefix, LiveTest.python, "-c", WAITS.format(first)], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"READY\n")
        return process

    def test_a_process_of_another_user(self) -> None:
        with Job() as job:
            self.assert_refused(4, ("-p", job.pid, "-d", "1"), "belongs to user 0", "sudo")
            self.assert_untouched(job.pid)

    def test_one_that_is_not_dumpable(self) -> None:
        self.assert_refused(4, ("-p", self.waiting("libc.prctl(4, 0);", live.nobody()).pid, "-d", "1"), "PR_SET_DUMPABLE")

    @unittest.skipUnless(YAMA.exists(), "this kernel has no Yama")
    def test_ptrace_scope(self) -> None:
        before = YAMA.read_text()
        self.addCleanup(YAMA.write_text, before)
        with self.job() as job:
            YAMA.write_text("1\n")
            self.assert_refused(4, ("-p", job.pid, "-d", "1"), "kernel.yama.ptrace_scope is 1", "PR_SET_PTRACER")
            self.assert_untouched(job.pid)

    def test_a_filter_that_the_user_may_not_read(self) -> None:
        filtered = (*live.nobody(), LiveTest.python, "-c",
                    "import ctypes, os, struct, sys; libc = ctypes.CDLL(None)\n"
                    "code = ctypes.create_string_buffer(struct.pack('HBBI', 0x06, 0, 0, 0x7fff0000))\n"
                    "program = struct.pack('HxxxxxxP', 1, ctypes.addressof(code))\n"
                    "assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0\n"
                    "os.execv(sys.argv[1], sys.argv[1:])")
        with Job(prefix=filtered) as job:
            self.assert_refused(4, ("-p", job.pid, "-d", "1"), "seccomp")
            self.assert_untouched(job.pid)
            self.assert_same_results(job.do("steps 3"))

    def test_one_that_root_records(self) -> None:
        with self.job() as job:
            with Tracer("-p", job.pid, "-o", self.directory / "root", "--format", "none") as first:
                first.wait_until_recording()
                self.assert_fails(4, ("-p", job.pid, "-d", "1", "-o", self.directory / "second"), "patched|records it",
                                  str(first.process.pid), prefix=live.nobody(), env=self.environment)
                self.assertEqual(first.stop(), 0, first.text())
            self.assert_untouched(job.pid)
            self.assert_same_results(job.do("steps 3"))

    def test_what_needs_ebpf(self) -> None:
        with self.job() as job:
            for arguments in (("--sample", "99Hz"), ("--activities", "cpu,syscalls"), ("--activities", "sched")):
                self.assert_fails(4, ("-p", job.pid, "-d", "1", *arguments), arguments[0], "eBPF", "CAP_BPF",
                                  prefix=live.nobody(), env=self.environment)
                self.assert_fails(2, ("-p", job.pid, "-d", "1", "--no-bpf", *arguments), arguments[0], "eBPF", "--no-bpf")
            self.assert_refused(4, ("-p", job.pid, "-d", "1", "--tier", "bpf"), "CAP_BPF", "--tier patch")
            self.assert_fails(2, ("-p", job.pid, "-d", "1", "--no-bpf", "--tier", "bpf"), "--no-bpf")
            self.assert_untouched(job.pid)


class DoctorTest(UserTest):
    def checks(self, *arguments: object) -> tuple[int, dict[str, dict[str, object]]]:
        done = self.run_proftrace("doctor", "--json", *arguments, prefix=live.nobody(), env=self.environment)
        return done.returncode, {check["name"]: check for check in json.loads(done.stdout)["checks"]}

    def test_it_says_what_is_possible_without_root(self) -> None:
        with self.job() as job:
            code, checks = self.checks("-p", job.pid)
        self.assertEqual((code, checks["tier bpf"]["ok"], checks["tier patch"]["ok"]), (4, False, True))
        self.assertIn("CAP_BPF", checks["BPF programs"]["detail"])
        self.assertIn("without eBPF", checks["tier patch"]["detail"])
        self.assertTrue(checks["jumps (--tier patch)"]["ok"], checks["jumps (--tier patch)"])
        self.assertIn("not recorded", checks["jumps (--tier patch)"]["detail"])
        self.assertIn("no eBPF", checks["tier auto, the default"]["detail"])

    def test_of_another_users_process(self) -> None:
        with Job() as job:
            code, checks = self.checks("-p", job.pid)
        self.assertEqual(code, 4)
        self.assertFalse(checks["jumps (--tier patch)"]["ok"])
        self.assertIn("belongs to user 0", checks["jumps (--tier patch)"]["detail"])


if __name__ == "__main__":
    live.run(own_host=True)

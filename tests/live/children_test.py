#!/usr/bin/env python3
"""Forks, spawns, execs and threads while a job is recorded."""

from __future__ import annotations

import collections
import os
import pwd
import signal
import sys
import subprocess
import time
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

# Children work for a second; on a quiet machine their probes are live 0.1 s after the fork.
LATEST_PROBES_S = 0.7


class ChildrenTest(LiveTest):
    def record(self, job: Job, *lines: str, options: tuple[str, ...] = (), but: tuple[str, ...] = ()) -> tuple[Result, list[dict[str, str]]]:
        return self.record_by(Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", *options), job, *lines, but=but)

    def spans_by_pid(self, result: Result) -> dict[int, list[dict[str, str]]]:
        spans: dict[int, list[dict[str, str]]] = collections.defaultdict(list)
        for row in result.events():
            spans[int(row["pid"])].append(row)
        return spans

    def targets(self, result: Result) -> dict[int, dict[str, object]]:
        return {target["pid"]: target for target in result.summary["target"]}

    def children_of(self, answer: dict[str, str]) -> dict[int, tuple[int, int]]:
        """Of each child: when it began (ns since the Unix epoch) and the steps it made; all with one result."""
        children = {}
        for words in answer["children"].split(","):
            pid, began_ns, steps, distinct = words.split(":")
            self.assertEqual(distinct, "1")
            children[int(pid)] = (int(began_ns), int(steps))
        return children

    def assert_child_recorded(self, result: Result, pid: int, began_ns: int, steps: int) -> float:
        """Its later steps are there, whole; how long after its beginning the first event came, in seconds."""
        spans = self.spans_by_pid(result)[pid]
        recorded = sum(row["name"] == "forward" for row in spans)
        gap_s = (min(int(row["start_ns"]) for row in spans) - began_ns) * 1e-9
        self.assertLess(gap_s, LATEST_PROBES_S)
        self.assertGreater(recorded, 0)
        self.assertLessEqual(recorded, steps)
        self.assertTrue(self.targets(result)[pid]["followed"])
        # Each whole step has three layers below its annotation.
        linear = sum(row["path"] == "forward/aten::linear" for row in spans)
        self.assertLessEqual(abs(linear - 3 * recorded), 3)
        return gap_s

    def test_forked_children_are_recorded(self) -> None:
        with Job() as job:
            result, (answer,) = self.record(job, "fork 2")
            children = self.children_of(answer)
            self.assertEqual(len(children), 2)
            for pid, (began_ns, steps) in children.items():
                gap_s = self.assert_child_recorded(result, pid, began_ns, steps)
                print(f"first event of a forked child after {gap_s * 1e3:.0f} ms", file=sys.stderr)

    def test_each_of_many_children_in_a_row_is_recorded(self) -> None:
        with Job() as job:
            result, answers = self.record(job, *["fork 1 0.5"] * 8)
            spans = self.spans_by_pid(result)
            gaps_ms = []
            for answer in answers:
                (pid, (began_ns, _)), = self.children_of(answer).items()
                self.assertIn(pid, spans)
                gaps_ms.append((int(spans[pid][0]["start_ns"]) - began_ns) * 1e-6)
            print("first events after", ", ".join(f"{gap:.0f}" for gap in gaps_ms), "ms", file=sys.stderr)

    def test_a_child_that_has_its_parents_memory_is_left_alone(self) -> None:
        """Until it runs a program, what is done to it is done to its parent."""
        fifo = self.directory / "fifo"
        os.mkfifo(fifo)
        with Job() as job:
            job.tell(f"vfork {fifo}")
            live.wait_until(lambda: Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text() or len(os.listdir(f"/proc/{job.pid}/task")) > 2, 20,
                            "a thread that waits for its child")
            time.sleep(0.3)
            for number in range(3):
                out = self.directory / f"r{number}"
                with Tracer("-p", job.pid, "-o", out, "--format", "events-csv") as tracer:
                    tracer.wait_until_recording()
                    time.sleep(0.3)
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                result = Result(out)
                self.assert_lossless(result)
                self.assertEqual(result.ledger["end_lost"], 0)
                self.assertEqual(set(self.spans_by_pid(result)), {job.pid})
                self.assertEqual(live.changed_text_bytes(job.pid), 0)
            fifo.write_bytes(b"")
            answer = job.finish_loop()
            self.assert_same_results(answer)
            self.assertEqual((answer["spawned"], answer["status"]), ("0", "0"))
            self.assertEqual(job.end(), 0)

    def test_grandchildren_are_recorded(self) -> None:
        with Job() as job:
            result, (answer,) = self.record(job, "grandchild")
            (pid, (began_ns, steps)), = self.children_of(answer).items()
            self.assert_child_recorded(result, pid, began_ns, steps)

    def test_children_that_are_there_at_the_attach_are_recorded(self) -> None:
        with Job() as job:
            job.tell("fork 2 4")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                answer = job.answer()
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
            self.assert_lossless(result)
            recorded = self.spans_by_pid(result)
            for pid in self.children_of(answer):
                self.assertIn(pid, self.targets(result))
                self.assertTrue(self.targets(result)[pid]["followed"])
            self.assertTrue(set(recorded) <= set(self.children_of(answer)), recorded.keys())

    def test_a_child_may_be_named_beside_its_parent(self) -> None:
        with Job() as job:
            child = int(job.do("park 1")["pids"])
            try:
                for tier in ("bpf", "patch"):
                    out = self.directory / tier
                    with Tracer("-p", job.pid, "-p", child, "--tier", tier, "-o", out, "--format", "events-csv") as tracer:
                        tracer.wait_until_recording()
                        job.do("steps 2")
                        self.assertEqual(tracer.stop(), 0, tracer.text())
                    result = Result(out)
                    self.assert_lossless(result)
                    self.assertEqual(sorted(target["pid"] for target in result.summary["target"]), sorted([job.pid, child]), tier)
                    self.assertEqual(set(self.spans_by_pid(result)), {job.pid}, tier)
            finally:
                os.kill(child, signal.SIGKILL)

    def test_without_follow_children_only_the_job_is_recorded(self) -> None:
        with Job() as job:
            result, (_, answer) = self.record(job, "steps 2", "fork 1", options=("--no-follow-children",))
            self.assertEqual(len(self.children_of(answer)), 1)
            self.assertEqual(set(self.spans_by_pid(result)), {job.pid})
            self.assertEqual(set(self.targets(result)), {job.pid})

    def test_data_loader_workers_are_recorded(self) -> None:
        with Job() as job:
            expected = job.do("loader")["total"]
            result, (answer,) = self.record(job, "loader")
            self.assertEqual(answer["total"], expected)
            workers = [int(pid) for pid in answer["workers"].split(",")]
            self.assertTrue(set(workers) <= set(self.targets(result)), self.targets(result).keys())

    def test_spawned_children_are_recorded(self) -> None:
        self.check_spawned("spawn 1.5")

    def test_spawned_children_are_recorded_beside_many_helpers(self) -> None:
        self.check_spawned("helpers 4")

    def check_spawned(self, work: str) -> None:
        with Job() as job:
            result, (answer,) = self.record(job, work)
            self.assertEqual(answer["code"], "0")
            (pid, _), = self.children_of(answer).items()
            spans = self.spans_by_pid(result)[pid]
            self.assertGreater(sum(row["name"] == "forward" for row in spans), 0)

    def test_a_storm_of_short_children_harms_nothing(self) -> None:
        with Job() as job:
            result, answers = self.record(job, "steps 1", "storm 200", "steps 5", "fork 1", but=("follow_failed",))
            self.assert_same_results(answers[2])
            self.assert_ended_early(result, 200)
            spans = self.spans_by_pid(result)
            self.assertEqual(sum(row["name"] == "step" for row in spans[job.pid]), 6)
            (pid, (began_ns, steps)), = self.children_of(answers[3]).items()
            self.assert_child_recorded(result, pid, began_ns, steps)

    def assert_ended_early(self, result: Result, count: int) -> set[int]:
        """Of `count` children each had all probes, or is counted; the PIDs of those that had. All others go on."""
        targets = self.targets(result)
        self.assertTrue(all(target["comm"] for target in targets.values()))
        probed = {pid for pid, target in targets.items() if target["operators_probed"] > 0}
        early = result.ledger["follow_failed"]
        self.assertGreater(early, 0)
        self.assertLessEqual(early, count)
        gaps = {gap["feature"]: gap["reason"] for gap in result.summary["unsupported"]}
        self.assertRegex(gaps["short-lived children"], rf"^{early} forked process(es)? ended before all probes were live; ")
        return probed

    def test_children_that_end_before_their_probes_are_live_are_counted(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--strict") as tracer:
                tracer.wait_until_recording()
                pids = {int(pid) for pid in job.do("short 12")["pids"].split(",")}
                self.assert_same_results(job.do("steps 2"))
                self.assertEqual(tracer.stop(), 9, tracer.text())
            result = Result(self.out)
            self.assert_lossless(result, but=("follow_failed",))
            probed = self.assert_ended_early(result, len(pids))
            self.assertEqual(result.ledger["follow_failed"], len(pids - probed))
            self.assertTrue(set(self.spans_by_pid(result)) <= probed)

    def test_children_that_run_other_programs_are_no_loss(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--strict") as tracer:
                tracer.wait_until_recording()
                for line in ("programs 20", "workers fork", "steps 2"):
                    job.do(line)
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
            self.assert_lossless(result)
            self.assertNotIn("short-lived children", [gap["feature"] for gap in result.summary["unsupported"]])

    def test_threads_that_come_and_go_are_told_apart(self) -> None:
        with Job() as job:
            result, (answer,) = self.record(job, "threads 200")
            tids = answer["tids"].split(",")
            rows = [row for row in result.events() if row["path"] == "forward"]
            self.assertEqual(len(rows), 200)
            counts = collections.Counter(row["tid"] for row in rows)
            self.assertEqual(counts, collections.Counter(tids))
            self.assertEqual({row["pid"] for row in rows}, {str(job.pid)})


class ExecTest(LiveTest):
    def test_a_program_with_torch_after_an_exec_is_recorded(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                links = tracer.probe_links()
                self.assertTrue(links)
                written = live.changed_text_bytes(job.pid)
                job.do("steps 100")  # the last ones after their names were read
                job.tell(f"exec {LiveTest.python} {live.JOB}")
                job.lines.wait(rf"READY {job.pid}", live.START_S)
                # Its probes are live some time after it has loaded PyTorch; the old program's may be there until then.
                live.wait_until(lambda: len(tracer.probe_links() - links) >= len(links), live.READY_S, "probes in the new program")
                if live.by_jumps():  # they come after the probes
                    live.wait_until(lambda: live.changed_text_bytes(job.pid) > 0.9 * written, live.READY_S, "jumps in the new program")
                self.assert_same_results(job.do("steps 10"))
                self.assertEqual(job.end(), 0)
                self.assertEqual(tracer.wait(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        steps = sum(row["path"] == "step" for row in result.events())
        self.assertGreaterEqual(steps, 110)

    def test_a_program_without_torch_after_an_exec_is_left_alone(self) -> None:
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                job.do("steps 100")  # the last ones after their names were read
                job.tell("exec /bin/cat /dev/null")
                self.assertEqual(job.process.wait(live.STOP_S), 0)
                self.assertEqual(tracer.wait(), 0, tracer.text())
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertEqual(sum(row["path"] == "step" for row in result.events()), 100)


class CommandTest(LiveTest):
    def record_command(self, *command: str) -> tuple[int, str, str]:
        done = self.run_proftrace("-o", self.out, "--format", "events-csv", "--", *command)
        return done.returncode, done.stdout, done.stderr

    def test_the_operators_of_a_command_and_of_its_children_are_recorded(self) -> None:
        program = ("import torch, time\nx = torch.ones(4, 4)\nend = time.monotonic() + 1.5\n"
                   "while time.monotonic() < end:\n"
                   "  with torch.autograd.profiler.record_function('mine'): torch.mm(x, x)\n"
                   "print('done')\n")
        for command in ((LiveTest.python, "-c", program), ("sh", "-c", '"$0" -c "$1"; exit 3', LiveTest.python, program)):
            code, stdout, stderr = self.record_command(*command)
            self.assertEqual(code, 0, stderr)
            self.assertIn("done", stdout)
            result = Result(self.out)
            self.assert_lossless(result)
            paths = collections.Counter(row["path"] for row in result.events())
            self.assertGreater(paths["mine/aten::mm"], 100, paths.most_common(5))
            self.out.rename(self.directory / f"result-of-{command[0].replace('/', '-')}")

    def test_a_command_under_sudo_is_its_callers(self) -> None:
        user = pwd.getpwnam("nobody")
        sudo = {**os.environ, "SUDO_UID": str(user.pw_uid), "SUDO_GID": str(user.pw_gid), "SUDO_USER": user.pw_name,
                "HOME": "/root", "USER": "root"}
        program = ("import os\nprint(os.getresuid(), os.getresgid(), os.getgroups(), os.environ['HOME'], os.environ['USER'],"
                   " any(name.startswith('SUDO_') for name in os.environ))\n"
                   "print(open('/proc/self/status').read().split('CapEff:\\t')[1].split()[0])\n")
        for options, seen in ((), [f"({user.pw_uid}, {user.pw_uid}, {user.pw_uid}) ({user.pw_gid}, {user.pw_gid}, {user.pw_gid}) "
                                   f"{[user.pw_gid]} {user.pw_dir} nobody False", "0000000000000000"]), (("--as-root",), None):
            done = self.run_proftrace("-o", self.directory / f"of{len(options)}", "--activities", "sched", *options, "--",
                                      "/usr/bin/python3", "-c", program, env=sudo)
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = done.stdout.splitlines()
            if seen is not None:
                self.assertEqual(lines[:2], seen)
            else:
                self.assertTrue(lines[0].startswith("(0, 0, 0)"), lines)

    def test_no_operator_of_a_short_command_is_missed(self) -> None:
        program = ("import torch, os\nx = torch.ones(4, 4)\nfor _ in range(50):\n"
                   "  with torch.autograd.profiler.record_function('mine'): torch.mm(x, x)\n"
                   "print(os.getpid(), float(torch.mm(x, x).sum()))\n")
        no_plans = {"PROFTRACE_CACHE_DIR": str(self.directory / "empty")}
        for number, (command, environment) in enumerate((
                ((LiveTest.python, "-c", program), {}),
                ((LiveTest.python, "-c", program), no_plans),
                (("sh", "-c", '"$0" -c "$1"; exit 3', LiveTest.python, program), {}))):
            out = self.directory / f"short{number}"
            done = self.run_proftrace("-o", out, "--format", "events-csv", "--", *command,
                                      env=dict(os.environ, **environment))
            self.assertEqual(done.returncode, 0, done.stderr)
            pid, total = done.stdout.split()[:2]
            self.assertEqual(total, "64.0")
            self.assertIn(f"recording PID {pid}, ", done.stderr)
            result = Result(out)
            self.assert_lossless(result)
            counts = collections.Counter(row["path"] for row in result.events())
            self.assertEqual((counts["mine/aten::mm"], counts["aten::mm"]), (50, 1), counts.most_common(5))

    def torch_with_headers(self) -> list[str]:
        """Its directory, and whether it has the strings of C++11. Debian's has no headers."""
        find = ("import torch, os; where = os.path.dirname(torch.__file__)\n"
                "if os.path.exists(where + '/include/ATen/ATen.h'): print(where, int(torch._C._GLIBCXX_USE_CXX11_ABI))")
        for python in filter(None, (LiveTest.python, os.environ.get("PROFTRACE_WHEEL_PYTHON"))):
            found = subprocess.run([python, "-c", find], capture_output=True, text=True).stdout.split()
            if found:
                return found
        self.skipTest("no torch with headers (PROFTRACE_WHEEL_PYTHON)")

    def test_no_operator_of_a_program_without_python_is_missed(self) -> None:
        """Its first operator comes a tenth of a second after its libraries have registered theirs."""
        torch, new_strings = self.torch_with_headers()
        program = self.directory / "products"
        source = ("#include <ATen/ATen.h>\n#include <cstdio>\nint main() {\n  auto x = at::ones({4, 4});\n  for (int i = 0; i < 50; ++i) at::mm(x, x);\n"
                  "  std::printf(\"%g\\n\", at::mm(x, x).sum().item<float>());\n}\n")
        subprocess.run(["g++", "-std=c++20", f"-D_GLIBCXX_USE_CXX11_ABI={new_strings}", f"-I{torch}/include", "-xc++", "-", "-xnone",
                        "-o", str(program), f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib", "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10"],
                       input=source, text=True, check=True)
        for number, command in enumerate((("{}",), ("sh", "-c", "{}; exit 5"))):
            out = self.directory / f"without_python{number}"
            done = self.run_proftrace("-o", out, "--format", "events-csv", "--", *(word.format(program) for word in command))
            self.assertEqual((done.returncode, done.stdout), (0, "64\n"), done.stderr)
            result = Result(out)
            self.assert_lossless(result)
            counts = collections.Counter((row["path"], row["overload_name"]) for row in result.events())
            self.assertEqual(counts["aten::mm", ""], 51, counts.most_common(5))

    def test_a_killed_tracer_leaves_a_command_that_it_held_running(self) -> None:
        begun = self.directory / "begun"
        program = (f"open({str(begun)!r}, 'w').close()\nimport torch\nx = torch.ones(4, 4)\nfor _ in range(50): torch.mm(x, x)\n"
                   f"open({str(self.directory / 'done')!r}, 'w').write(str(float(torch.mm(x, x).sum())))\n")
        finished = self.directory / "done"
        for delay_s in (0.0, 0.3, 0.6, 1.0, 1.6):  # some of them fall into the moment in which it is stopped
            finished.unlink(missing_ok=True)
            begun.unlink(missing_ok=True)
            with Tracer("-o", self.directory / f"killed{delay_s}", "--", LiveTest.python, "-c", program) as tracer:
                live.wait_until(begun.exists, live.START_S, "the command's begin")
                time.sleep(delay_s)
                tracer.process.kill()
                tracer.process.wait()
                live.wait_until(lambda: finished.exists() and finished.read_text() == "64.0", 60, "the command's end")

    def test_a_command_that_does_not_exist_is_2(self) -> None:
        code, stdout, stderr = self.record_command("no-such-command")
        self.assertEqual((code, stdout), (2, ""))
        self.assertIn("cannot run 'no-such-command': No such file or directory", stderr)
        self.assertFalse(self.out.exists())

    def test_a_command_that_may_not_be_run_is_2(self) -> None:
        (self.directory / "text").write_text("no program")
        code, _, stderr = self.record_command(str(self.directory / "text"))
        self.assertEqual(code, 2)
        self.assertIn("Permission denied", stderr)

    def test_a_command_without_torch_is_5(self) -> None:
        code, stdout, stderr = self.record_command("echo", "hello")
        self.assertEqual((code, stdout), (5, "hello\n"))
        self.assertRegex(stderr.splitlines()[-1], "PyTorch")
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    live.run()

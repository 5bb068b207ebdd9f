#!/usr/bin/env python3
"""Injection at a safe point (userspace/inject): into programs of every kind, again and again, killed at any moment and at each step.

PROFTRACE_KILL_POINTS=all: at every step; else a sample of them.
"""

from __future__ import annotations

import collections
import os
import random
import re
import signal
import subprocess
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import live

TOOLS = Path(os.environ.get("PROFTRACE_INJECTION", live.BINARY.parents[1] / "tests/support/injection"))
LIBRARY = TOOLS / "libinjected.so"
PLACE = "injection_target:safe_point"
STOP_LIMIT_US = 10_000.0
CYCLES = 12
KILLS = 30
POINTS = 6
USUAL_STEPS = 150
KILL_POINTS = os.environ.get("PROFTRACE_KILL_POINTS")
# What hostile.c does, and injections into it; with PROFTRACE_ALL ten times as many.
HOSTILE = {"alone": 20, "threads": 20, "threads,starts": 10, "threads,sequences": 10, "threads,handlers": 20, "alone,handlers": 5}
MANY = 10 if os.environ.get("PROFTRACE_ALL") else 1
WAITS = ("nanosleep", "clock_nanosleep", "poll", "ppoll", "select", "futex", "read", "write", "wait4", "vfork", "posix_spawn")
INTERRUPTED_WAITS = ("epoll_wait", "sigtimedwait", "recv_with_a_timeout")  # signal(7)


def libraries(pid: int) -> list[str]:
    """What is mapped, but for the heap and stacks, which grow by themselves."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return sorted({line.split(maxsplit=5)[5] for line in lines if len(line.split()) > 5 and "memfd:" not in line})


def regions(pid: int) -> int:
    """Code that belongs to no file: what an injection maps."""
    return sum(1 for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if " r-xp 00000000 00:00 0" in line and "[" not in line)


def text_is_private(pid: int) -> int:
    """kB of the program's own code that are not the file's pages any more."""
    smaps = Path(f"/proc/{pid}/smaps").read_text()
    code = re.search(r"r-xp [^\n]*injection_target\n(.*?)(?=\n[0-9a-f]+-|\Z)", smaps, re.S)
    return int(re.search(r"Anonymous:\s+(\d+)", code[1])[1])


class Target:
    """A program that runs for `seconds` and then says whether all was right."""

    def __init__(self, kind: str, seconds: float, program: str = "injection_target"):
        command = [str(TOOLS / program), kind, str(seconds)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *unused: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def verdict(self) -> tuple[int, int]:
        """Exit code and failures; -1 when it did not come to say."""
        text = self.process.stdout.read()
        found = re.search(r"failures (\d+)", text)
        return self.process.wait(), int(found[1]) if found else -1


HOSTILE_PLACE = "hostile:state_point"


def inject(pid: int, function: str = "injected", place: str = PLACE, library: Path = LIBRARY, **more: str) -> dict[str, str]:
    run = subprocess.run([TOOLS / "inject", library, function, str(pid), place], capture_output=True, text=True, timeout=60,
                         env={**os.environ, **more})
    return dict(line.split(maxsplit=1) for line in run.stdout.splitlines())


class InjectionTest(unittest.TestCase):
    def check_cycles(self, kind: str) -> None:
        with Target(kind, 600) as target:
            inject(target.pid)
            before = libraries(target.pid), len(os.listdir(f"/proc/{target.pid}/fd"))
            stops = []
            for cycle in range(CYCLES):
                answer = inject(target.pid)
                # The same copy of the library is used again.
                self.assertEqual(answer.get("result"), str(cycle + 2), answer)
                stops.append(float(answer["stop_us"]))
                time.sleep(random.random() * 0.01)
            self.assertEqual((libraries(target.pid), len(os.listdir(f"/proc/{target.pid}/fd"))), before)
            self.assertEqual(regions(target.pid), 0)
            self.assertEqual(text_is_private(target.pid), 0)
            self.assertLess(sorted(stops)[len(stops) // 2], STOP_LIMIT_US)
            self.assertIsNone(target.process.poll())

    def check_to_the_end(self, kind: str, seconds: float = 1.7) -> list[dict[str, str]]:
        answers = []
        with Target(kind, 600) as target:
            end = time.monotonic() + seconds
            while time.monotonic() < end or len(answers) < 3:
                answers.append(inject(target.pid))
            target.process.terminate()
            self.assertEqual(target.verdict(), (0, 0))
        return answers

    def test_again_and_again(self) -> None:
        for kind in ("plain", "threads"):
            with self.subTest(kind=kind):
                self.check_cycles(kind)

    def test_results_stay_right(self) -> None:
        for kind in ("threads", "signals", "threads,signals", "forks", "threads,forks", "sleeps"):
            with self.subTest(kind=kind):
                answers = self.check_to_the_end(kind)
                self.assertEqual([answer for answer in answers if "result" not in answer], [])

    def test_idle(self) -> None:
        with Target("idle", 2.5) as target:
            answer = inject(target.pid, ARRIVAL_LIMIT_MS="300")
            self.assertIn("came by", answer["error"])
            self.assertEqual((regions(target.pid), text_is_private(target.pid)), (0, 0))
            self.assertNotIn("memfd", "".join(os.readlink(link) for link in Path(f"/proc/{target.pid}/fd").iterdir()))
            self.assertEqual(target.verdict(), (0, 0))

    def test_first_thread_has_ended(self) -> None:
        with Target("threads,headless", 1.5) as target:
            live.wait_until(lambda: "Z" in Path(f"/proc/{target.pid}/stat").read_text(), 5, "the first thread's end")
            self.assertIn("its first thread has", inject(target.pid)["error"])
            self.assertEqual(target.verdict(), (0, 0))

    def test_function_that_does_not_exist(self) -> None:
        with Target("threads", 2) as target:
            self.assertIn("undefined symbol: nothing", inject(target.pid, function="nothing")["error"])
            self.assertEqual(regions(target.pid), 0)
            self.assertEqual(target.verdict(), (0, 0))

    def test_no_safe_point(self) -> None:
        with Target("threads", 1) as target:
            self.assertIn("no safe point", inject(target.pid, place="injection_target:nothing")["error"])
            self.assertEqual(target.verdict(), (0, 0))

    def test_seccomp(self) -> None:
        self.assertEqual([answer for answer in self.check_to_the_end("threads,docker") if "result" not in answer], [])
        for kind in ("threads,deny", "threads,kill"):
            with self.subTest(kind=kind):
                answers = self.check_to_the_end(kind, 0.7)
                self.assertEqual({"memfd_create" in answer.get("error", "") for answer in answers}, {True}, answers)

    def test_a_filter_that_comes_later(self) -> None:
        """What is mapped stays where taking it away would kill the process."""
        with Target("idle,late", 600) as target:
            tool = subprocess.Popen([TOOLS / "inject", LIBRARY, "injected", str(target.pid), PLACE], stdout=subprocess.PIPE, text=True,
                                    env=dict(os.environ, ARRIVAL_LIMIT_MS="3000"))
            while regions(target.pid) == 0:
                self.assertIsNone(tool.poll())
            target.process.send_signal(signal.SIGUSR1)
            answer = tool.communicate(timeout=60)[0]
            self.assertRegex(answer, "stay mapped in it: .* munmap")
            self.assertEqual(regions(target.pid), 1)
            target.process.terminate()
            self.assertEqual(target.verdict(), (0, 0))

    def test_static_program(self) -> None:
        with Target("threads", 1.5, "injection_target_static") as target:
            self.assertIn("no glibc", inject(target.pid)["error"])
            self.assertEqual(target.verdict(), (0, 0))

    @unittest.skipUnless((TOOLS / "injection_target_musl").exists(), "musl-gcc was not found")
    def test_musl_program(self) -> None:
        with Target("threads", 1.5, "injection_target_musl") as target:
            self.assertIn("its libc is musl", inject(target.pid, place="injection_target_musl:safe_point")["error"])
            self.assertEqual(target.verdict(), (0, 0))

    def test_without_the_right(self) -> None:
        with Target("threads", 1.5) as target:
            run = subprocess.run(["setpriv", f"--reuid={live.NOBODY}", "--clear-groups", TOOLS / "inject", LIBRARY, "injected", str(target.pid), PLACE],
                                 capture_output=True, text=True, timeout=60)
            self.assertRegex(run.stdout, "^error .*(belongs to user|may not be written|Permission denied)")
            self.assertEqual(target.verdict(), (0, 0))

    def test_other_namespaces(self) -> None:
        command = [*live.CONTAINER, str(TOOLS / "injection_target"), "threads", "3"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            self.assertEqual(inject(int(children[0])).get("result"), "1")
            self.assertIn("failures 0 ", process.stdout.read())

    def test_stopped_or_traced(self) -> None:
        with Target("threads", 3) as target:
            os.kill(target.pid, signal.SIGSTOP)
            live.wait_until(lambda: "\nState:\tT" in Path(f"/proc/{target.pid}/status").read_text(), 5, "stopped")
            self.assertIn("is stopped", inject(target.pid)["error"])
            os.kill(target.pid, signal.SIGCONT)
            with subprocess.Popen(["strace", "-f", "-o", "/dev/null", "-p", str(target.pid)], stderr=subprocess.DEVNULL) as tracer:
                live.wait_until(lambda: "TracerPid:\t0" not in Path(f"/proc/{target.pid}/status").read_text(), 5, "traced")
                self.assertIn("debugger", inject(target.pid)["error"])
                tracer.terminate()
            self.assertEqual(target.verdict(), (0, 0))

    def test_target_ends_meanwhile(self) -> None:
        for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.03):
            with Target("threads", 30) as target:
                tool = subprocess.Popen([TOOLS / "inject", LIBRARY, "injected", str(target.pid), PLACE], stdout=subprocess.PIPE, text=True)
                time.sleep(delay)
                target.process.kill()
                output = tool.communicate(timeout=30)[0]
                self.assertRegex(output, "^(error|result)")

    def check_hostile(self, kind: str, count: int, is_sure: bool = True) -> int:
        """Nothing that a thread has is another after injections. Returns how many of the first thread's waits were interrupted."""
        with Target(kind, 600, "hostile") as target:
            answers = [inject(target.pid, place=HOSTILE_PLACE) for _ in range(count)]
            target.process.terminate()
            text = target.process.stdout.read()
            self.assertRegex(text, "failures 0 ")
            self.assertEqual(target.process.wait(), 0)
        done = sum("result" in answer for answer in answers)
        self.assertGreaterEqual(done, count if is_sure else 1, answers)
        return int(re.search(r"interrupted (\d+)", text)[1])

    def test_all_that_a_thread_has_stays(self) -> None:
        """Registers, vectors, x87, flags, red zone, errno, signal mask, queued signals, a tight alternate stack, restartable sequences,
        robust list, TLS, affinity, policy, name; also of threads that have just begun."""
        for kind, count in HOSTILE.items():
            with self.subTest(kind=kind):
                # A first thread that is in handlers most of the time may come by too late.
                self.check_hostile(kind, count * MANY, is_sure=kind != "alone,handlers")

    def test_calls_in_progress_go_on(self) -> None:
        for call in WAITS + INTERRUPTED_WAITS:
            with self.subTest(call=call):
                interrupted = self.check_hostile(f"in={call}", 2 * MANY)
                if call in WAITS:
                    self.assertEqual(interrupted, 0)

    def test_a_filter_that_kills_for_every_other_call(self) -> None:
        """All that is called is looked at before; also where a single thread has the filter."""
        calls = subprocess.run([TOOLS / "inject", "--calls"], capture_output=True, text=True, check=True).stdout
        for missing, threads in (("", "threads"), ("", "threads,some"), ("435,", "threads,some")):  # clone3
            with self.subTest(missing=missing, threads=threads), \
                    Target(f"{threads},listed={calls.replace(missing, '', 1)}", 600, "hostile") as target:
                for library, function in ((LIBRARY, "injected"), (live.BINARY.parent / "libproftrace_agent.so", "proftrace_agent_start")):
                    answer = inject(target.pid, function, HOSTILE_PLACE, library=library)
                    self.assertIn("clone3" if missing else "result", str(answer))
                time.sleep(0.1)  # the agent's thread looks for CUDA
                target.process.terminate()
                self.assertEqual(target.verdict(), (0, 0))

    def time_of_one(self, target: Target) -> float:
        """Seconds; on a busy machine longer than on a quiet one."""
        begin = time.monotonic()
        self.assertIn("result", inject(target.pid))
        return max(time.monotonic() - begin, 0.03)

    def kill_once(self, target: Target, within_s: float) -> None:
        tool = subprocess.Popen([TOOLS / "inject", LIBRARY, "injected", str(target.pid), PLACE], stdout=subprocess.DEVNULL)
        time.sleep(random.random() * within_s)
        tool.kill()
        tool.wait()

    def test_killed_at_any_moment(self) -> None:
        """The tool is killed at random moments: the program lives, and the next injection cleans up and works."""
        leftovers = 0
        for kind in ("threads,signals", "sleeps"):
            with self.subTest(kind=kind), Target(kind, 600) as target:
                within_s = self.time_of_one(target)
                for _ in range(KILLS):
                    self.kill_once(target, within_s)
                    self.assertIsNone(target.process.poll())
                    if random.random() < 0.5:
                        answer = inject(target.pid)
                        self.assertIn("result", answer, answer)
                        self.assertEqual((regions(target.pid), text_is_private(target.pid)), (0, 0))
                        leftovers += int(answer["leftovers"])
        self.assertGreater(leftovers, 0)
        for kind in ("threads,signals", "sleeps"):
            with self.subTest(kind=kind), Target(kind, 600) as target:
                within_s = self.time_of_one(target)
                end = time.monotonic() + 3
                while time.monotonic() < end:
                    self.kill_once(target, within_s)
                target.process.terminate()
                self.assertEqual(target.verdict(), (0, 0))

    def check_after_point(self, target: Target, answer: list[str]) -> None:
        """Nothing is wrong with the program, and nothing is left there where the tool lives; the next injection works."""
        self.assertIsNone(target.process.poll(), answer)
        if answer[0] == "failed":
            # A page that is as in its file again may stay the process's own.
            self.assertEqual((regions(target.pid), live.changed_text_bytes(target.pid)), (0, 0), answer)
        again = inject(target.pid)
        self.assertIn("result", again, (answer, again))
        self.assertEqual((regions(target.pid), text_is_private(target.pid)), (0, 0), answer)

    def check_each_point(self, kind: str, how: str) -> None:
        step, calls = 1, collections.Counter()
        with Target(kind, 600) as target:
            command = [TOOLS / "inject", how, "{point}", "{step}", LIBRARY, "injected", str(target.pid), PLACE]
            if KILL_POINTS != "all":
                # More on a busy machine, where it is tried more often.
                points = int(self.disturbed(command, 1_000_000, 1)[0].split()[1])
                step = max(1, min(points, USUAL_STEPS) // POINTS)
            first = random.randint(1, step)
            for line in self.disturbed(command, first, step, lambda words: self.check_after_point(target, words)):
                calls[line.split()[2] if line.split()[0] != "whole" else "whole"] += 1
            target.process.terminate()
            self.assertEqual(target.verdict(), (0, 0))
        print(f"{how} in {kind}, from step {first} on, each {step}th: {dict(calls)}", flush=True)
        self.assertGreater(sum(calls.values()), POINTS // 3)

    def disturbed(self, command: list[object], point: int, step: int, check: Callable[[list[str]], None] = lambda words: None) -> list[str]:
        """The lines of the tool, each checked before the next point."""
        lines = []
        words = [str(word).format(point=point, step=step) for word in command]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as tool:
            try:
                for line in tool.stdout:
                    lines.append(line)
                    if line.startswith("whole"):
                        self.assertEqual(line.split()[2], "0")
                        break
                    check(line.split())
                    tool.stdin.write("\n")
                    tool.stdin.flush()
            finally:
                tool.kill()
        self.assertTrue(lines and lines[-1].startswith("whole"), lines[-1:])
        return lines

    def test_killed_at_each_step(self) -> None:
        for kind in ("threads,signals", "sleeps"):
            with self.subTest(kind=kind):
                self.check_each_point(kind, "killed")

    def test_a_step_that_fails(self) -> None:
        for kind in ("threads,signals", "sleeps"):
            with self.subTest(kind=kind):
                self.check_each_point(kind, "failing")


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("root is needed")
        raise SystemExit(live.SKIP)
    unittest.main()

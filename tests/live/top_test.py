#!/usr/bin/env python3
"""`proftrace top` on a real terminal (tmux), and what it prints without one."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

import live
from live import Job, LiveTest, Result, wait_until

TOP_JOB = live.HERE / "top_job.py"
MULTIPLICATIONS = int(re.findall(r"^MULTIPLICATIONS = (\d+)$", TOP_JOB.read_text(), re.MULTILINE)[0])
COLUMNS, ROWS = 80, 24
PROMPT = "shell> "
# What no name of a job may bring onto a terminal.
CONTROLS = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202e\u200b]")


class Terminal:
    """A shell in a terminal of its own, as a user has it."""

    numbers = itertools.count()  # a server that ends may still have its socket

    def __init__(self, directory: Path, **variables: str) -> None:
        self.directory = directory
        self.socket = str(directory / f"tmux{next(self.numbers)}")
        environment = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PS1": PROMPT, "TERM": "xterm-256color"}
        environment.pop("NO_COLOR", None)
        environment.pop("TMUX", None)
        self.run("-f", "/dev/null", "new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), "env",
                 *(f"{name}={value}" for name, value in variables.items()), "bash", "--norc", "--noprofile", env=environment)
        self.wait(re.escape(PROMPT.strip()))
        self.modes = self.shell("stty -g")

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(["tmux", "-u", "-S", self.socket, *arguments], check=True, capture_output=True, text=True, timeout=live.WORK_S,
                              env=env, cwd=self.directory)
        return done.stdout

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *error: object) -> None:
        self.run("kill-server")

    def keys(self, *keys: str) -> None:
        self.run("send-keys", *keys)

    def type(self, text: str) -> None:
        self.run("send-keys", "-l", text)
        self.keys("Enter")

    def screen(self) -> str:
        return self.run("capture-pane", "-p")

    def state(self, what: str) -> str:
        return self.run("display-message", "-p", f"#{{{what}}}").strip()

    def wait(self, pattern: str, timeout_s: float = live.WORK_S) -> str:
        end = time.monotonic() + timeout_s
        while True:
            screen = self.screen()
            if re.search(pattern, screen):
                return screen
            if time.monotonic() > end:
                raise AssertionError(f"after {timeout_s:g} s no {pattern!r} in\n{screen}")
            time.sleep(0.05)

    def shell(self, command: str) -> str:
        """What a command of the shell prints, by a file: the terminal may have been left in any state."""
        answer = self.directory / "answer"
        answer.unlink(missing_ok=True)
        self.type(f"{command} >answer.part 2>&1; mv answer.part answer")
        wait_until(answer.exists, live.WORK_S, command)
        return answer.read_text()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def viewer_of(pid: int) -> int:
    """The process that shows: the one with a filter of system calls that has the terminal's number of threads, two."""
    for child in children_of(pid):
        status = Path(f"/proc/{child}/status").read_text()
        if re.search(r"^Seccomp:\s+2$", status, re.MULTILINE) and re.search(r"^Threads:\s+2$", status, re.MULTILINE):
            return child
    raise AssertionError(f"PID {pid} has no viewer among {children_of(pid)}")


def resident_kb(pid: int) -> int:
    match = re.search(r"^VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert match is not None
    return int(match.group(1))


class ScreenTest(LiveTest):
    """On a terminal."""

    def setUp(self) -> None:
        super().setUp()
        self.assertIsNotNone(shutil.which("tmux"), "tmux is not installed: scripts/install-deps.sh does it")

    @contextlib.contextmanager
    def top(self, job: Job, *arguments: object, window: str = "2s", interval: str = "300ms", **variables: str
            ) -> Iterator[tuple[Terminal, int]]:
        """The terminal, once the job's operators are on it, and the PID of proftrace."""
        with Terminal(self.directory, **variables) as terminal:
            words = " ".join(str(word) for word in (live.BINARY, "top", "-p", job.pid, "--window", window, "--interval", interval, *arguments))
            terminal.type(f"echo before; {words}; echo code=$? | tee code")
            terminal.wait(r"aten::mm", live.READY_S)
            (top,) = children_of(int(terminal.state("pane_pid")))
            yield terminal, top

    def assert_terminal_is_back(self, terminal: Terminal) -> None:
        wait_until(lambda: terminal.state("alternate_on") == "0", live.STOP_S, "the terminal shows its first page")
        self.assertEqual(terminal.state("cursor_flag"), "1")
        self.assertIn("before", terminal.wait("before"))
        self.assertEqual(terminal.shell("stty -g"), terminal.modes)

    def assert_fits(self, terminal: Terminal, columns: int) -> None:
        lines = terminal.screen().split("\n")
        self.assertTrue(lines[0].startswith("proftrace"), lines[0])
        self.assertLessEqual(max(len(line) for line in lines), columns)

    def test_keys_change_what_is_shown(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job, "--with-stack", "-o", self.out) as (terminal, _):
            screen = terminal.wait(r"step \d+ .* median")
            self.assertIn(f"PID {job.pid}", screen)
            self.assertRegex(screen, r"why: .* ms a step")
            self.assertRegex(screen, r"cost: the job [\d.]+%")
            self.assertRegex(screen, rf"\s{MULTIPLICATIONS}\.0\s+aten::mm")
            terminal.wait(r"recording \d+%, view \d+% of a CPU")
            terminal.keys("p")
            self.assertRegex(terminal.wait(r"multiply_all"), r"top_job\.py\(\d+\): multiply_all")
            terminal.keys("f")
            terminal.wait(r"\b5\d\d B.*top_job\.py")
            terminal.keys("w")
            terminal.wait(r"BLOCKED ms(.*\n)+.*thread .*TID")
            terminal.keys("t")
            terminal.wait(r"CPU ms\*(.*\n)+> .*")
            terminal.keys("+")
            terminal.wait(r"\[g\]pu +1 thread")
            terminal.keys("x", "g")
            terminal.wait(r"No GPU's work is recorded")
            terminal.keys("o", "/")
            terminal.run("send-keys", "-l", "MM")
            terminal.keys("Enter")
            wait_until(lambda: "aten::sum" not in terminal.screen(), live.WORK_S, "the filter is taken")
            self.assertIn("aten::mm", terminal.screen())
            terminal.keys("Escape")
            terminal.wait("aten::sum")
            terminal.keys("?")
            terminal.wait("the job is left as it was")
            terminal.keys("x", "v")
            terminal.wait(r"Steps take [\d.]+ ms")
            terminal.keys("x", "d")
            terminal.wait(r"Thread \d+ .*(.*\n)+.*step \(.*top_job\.py:\d+\)")
            terminal.keys("q", "q")
            terminal.wait(r"code=0")
            self.assert_terminal_is_back(terminal)
            self.assertIsNone(job.process.poll())
        self.assertFalse(self.out.exists(), "nothing was kept in it")

    def test_a_pause_stops_what_is_shown(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job) as (terminal, _):
            terminal.wait(r"step \d+ .* median")
            terminal.keys("Space")
            paused = terminal.wait("PAUSED")
            time.sleep(1)
            self.assertEqual(terminal.screen(), paused)
            count = int(re.search(r"step (\d+)", paused).group(1))
            terminal.keys("Space")
            wait_until(lambda: int(re.search(r"step (\d+)", terminal.screen()).group(1)) > count, live.WORK_S, "more steps")
            terminal.keys("q")
            terminal.wait(r"code=0")

    def test_the_last_seconds_are_kept(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job, "-o", self.out, "--format", "table,csv") as (terminal, _):
            for number in range(2):
                terminal.keys("r")
                wait_until(lambda: (self.out / f"dump_{number}" / "summary.json").exists(), live.WORK_S, f"dump_{number}")
            terminal.wait(r"dump_1 (has|…)")
            terminal.keys("q")
            terminal.wait(r"code=0")
            self.assert_terminal_is_back(terminal)
            self.assertRegex(re.sub(r"\s", "", terminal.screen()), r"dump_1has")
        result = Result(self.out / "dump_1")
        self.assertEqual(result.summary["flight_recorder"]["reason"], "kept from proftrace top")
        again = self.run_proftrace("report", self.out / "dump_1", "--json")
        self.assertEqual(again.returncode, 0, again.stderr)
        rows = {row["name"]: row for row in json.loads(again.stdout)["rows"]}
        self.assertGreater(rows["aten::mm"]["count"], MULTIPLICATIONS)

    def test_any_size(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job) as (terminal, _):
            for columns, rows in ((120, 40), (41, 12), (20, 5), (10, 3), (COLUMNS, ROWS)):
                terminal.run("resize-window", "-x", str(columns), "-y", str(rows))
                wait_until(lambda: terminal.screen().startswith("proftrace" if columns >= 10 else "p"), live.WORK_S, "a new screen")
                if columns >= 20:
                    self.assert_fits(terminal, columns)
            terminal.wait("aten::mm")
            terminal.keys("q")
            terminal.wait(r"code=0")
            self.assert_terminal_is_back(terminal)

    def test_the_terminal_comes_back_on_any_end(self) -> None:
        def viewer(number: int, top: int, terminal: Terminal) -> None:
            os.kill(viewer_of(top), number)

        ways = {
            "^C": (lambda top, terminal: terminal.keys("C-c"), 0),
            "SIGTERM": (lambda top, terminal: os.kill(top, signal.SIGTERM), 0),
            "SIGHUP": (lambda top, terminal: os.kill(top, signal.SIGHUP), 0),
            "SIGKILL": (lambda top, terminal: os.kill(top, signal.SIGKILL), 128 + signal.SIGKILL),
            "SIGABRT": (lambda top, terminal: os.kill(top, signal.SIGABRT), 128 + signal.SIGABRT),
            "the viewer's SIGKILL": (lambda top, terminal: viewer(signal.SIGKILL, top, terminal), 6),
            "the viewer's SIGSEGV": (lambda top, terminal: viewer(signal.SIGSEGV, top, terminal), 70),
        }
        with Job(script=TOP_JOB) as job:
            for name, (end, code) in ways.items():
                with self.subTest(name), self.top(job) as (terminal, top):
                    end(top, terminal)
                    # The shell's next words may be on the page that a killed proftrace has left.
                    told = self.directory / "code"
                    wait_until(lambda: told.exists() and told.read_text().endswith("\n"), live.STOP_S, "its end")
                    self.assertEqual(told.read_text(), f"code={code}\n")
                    told.unlink()
                    self.assert_terminal_is_back(terminal)
                    self.assertIsNone(job.process.poll())
            with self.subTest("the job's end"), self.top(job) as (terminal, _):
                job.end()
                terminal.wait(r"code=0\b")
                self.assert_terminal_is_back(terminal)

    def test_it_is_stopped_and_goes_on(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job) as (terminal, top):
            for _ in range(2):
                terminal.keys("C-z")
                terminal.wait(r"Stopped")
                self.assert_terminal_is_back(terminal)
                self.assertIn("T (stopped)", Path(f"/proc/{top}/status").read_text())
                terminal.type("fg")
                wait_until(lambda: terminal.state("alternate_on") == "1", live.WORK_S, "the screen is there again")
                terminal.wait(r"step \d+ .* median(.*\n)+.*aten::mm")
            terminal.keys("q")
            terminal.wait(r"code=\d+|Done")
            self.assert_terminal_is_back(terminal)

    def test_it_says_that_the_job_is_stopped_and_how_it_goes_on(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job) as (terminal, _):
            os.kill(job.pid, signal.SIGSTOP)
            try:
                terminal.wait(rf"PID {job.pid} is stopped by a signal .*kill -CONT {job.pid}")
            finally:
                os.kill(job.pid, signal.SIGCONT)
            terminal.wait(r"The job goes on\.")
            terminal.wait(r"step \d+ .* median")
            terminal.keys("q")
            terminal.wait(r"code=0")

    def test_hostile_names_stay_names(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job) as (terminal, _):
            title = terminal.state("pane_title")
            screen = terminal.wait(r"evil")
            self.assertIn(r"evil \x1b]2;owned\x07\x1b[2J", screen)
            self.assertEqual(terminal.state("pane_title"), title)
            self.assertIn("aten::mm", screen)
            terminal.keys("q")
            terminal.wait(r"code=0")

    def test_without_colour_and_utf8(self) -> None:
        variables = {"LC_ALL": "C", "LANG": "C", "NO_COLOR": "1"}
        with Job(script=TOP_JOB) as job, self.top(job, **variables) as (terminal, _):
            screen = terminal.wait(r"step \d+ .* median")
            self.assertTrue(screen.isascii(), screen)
            self.assertRegex(screen, r"p99 [\d.]+ ms +[\d.]+/s +[_.:=+*#-]+")
            colours = terminal.run("capture-pane", "-p", "-e")
            self.assertNotRegex(colours, r"\x1b\[[0-9;]*3[0-7]m")
            terminal.keys("q")
            terminal.wait(r"code=0")

    def test_a_viewer_has_no_rights_and_memory_stays_flat(self) -> None:
        with Job(script=TOP_JOB) as job, self.top(job, window="1s", interval="200ms") as (terminal, top):
            viewer = viewer_of(top)
            status = Path(f"/proc/{viewer}/status").read_text()
            self.assertRegex(status, r"NoNewPrivs:\s+1")
            # The right to pass over files' modes is Landlock's to limit.
            self.assertRegex(status, r"CapEff:\s+0000000000000002\n")
            time.sleep(5)
            before = resident_kb(viewer), resident_kb(top)
            time.sleep(10)  # some fifty windows
            after = resident_kb(viewer), resident_kb(top)
            for now, then in zip(after, before):
                self.assertLess(now, then * 1.15 + 2048, (before, after))
            terminal.keys("q")
            terminal.wait(r"code=0")


class PrintedTest(LiveTest):
    """Without a terminal."""

    def test_once_has_the_figures_of_a_recording(self) -> None:
        with Job(script=TOP_JOB) as job:
            recorder = subprocess.Popen([str(live.BINARY), "-p", str(job.pid), "-d", "6s", "-o", str(self.out), "--format", "csv", "--tier", "bpf"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            done = self.run_proftrace("top", "-p", job.pid, "--once", "--json", "--window", "3s", "--rows", "100", "--tier", "bpf")
            self.assertEqual(recorder.wait(live.WORK_S), 0)
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertTrue(shown["steps"]["found"])
        # A block of records that became older than the window just before is not in it.
        self.assertAlmostEqual(shown["window_s"], 3, delta=0.05)
        report = json.loads(self.run_proftrace("report", self.out, "--json").stdout)
        steps = Result(self.out).summary["steps"]
        operators = {row["name"]: row for row in shown["tables"]["operators"]["rows"]}
        recorded = {row["name"]: row for row in report["rows"]}
        self.assertEqual(operators["aten::mm"]["calls"], MULTIPLICATIONS)
        self.assertAlmostEqual(shown["steps"]["median_ms"] * 1e3, steps["median_us"], delta=0.3 * steps["median_us"])
        a_call = recorded["aten::mm"]["cpu_time_total_us"] / recorded["aten::mm"]["count"]
        self.assertAlmostEqual(operators["aten::mm"]["total_ms"] * 1e3 / MULTIPLICATIONS, a_call, delta=0.5 * a_call)
        self.assertAlmostEqual(sum(part["share"] for part in shown["parts"]), 1, places=6)
        self.assertEqual(sum(row["self_percent"] for row in operators.values()) > 99, True)

    def test_json_is_one_object_a_line(self) -> None:
        with Job(script=TOP_JOB) as job:
            done = self.run_proftrace("top", "-p", job.pid, "--json", "-d", "3s", "--window", "1s", "--interval", "400ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertGreater(len(lines), 2)
        ends = [json.loads(line)["end_unix_ns"] for line in lines]
        self.assertEqual(ends, sorted(set(ends)))
        self.assertTrue(done.stdout.isascii())
        self.assertNotRegex(done.stdout, CONTROLS)
        names = {row["name"] for row in json.loads(lines[-1])["tables"]["operators"]["rows"]}
        self.assertTrue(any(name.startswith("evil \x1b]2;owned") for name in names), names)
        self.assertLess(json.loads(lines[-1])["window_s"], 1.01)
        # The first view, too, is of more than a moment.
        self.assertGreater(json.loads(lines[0])["window_s"], 0.2)

    def test_an_asked_end_comes_at_once(self) -> None:
        with Job(script=TOP_JOB) as job:
            for arguments in (("--once", "--window", "60s"), ("--json",)):
                top = subprocess.Popen([str(live.BINARY), "top", "-p", str(job.pid), *arguments], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE)
                lines = live.LineReader(top.stderr)
                lines.wait(r"^proftrace: recording ", live.READY_S)
                top.send_signal(signal.SIGINT)
                self.assertEqual(top.wait(live.STOP_S), 0)
                assert top.stdout is not None
                for line in top.stdout.read().splitlines():
                    json.loads(line)
                top.stdout.close()
                lines.close()

    def test_a_reader_that_goes_away_ends_it(self) -> None:
        with Job(script=TOP_JOB) as job:
            top = subprocess.Popen([str(live.BINARY), "top", "-p", str(job.pid), "--json", "--interval", "200ms"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert top.stdout is not None
            json.loads(top.stdout.readline())
            top.stdout.close()
            self.assertEqual(top.wait(live.WORK_S), 0)

    def test_text_has_no_control_characters(self) -> None:
        with Job(script=TOP_JOB) as job:
            done = self.run_proftrace("top", "-p", job.pid, "--once", "--window", "1s", "--filter", "EVIL")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stdout, CONTROLS)
        self.assertRegex(done.stdout, r"evil .x1b\]2;owned")
        self.assertNotIn("aten::mm", done.stdout)

    def test_a_job_that_ends_is_shown_as_far_as_it_came(self) -> None:
        with Job(script=TOP_JOB) as job:
            top = subprocess.Popen([str(live.BINARY), "top", "-p", str(job.pid), "--once", "--window", "60s"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            lines = live.LineReader(top.stderr)
            lines.wait(r"^proftrace: recording ", live.READY_S)
            time.sleep(1)
            job.end()
            assert top.stdout is not None
            self.assertIn(b"aten::mm", top.stdout.read())
            self.assertEqual(top.wait(live.WORK_S), 0)
            lines.close()

    def test_a_dumb_terminal_gets_text(self) -> None:
        with Job(script=TOP_JOB) as job:
            ours, theirs = pty.openpty()
            top = subprocess.Popen([str(live.BINARY), "top", "-p", str(job.pid), "-d", "6s", "--window", "1s", "--interval", "500ms"],
                                   stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                                   env={**os.environ, "TERM": "dumb", "LC_ALL": "C"})
            os.close(theirs)
            text = b""
            with contextlib.suppress(OSError):  # the other end is closed
                while part := os.read(ours, 65536):
                    text += part
            os.close(ours)
            self.assertEqual(top.wait(live.WORK_S), 0)
        self.assertNotIn(b"\x1b", text)
        self.assertGreater(text.count(b"proftrace top  PID"), 1)
        self.assertTrue(text.isascii())

    def test_what_cannot_be_shown(self) -> None:
        self.assert_fails(2, ("top", "--once"), "-p PID")
        self.assert_fails(2, ("top", "-a", "-p", 1, "--once"), "-p PID")
        self.assert_fails(3, ("top", "-p", 4_000_000, "--once"), "4000000")
        with subprocess.Popen(["sleep", "60"]) as sleep:
            try:
                self.assert_fails(5, ("top", "-p", sleep.pid, "--once"), str(sleep.pid))
            finally:
                sleep.kill()
        with Job(script=TOP_JOB) as job:
            self.assert_fails(2, ("top", "-p", job.pid), "--once", "--json")
            self.assert_fails(2, ("top", "-p", job.pid, "--once", "--interval", "1ms"), "200ms")
            (self.directory / "full").mkdir()
            (self.directory / "full" / "file").touch()
            self.assert_fails(7, ("top", "-p", job.pid, "--once", "-o", self.directory / "full"), "not empty")


if __name__ == "__main__":
    live.run(__name__)

#!/usr/bin/env python3
"""`proftrace dump`: the stacks are the interpreter's own, what threads wait for is right, and the process does not mind."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import unittest
from pathlib import Path

import live
from live import HERE, LiveTest
from process import LineReader

PY_SPY = shutil.which("py-spy")

# Threads that stand still in known ways; each one's stack as the interpreter has it, innermost frame first.
STANDING = r"""
import json, os, select, sys, threading, time
readable, writable = os.pipe()
poll = select.epoll(); poll.register(readable)
ready = []
def read(): ready.append(1) or os.read(readable, 1)
def sleep(): ready.append(1) or time.sleep(3600)
def lock(): ready.append(1) or threading.Lock().__class__; l = threading.Lock(); l.acquire(); l.acquire()
def wait(): ready.append(1) or poll.poll()
def größe():
    yield from (read() for _ in [1])
def event():
    ready.append(1) or threading.Event().wait(3600)
names = {'read': lambda: list(größe()), 'sleep': sleep, 'lock': lock, 'poll': wait, 'event': event}
threads = {name: threading.Thread(target=target, name=name, daemon=True) for name, target in names.items()}
for thread in threads.values(): thread.start()
def stacks():
    ids = {thread.ident: thread.native_id for thread in threading.enumerate()}
    result = {}
    for ident, frame in sys._current_frames().items():
        lines = result[ids[ident]] = []
        while frame:
            lines.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
            frame = frame.f_back
    del result[threading.get_native_id()]
    return result
def report():
    same, last = 0, None
    while same < 5:
        time.sleep(0.02)
        now = stacks() if len(ready) == len(names) else None
        same, last = (same + 1 if now and now == last else 0), now
    print(json.dumps({'stacks': last, 'names': {t.name: t.native_id for t in threads.values()}}), flush=True)
    sys.stdin.read()
threading.Thread(target=report, daemon=True).start()
threading.Event().wait()
"""

# What each of them waits in; Python slept in select() up to 3.10.
WAITS = {"read": {"read"}, "sleep": {"clock_nanosleep", "pselect6"}, "lock": {"futex"}, "poll": {"epoll_wait"},
         "event": {"futex"}}

# One thread runs Python, another waits for the lock of the interpreter.
TWO_BUSY = r"""
import threading
def busy():
    while True: pass
threading.Thread(target=busy, daemon=True).start()
print('READY', flush=True)
busy()
"""

# The first thread waits in the kernel where no signal reaches it, for a child that shares nothing but that wait; another one
# looks how long it was ever kept waiting. CLONE_VFORK
UNSTOPPABLE = r"""
import ctypes, os, sys, threading, time
longest = 0.0
def tick():
    global longest
    last = time.monotonic()
    while True:
        time.sleep(0.001)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
def report():
    print('READY', flush=True)
    sys.stdin.readline()
    print(f'LONGEST {longest:.3f}', flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), 9)
libc = ctypes.CDLL(None)
parent = os.getpid()
threading.Thread(target=tick, daemon=True).start()
threading.Thread(target=report, daemon=True).start()
time.sleep(0.05)
libc.syscall(56, 0x4000 | 17, None, None, None, None)
while os.getppid() == parent: time.sleep(0.01)
os._exit(0)
"""


class Target:
    """A script as a process with pipes. Leaving the context ends it."""

    def __init__(self, script: str | Path, *arguments: str, prefix: tuple[str, ...] = (), python: str = "") -> None:
        what = [str(script)] if isinstance(script, Path) else ["-c", script]
        variables = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen([*prefix, python or LiveTest.python, *what, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, env=variables, start_new_session=True)
        assert self.process.stdout is not None
        self.lines = LineReader(self.process.stdout)
        self.pid = self.process.pid

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.lines.close()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self, pattern: str, timeout_s: float = live.WORK_S) -> str:
        return self.lines.wait(pattern, timeout_s).group(0)

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


def pythons() -> list[str]:
    """The tests' own interpreter, and those in PROFTRACE_PYTHONS."""
    return [LiveTest.python, *filter(None, os.environ.get("PROFTRACE_PYTHONS", "").split(":"))]


class DumpTest(LiveTest):
    def dump(self, pid: int) -> dict:
        done = self.run_proftrace("dump", "-p", pid, "--json")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def assert_standing(self, document: dict, report: dict, tids: dict[int, int] | None = None) -> None:
        """The stacks of STANDING are those that it printed. `tids`: its numbers of threads to ours."""
        threads = {thread["tid"]: thread for thread in document["threads"]}
        for tid, frames in report["stacks"].items():
            thread = threads[int(tid) if tids is None else tids[int(tid)]]
            read = [[frame["file"], frame["line"], frame["name"]] for frame in thread["stacks"][0]["frames"]]
            self.assertEqual(read, frames)
        self.assertEqual(len(report["stacks"]), 6)

    @staticmethod
    def names(document: dict) -> set[str]:
        return {stack["thread_name"] for thread in document["threads"] for stack in thread["stacks"]}

    def test_output_that_cannot_be_written_is_told(self) -> None:
        with live.Job() as job, open("/dev/full", "wb") as full:
            for arguments in (("dump", "-p", job.pid), ("dump", "-p", job.pid, "--json"), ("list", "--json"), ("doctor", "--json")):
                with self.subTest(arguments):
                    done = subprocess.run([str(live.BINARY), *map(str, arguments)], stdout=full, stderr=subprocess.PIPE, text=True, timeout=live.WORK_S)
                    self.assertEqual(done.returncode, 7, done.stderr)
                    self.assertIn("cannot write to standard output", done.stderr)

    def test_threads_that_are_stopped_or_in_a_page_fault_do_not_run(self) -> None:
        script = """
import ctypes, fcntl, mmap, os, struct, threading, time
libc = ctypes.CDLL(None)
userfaults = libc.syscall(323, os.O_CLOEXEC)
fcntl.ioctl(userfaults, 0xc018aa3f, bytearray(struct.pack('3Q', 0xaa, 0, 0)))
area = mmap.mmap(-1, 4096); at = ctypes.addressof(ctypes.c_char.from_buffer(area))
fcntl.ioctl(userfaults, 0xc020aa00, bytearray(struct.pack('4Q', at, 4096, 1, 0)))
faulting = threading.Thread(target=lambda: libc.memcpy(ctypes.c_char_p(b'x' * 9), ctypes.c_void_p(at), 1), daemon=True)
faulting.start(); os.read(userfaults, 32)
print('READY', faulting.native_id, flush=True)
time.sleep(3600)
"""
        with Target(script) as target:
            tid = int(target.wait(r"READY \d+").split()[1])
            state = {thread["tid"]: thread["state"] for thread in self.dump(target.pid)["threads"]}
            self.assertEqual(state, {target.pid: "waiting", tid: "page fault"})
            os.kill(target.pid, signal.SIGSTOP)
            live.wait_until(lambda: "State:\tT" in Path(f"/proc/{target.pid}/status").read_text(), 5, "the stop")
            document = self.dump(target.pid)
            self.assertTrue(document["was_stopped"])
            self.assertEqual({thread["tid"]: thread["state"] for thread in document["threads"]}[target.pid], "stopped")
            said = self.run_proftrace("dump", "-p", target.pid).stdout
            self.assertIn(", stopped by a signal before, ", said)
            self.assertRegex(said, r"Thread \d+ \(.*\): stopped by a signal in (clock_nanosleep|pselect6)")

    def test_stacks_and_waits_are_the_processs_own(self) -> None:
        """Of every interpreter in PROFTRACE_PYTHONS too."""
        for python in pythons():
            with self.subTest(python=python):
                self.check_standing(python)

    def check_standing(self, python: str) -> None:
        with Target(STANDING, python=python) as target:
            report = json.loads(target.wait(r"^\{.*"))
            for _ in range(3):  # a second dump interrupts calls that were restarted after the first
                document = self.dump(target.pid)
                self.assert_standing(document, report)
                threads = {thread["tid"]: thread for thread in document["threads"]}
                self.assertEqual(document["threads"][0]["tid"], target.pid)
                for name, tid in report["names"].items():
                    thread = threads[tid]
                    self.assertEqual(thread["stacks"][0]["thread_name"], name)
                    self.assertIn(thread["system_call"], WAITS[name])
                    self.assertIsNone(thread["stacks"][0]["gil"])
                self.assertRegex(threads[report["names"]["read"]]["file"], r"^pipe:\[\d+\]$")
                self.assertIsNotNone(document["stopped_ms"])
            text = self.run_proftrace("dump", "-p", target.pid).stdout
            self.assertRegex(text, r"\APID \d+ \([^)]*\), Python 3\.\d+\.\d+, 7 threads, stopped for \d+\.\d ms\n")
            self.assertRegex(text, r'waits in read \(pipe:\[\d+\]\), "read"\n    read \(<string>:\d+\)\n')

    def test_who_has_the_lock_and_who_waits_for_it(self) -> None:
        """Of every interpreter in PROFTRACE_PYTHONS too."""
        for python in pythons():
            with self.subTest(python=python), Target(TWO_BUSY, python=python) as target:
                target.wait("READY")
                seen: list[list[str]] = []
                # On a busy machine who is to have it next has to wait for a CPU: then nobody has it for most of the time.
                deadline = time.monotonic() + live.WORK_S
                while len(seen) < 20 or (["awaited", "held"] not in seen and time.monotonic() < deadline):
                    seen.append(sorted(str(stack["gil"]) for thread in self.dump(target.pid)["threads"]
                                       for stack in thread["stacks"]))
                self.assertLess(max(states.count("held") for states in seen), 2)
                # Between two waits it runs, to look whether it has waited long enough.
                self.assertIn(["awaited", "held"], seen)

    def test_a_process_in_a_container(self) -> None:
        with Target(STANDING, prefix=live.CONTAINER) as target:
            report = json.loads(target.wait(r"^\{.*"))
            child = int(Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split()[0])
            tids = {}
            for path in Path(f"/proc/{child}/task").iterdir():
                ids = next(line for line in (path / "status").read_text().splitlines() if line.startswith("NSpid:"))
                tids[int(ids.split()[-1])] = int(path.name)
            self.assert_standing(self.dump(child), report, tids)

    def test_a_stopped_process_stays_stopped(self) -> None:
        with Target(STANDING) as target:
            report = json.loads(target.wait(r"^\{.*"))
            os.kill(target.pid, signal.SIGSTOP)
            live.wait_until(lambda: self.state(target.pid) == "T", 5, "stopped")
            self.assert_standing(self.dump(target.pid), report)
            live.wait_until(lambda: self.state(target.pid) == "T", 5, "stopped again")
            os.kill(target.pid, signal.SIGCONT)
            self.assert_standing(self.dump(target.pid), report)

    @staticmethod
    def state(pid: int) -> str:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

    def test_a_thread_that_no_signal_reaches_is_shown_and_the_others_go_on(self) -> None:
        """Of every interpreter in PROFTRACE_PYTHONS too: up to 3.10 it does not know its threads' numbers."""
        for python in pythons():
            with self.subTest(python=python):
                self.check_unstoppable(python)

    def check_unstoppable(self, python: str) -> None:
        with Target(UNSTOPPABLE, python=python) as target:
            target.wait("READY")
            live.wait_until(lambda: self.state(target.pid) == "D", 5, "waits for its child")
            document = self.dump(target.pid)
            self.assertLess(document["stopped_ms"], 50)
            first = document["threads"][0]
            self.assertEqual((first["tid"], first["system_call"]), (target.pid, "clone"))
            frames = first["stacks"][0]["frames"]
            line = 1 + UNSTOPPABLE.splitlines().index("libc.syscall(56, 0x4000 | 17, None, None, None, None)")
            self.assertEqual([(frame["line"], frame["name"]) for frame in frames], [(line, "<module>")])
            target.tell()
            longest_s = float(target.wait(r"LONGEST .*").split()[1])
            self.assertLess(longest_s, 0.1)
            target.tell()

    def test_a_hundred_dumps_change_nothing(self) -> None:
        steps = "600"
        all_names = {"MainThread", "spinner", "waiter"}
        results, times = [], []
        for dumps in (0, 100):
            with Target(HERE / "dump_job.py", steps) as target:
                target.wait("READY", live.START_S)
                # threading lists a thread a little after it has begun.
                live.wait_until(lambda: all_names <= self.names(self.dump(target.pid)), live.READY_S, "all threads")
                target.tell()
                stopped = []
                while len(stopped) < dumps and not target.lines.has("DONE"):
                    document = self.dump(target.pid)
                    if not all_names <= self.names(document):  # its threads end before it says that it is done
                        live.wait_until(lambda: target.lines.has("DONE"), live.READY_S, "the end of the job whose threads have ended")
                        break
                    if target.lines.has("DONE"):
                        break
                    stopped.append(document["stopped_ms"])
                    first = document["threads"][0]["stacks"][0]
                    self.assertFalse(first["failed"] or first["cut"])
                    self.assertEqual(first["frames"][-1]["name"], "<module>")
                    self.assertTrue(all(frame["file"] for frame in first["frames"]), first)
                # Looking for a line takes it.
                seen = [line for line in target.lines.seen if line.startswith("DONE")]
                done = (seen[0] if seen else target.wait(r"DONE .*", 8 * live.WORK_S)).split()
                results.append(done[1])
                times.append(float(done[2]))
        self.assertEqual(results[0], results[1])
        self.assertGreater(len(stopped), 10)
        stopped.sort()
        print(f"\n{len(stopped)} dumps: stopped for {statistics.median(stopped):.2f} ms (median), {stopped[len(stopped) * 95 // 100]:.2f} (95 %), "
              f"{stopped[-1]:.2f} (longest); {steps} steps took {times[1]:.2f} s, without dumps {times[0]:.2f} s")
        self.assertLess(statistics.median(stopped), 10)

    @unittest.skipUnless(PY_SPY, "no py-spy in PATH")
    def test_stacks_of_a_busy_job_are_those_that_py_spy_sees(self) -> None:
        """Both look at the job while a signal keeps it stopped, at thirty moments of its training."""
        frames, functions = 0, set()
        with Target(HERE / "dump_job.py", "100000") as target:
            target.wait("READY", live.START_S)
            target.tell()
            for _ in range(30):
                time.sleep(random.uniform(0, 0.05))
                os.kill(target.pid, signal.SIGSTOP)
                live.wait_until(lambda: self.state(target.pid) == "T", 5, "stopped")
                theirs = subprocess.run([str(PY_SPY), "dump", "--nonblocking", "--json", "--pid",
                                         str(target.pid)], check=True, capture_output=True)
                document = self.dump(target.pid)
                os.kill(target.pid, signal.SIGCONT)
                ours = {thread["tid"]: [(frame["file"], frame["line"], frame["qualified_name"])
                                        for frame in thread["stacks"][0]["frames"]]
                        for thread in document["threads"] if thread["stacks"]}
                expected = {thread["os_thread_id"]: [(frame["filename"], frame["line"], frame["name"])
                                                     for frame in thread["frames"]]
                            for thread in json.loads(theirs.stdout)}
                self.assertEqual(ours, expected)
                frames += sum(map(len, ours.values()))
                functions |= {frame[2] for stack in ours.values() for frame in stack}
        print(f"\n{frames} frames in {len(functions)} functions")

    def test_names_do_not_command_the_terminal(self) -> None:
        """Of the process, of threads, functions and files: OSC, C1 (as a character and as a byte), direction, no width, line ends."""
        hostile = "\x1b]0;t\x07\x9b1m\u202ex\u2066\u200b\x7f\nThread 1"
        code = f"""
import ctypes, threading, time
name = {hostile!r}
ctypes.CDLL(None).prctl(15, name[:8].encode() + b'\\x9b1m', 0, 0, 0)
space = {{}}
exec(compile('def run():\\n  print(1, flush=True)\\n  time.sleep(3600)', '/' + name + '.py', 'exec'), dict(globals()), space)
run = space['run']
run.__code__ = run.__code__.replace(co_name=name, **({{'co_qualname': name}} if hasattr(run.__code__, 'co_qualname') else {{}}))
threading.Thread(target=run, name=name, daemon=True).start()
time.sleep(3600)
"""
        job = subprocess.Popen([self.python, "-c", code], stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.communicate)
        self.addCleanup(job.kill)
        self.assertEqual(job.stdout.readline(), "1\n")
        unshowable = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
        for arguments in (("dump", "-p", job.pid), ("dump", "-p", job.pid, "--json"), ("doctor", "-p", job.pid), ("list",),
                          ("list", "--json"), ("record", "-p", job.pid, "-d", "1s", "-o", self.out)):
            done = self.run_proftrace(*arguments)
            self.assertIsNone(unshowable.search(done.stdout + done.stderr), arguments)
            if arguments[0] != "dump":
                continue
            if "--json" in arguments:
                names = {frame["name"] for thread in json.loads(done.stdout)["threads"] for stack in thread["stacks"]
                         for frame in stack["frames"]}
                self.assertIn(hostile, names)
                self.assertTrue(done.stdout.isascii())
            else:
                self.assertIn(r"\x1b]0;t\x07\x9b1m\u202ex\u2066\u200b\x7f\nThread 1", done.stdout)
                self.assertNotRegex(done.stdout, r"\nThread 1\b")

    def test_what_cannot_be_dumped(self) -> None:
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.assert_fails(3, ("dump", "-p", ended.pid), str(ended.pid))
        zombie = subprocess.Popen(["true"])
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        self.assert_fails(3, ("dump", "-p", zombie.pid), str(zombie.pid))
        zombie.wait()
        other = subprocess.Popen(["sleep", "60"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        self.assert_fails(5, ("dump", "-p", other.pid), "sleep", "no file of the process is a Python")
        for arguments in (("dump",), ("dump", "-p", "0"), ("dump", "-p", "x"), ("dump", "-p", "1", "more")):
            self.assert_fails(2, arguments)
        with Target(TWO_BUSY) as target:
            target.wait("READY")
            self.assert_fails(4, ("dump", "-p", target.pid), str(target.pid), prefix=live.nobody())
            # A debugger that has it.
            libc = ctypes.CDLL(None, use_errno=True)
            self.assertEqual(libc.ptrace(0x4206, target.pid, None, None), 0)  # PTRACE_SEIZE
            self.assert_fails(4, ("dump", "-p", target.pid), "debugger")

    def test_a_process_that_ends_meanwhile(self) -> None:
        codes = []
        for _ in range(40):
            with Target("import threading, time\nfor _ in range(8): threading.Thread(target=time.sleep, args=(1,), daemon=True)"
                        ".start()\nprint('READY', flush=True)\nwhile True: pass") as target:
                target.wait("READY")
                with subprocess.Popen([str(live.BINARY), "dump", "-p", str(target.pid), "--json"], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE) as dump:
                    time.sleep(random.uniform(0, 0.03))
                    os.kill(target.pid, signal.SIGKILL)
                    stdout, stderr = dump.communicate(timeout=live.STOP_S)
                codes.append(dump.returncode)
                self.assertIn(dump.returncode, (0, 3), stdout + stderr)
                json.loads(stdout)
        print(f"\nexit codes: {({code: codes.count(code) for code in sorted(set(codes))})}")


if __name__ == "__main__":
    live.run()

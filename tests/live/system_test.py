#!/usr/bin/env python3
"""--activities syscalls,io: every system call of a real program against strace in the same run, and what files moved against the
kernel's own counts."""

from __future__ import annotations

import collections
import csv
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator
from pathlib import Path

import live
from live import LiveTest, Result, Tracer, wait_until
from namespaces_test import child_of
from process import LineReader

JOB = Path(os.environ.get("PROFTRACE_SYSTEM_JOB", live.HERE.parents[1] / "build/release/tests/support/system/system_job"))
RANDOM_JOB = JOB.parent / "random_job"
RESTARTS = {"ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "ERESTART_RESTARTBLOCK"}

Calls = dict[int, list[tuple[str, str]]]  # by tid: name, and what it returned; "?" = it did not


class SystemJob:
    """tests/support/system/system_job.c. Leaving the context ends it."""

    def __init__(self, mode: str, threads: int, rounds: int, folder: Path, prefix: tuple[str, ...] = (),
                 program: Path = JOB) -> None:
        folder.mkdir(exist_ok=True)
        self.process = subprocess.Popen([*prefix, str(program), mode, str(threads), str(rounds), str(folder)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self.lines = LineReader(self.process.stdout)
        self.pid = int(self.lines.wait(r"READY (\d+)", live.START_S).group(1))

    def __enter__(self) -> "SystemJob":
        return self

    def __exit__(self, *error: object) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.lines.close()
        self.process.stdin.close()

    def work(self) -> None:
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()
        self.lines.wait(r"^DONE", live.WORK_S)

    def end(self) -> int:
        try:
            self.process.stdin.write(b"end\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        return self.process.wait(live.STOP_S)


def strace_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Each call as one text, those that another thread's lines interrupt as well. Not those of threads that ended before strace
    saw which call it was."""
    return ((tid, text) for tid, text in every_text(path) if not text.startswith("???"))


def every_text(path: Path) -> Iterator[tuple[int, str]]:
    begun: dict[int, str] = {}
    for line in path.read_text(errors="replace").splitlines():
        tid_text, text = line.split(maxsplit=1)
        tid = int(tid_text)
        if text.startswith(("---", "+++")):
            continue
        if text.endswith("<unfinished ...>"):
            begun[tid] = text.removesuffix("<unfinished ...>")
            continue
        resumed = re.match(r"<\.\.\. (\S+) resumed>", text)
        if resumed:
            # An exec that another thread called goes on as the first one.
            text = begun.pop(tid, f"{resumed[1]}(") + text[resumed.end():]
        yield tid, text
    for tid, text in begun.items():
        yield tid, f"{text}) = ?"


def read_strace(path: Path) -> Calls:
    calls: Calls = collections.defaultdict(list)
    for tid, text in strace_texts(path):
        done = re.match(r"(\w+)\(.*\) += (\S+)(?: (\w+))?", text)
        assert done is not None, text
        name, result, error = done.groups()
        if result == "?":
            result = error if error in RESTARTS else "?"
        elif result == "-1":
            result = error
        else:
            result = str(int(result, 0))
        calls[tid].append((name, result))
    return calls


# What strace shows of structures and texts, by our names.
STRACE_ARGS = {
    "flags": r"\{flags=([^,}]+)",
    "mode": r" mode=(\d+)",
    "resolve": r" resolve=([^,}]+)",
    "exit_signal": r" exit_signal=(\w+)",
    "stack_size": r" stack_size=(\w+)",
    "msg_iovlen": r" msg_iovlen=(\d+)",
    "target": r'^symlink(?:at)?\("((?:[^"\\]|\\.)*)"',
}
STRACE_ADDRESSES = {
    r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("(.+?)"\)': r"\2:\1",
    r'sin6_port=htons\((\d+)\),.* inet_pton\(AF_INET6, "(.+?)"': r"[\2]:\1",
    r'sun_path="(.+?)"': r"unix:\1",
}


def number(text: str) -> int | str:
    """Flags and signals are numbers in both, written in other ways: 0 and 0x0."""
    if text.startswith("SIG"):
        return int(signal.Signals[text])
    return int(text, 0) if re.fullmatch(r"0x[0-9a-f]+|0|[1-9]\d*", text) else text


def strace_args(text: str) -> dict[str, str]:
    args = {name: found[1].replace('\\"', '"') for name, pattern in STRACE_ARGS.items()
            if (found := re.search(pattern, text)) is not None}
    for pattern, address in STRACE_ADDRESSES.items():
        if found := re.search(pattern, text):
            args["address"] = found.expand(address)
    return args


def names_of_32_bits() -> dict[str, str]:
    """strace's names of 32-bit programs' calls, by ours: "32-bit call 4" is "write"."""
    header = subprocess.run(["gcc", "-E", "-dM", "-include", "asm/unistd_32.h", "-x", "c", os.devnull], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return {f"32-bit call {number}": name for name, number in re.findall(r"#define __NR_(\w+) (\d+)", header)}


def read_ours(result: Result) -> Calls:
    calls: Calls = collections.defaultdict(list)
    of_32_bits = names_of_32_bits()
    for row in result.events():
        if row["category"] != "syscall":
            continue
        args = json.loads(row["args"])
        returned = args.get("errno") or str(args.get("ret", "?"))
        name = re.sub(r"^system call (\d+)$", lambda found: f"syscall_{int(found[1]):#x}", row["name"])  # as strace does
        name = of_32_bits.get(name, name)
        calls[int(row["tid"])].append((name, "?" if row["end"] == "truncated" else returned))
    return calls


class AgainstStrace(LiveTest):
    def compare(self, mode: str, threads: int, rounds: int, program: Path = JOB, constants: str = "abbrev") -> tuple[Result, int]:
        trace, out = self.directory / "strace.txt", self.directory / f"out_{mode}"
        prefix = ("strace", "-f", "-q", "-X", constants, "-o", str(trace))
        with SystemJob(mode, threads, rounds, self.directory / "files", prefix, program) as job:
            with Tracer("-p", job.pid, "--activities", "syscalls,io", "--format", "events-csv", "-o", out,
                        "--buffer-size", "64M") as tracer:
                tracer.wait_until_recording()
                job.work()
                job.end()
                self.assertEqual(tracer.wait(), 0, tracer.text())
        result = Result(out)
        self.assert_identities(result.ledger)
        self.assertEqual(result.ledger["system_lost"], 0)
        theirs, ours = read_strace(trace), read_ours(result)
        # The first thread from the line on that it waited for.
        first = theirs[job.pid]
        begin = next(i for i, call in enumerate(first) if call == ("read", "3"))
        theirs[job.pid] = first[begin:]
        # A thread whose end takes a call with it: strace tells neither what the kernel returned nor whether it began.
        for tid, calls in theirs.items():
            name, returned = calls[-1]
            if returned == "?" and len(ours[tid]) < len(calls):
                calls.pop()
            elif returned == "?" and not name.startswith("exit"):
                ours[tid][-1] = (ours[tid][-1][0], "?")
        self.maxDiff = 2000
        self.assertEqual({tid for tid in ours if ours[tid]}, {tid for tid in theirs if theirs[tid]})
        for tid, calls in theirs.items():
            self.assertEqual(ours[tid], calls, f"thread {tid}")
        return result, sum(map(len, theirs.values()))

    def test_files_pipes_sockets_and_memory_of_eight_threads(self) -> None:
        _, count = self.compare("mix", 8, 400)
        self.assertGreater(count, 10_000)

    def test_locks(self) -> None:
        self.compare("futex", 8, 100)

    def test_signals_break_calls_and_they_go_on(self) -> None:
        result, _ = self.compare("signals", 1, 6)
        ends = collections.Counter(returned for calls in read_ours(result).values() for _, returned in calls)
        self.assertGreater(ends["EINTR"] + ends["ERESTART_RESTARTBLOCK"], 0)
        self.assertGreater(ends["ERESTARTSYS"], 0)

    def test_calls_of_32_bits(self) -> None:
        self.compare("compat", 1, 20)

    def test_structures_and_texts(self) -> None:
        self.check_structures("raw", "openat2", "clone3", "symlink", "symlinkat")

    def test_structures_with_addresses(self) -> None:
        self.check_structures("abbrev", "sendmsg", "recvmsg")  # raw, an address is a number

    def check_structures(self, constants: str, *calls: str) -> None:
        result, _ = self.compare("structures", 1, 10, constants=constants)
        theirs, ours = collections.defaultdict(list), collections.defaultdict(list)
        for _, text in strace_texts(self.directory / "strace.txt"):
            theirs[text.split("(")[0]].append(strace_args(text))
        for row in result.events():
            args = json.loads(row["args"])
            if row["name"] in ("sendmsg", "recvmsg"):
                args.pop("flags")  # they are no part of the structure
            ours[row["name"]].append({name: str(value) for name, value in args.items()
                                      if name in STRACE_ARGS or name == "address"})
        for args in (*theirs["clone3"], *ours["clone3"]):
            if "stack_size" in args:
                args["stack_size"] = str(int(args["stack_size"], 0))
        for name in calls:
            self.assertGreaterEqual(len(theirs[name]), 10, name)
            self.assertEqual(*([{key: number(value) for key, value in args.items()} for args in rows[name]]
                               for rows in (ours, theirs)), name)

    def test_several_messages_and_ioctls(self) -> None:
        result, _ = self.compare("structures", 1, 10, constants="raw")
        theirs, ours = collections.defaultdict(list), collections.defaultdict(list)
        for _, text in strace_texts(self.directory / "strace.txt"):
            name = text.split("(")[0]
            if name in ("sendmmsg", "recvmmsg"):
                theirs[name].append(sum(map(int, re.findall(r"msg_len=(\d+)", text))))
            elif name == "ioctl" and (found := re.match(r"ioctl\(\d+, (_IOC\(.+?\)|\w+)(?:, \[(\d+)\])?", text)):
                theirs[name].append((found[1], int(found[2]) if found[2] else None))
        for row in result.events():
            args = json.loads(row["args"])
            if row["name"] in ("sendmmsg", "recvmmsg"):
                # A call that failed has only the pointer.
                self.assertEqual("bytes" in args, args["ret"] > 0, args)
                ours[row["name"]].append(args.get("bytes", 0))
            elif row["name"] == "ioctl":
                ours[row["name"]].append((args["op"], args.get("value")))
        for name in ("sendmmsg", "recvmmsg", "ioctl"):
            self.assertGreaterEqual(len(theirs[name]), 20, name)
            self.assertEqual(ours[name], theirs[name], name)
        moved = {name: sum(counts) for name, counts in theirs.items() if name != "ioctl"}
        report = json.loads(self.run_proftrace("report", result.path, "--by-syscall", "--json").stdout)
        self.assertEqual({row["name"]: row["bytes"] for row in report["rows"] if row["name"] in moved}, moved)

    def test_calls_at_random(self) -> None:
        # Seeds: "1,2,3".
        for seed in os.environ.get("PROFTRACE_RANDOM_CALLS", "1,2").split(","):
            with self.subTest(seed=seed):
                _, count = self.compare(seed, 4, 250, RANDOM_JOB)
                self.assertGreater(count, 1500)

    def test_requests_of_io_uring(self) -> None:
        result, _ = self.compare("uring", 1, 100)
        requests = [row for row in result.events() if row["category"] == "io_request"]
        if not requests and any("io_uring" in gap["feature"] for gap in result.summary["unsupported"]):
            self.skipTest("this kernel does not tell of io_uring's requests")
        self.assertEqual(len(requests), 100)
        for i, row in enumerate(sorted(requests, key=lambda row: int(json.loads(row["args"])["user_data"], 16))):
            args = json.loads(row["args"])
            self.assertEqual(row["name"], "io_uring READ" if i % 2 else "io_uring WRITE")
            self.assertEqual((args["bytes"], args["offset"]), (512 + i % 100, i // 2 * 16))
            self.assertTrue(args["path"].endswith("/files/uring"), args)
        self.assertTrue(all(json.loads(row["args"])["ret"] > 0 for row in requests))


class Ends(LiveTest):
    """What takes threads out of their calls, or programs out of processes."""

    def record(self, mode: str, threads: int, rounds: int) -> Result:
        with SystemJob(mode, threads, rounds, self.directory / "files") as job:
            with Tracer("-p", job.pid, "--activities", "syscalls", "--format", "events-csv", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                job.work()
                self.code = job.end()
                self.assertEqual(tracer.wait(), 0, tracer.text())
            self.pid = job.pid
        result = Result(self.out)
        self.assert_identities(result.ledger)
        return result

    def test_forks_and_programs(self) -> None:
        calls = read_ours(self.record("forks", 1, 5))
        self.assertEqual(self.code, 7)
        children = [tid for tid in calls if tid != self.pid]
        self.assertEqual(len(children), 5 * 3 + 1)
        execs = [calls[tid] for tid in children if ("execve", "0") in calls[tid]]
        self.assertEqual(len(execs), 5)
        # The last program is the shell that a thread, which is not the first, called.
        self.assertEqual(calls[self.pid][-1][0], "exit_group")
        self.assertIn(("execve", "0"), calls[self.pid])

    def test_threads_with_ids_that_are_alike(self) -> None:
        calls = read_ours(self.record("alike", 1, 40))
        counts = {pid: sum(name == "getppid" for name, _ in made) for pid, made in calls.items() if pid != self.pid}
        self.assertEqual(sorted(counts.values()), [40, 40, 80], counts)
        self.assertEqual(len({pid % 8192 for pid in counts}), 1, counts)

    def test_exit_with_calls_open(self) -> None:
        calls = read_ours(self.record("end_in_calls", 4, 1))
        self.assertEqual(self.code, 5)
        self.assertEqual(calls[self.pid][-1], ("exit_group", "?"))
        others = [calls[tid] for tid in calls if tid != self.pid]
        self.assertEqual([other[-1] for other in others], [("read", "?")] * 4)

    def test_a_call_open_at_both_ends(self) -> None:
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        sleeper = subprocess.Popen(["cat"], stdin=reader)
        os.close(reader)
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        wait_until(lambda: "pipe" in Path(f"/proc/{sleeper.pid}/wchan").read_text() or
                   Path(f"/proc/{sleeper.pid}/syscall").read_text().startswith("0 "), 5, "cat reads")
        done = self.run_proftrace("-p", sleeper.pid, "-d", "300ms", "--activities", "syscalls,sched",
                                  "--format", "events-csv", "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(Result(self.out).events())
        window = Result(self.out).summary["window"]
        self.assertEqual([(row["name"], row["end"]) for row in rows], [("read", "truncated"), ("io", "truncated")])
        for row in rows:
            self.assertEqual(int(row["start_ns"]), window["start_unix_ns"])
            self.assertEqual(int(row["duration_ns"]), window["duration_ns"])
        self.assertIn("pipe:[", json.loads(rows[0]["args"])["path"])


    def test_a_flight_recorder_tells_of_calls_that_go_on(self) -> None:
        sleeper = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        with Tracer("-p", sleeper.pid, "--activities", "syscalls,sched", "--flight-recorder", "1s", "--format", "events-csv",
                    "-o", self.out) as tracer:
            tracer.wait_until_recording()
            time.sleep(1.5)
            tracer.process.send_signal(signal.SIGUSR1)
            tracer.lines.wait("SIGUSR1: .* has the last", live.WORK_S)
            self.assertEqual(tracer.stop(), 0, tracer.text())
        for number in (0, 1):
            result = Result(self.out / f"dump_{number}")
            # A dump ends what goes on, and what follows it begins there: together they fill the next one.
            total = collections.Counter()
            for row in result.events():
                total[row["name"], row["category"]] += int(row["duration_ns"])
            window = result.summary["window"]["duration_ns"]
            self.assertEqual(total, {("clock_nanosleep", "syscall"): window, ("sleep", "sched"): window}, f"dump_{number}")


class Files(LiveTest):
    def test_names_and_bytes(self) -> None:
        script = self.directory / "job.py"
        script.write_text("""
import os, socket, sys
os.chdir(sys.argv[1])
opened = os.open('before', os.O_RDWR | os.O_CREAT)
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen()
client = socket.socket(); client.connect(server.getsockname()); there, _ = server.accept()
print('READY', os.getpid(), server.getsockname()[1], flush=True); sys.stdin.readline()
os.write(opened, b'x' * 1000)
try: os.open('missing/file', os.O_RDONLY)
except OSError: pass
with open('inner \\t"\\xff', 'wb', buffering=0) as file: file.write(b'y' * 77)
os.rename('inner \\t"\\xff', 'renamed')
os.stat('renamed')
with open('renamed', 'rb', buffering=0) as file: file.read(50)
client.send(b'z' * 11); there.recv(100)
folder = os.open('.', os.O_RDONLY | os.O_DIRECTORY)
os.unlink('before', dir_fd=folder)
print('DONE', flush=True); sys.stdin.readline()
""")
        folder = self.directory / "a folder"
        folder.mkdir()
        job = subprocess.Popen(["/usr/bin/python3", str(script), str(folder)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        port = job.stdout.readline().split()[2]
        with Tracer("-p", job.pid, "--activities", "io", "--format", "events-csv", "-o", self.out) as tracer:
            tracer.wait_until_recording()
            job.stdin.write("\n")
            job.stdin.flush()
            job.stdout.readline()
            self.assertEqual(tracer.stop(), 0, tracer.text())
        job.stdin.close()
        job.stdout.close()
        rows = [(row["name"], json.loads(row["args"])) for row in Result(self.out).events() if row["category"] == "syscall"]
        find = lambda name, **wanted: [args for call, args in rows
                                       if call == name and all(args.get(key) == value for key, value in wanted.items())]
        self.assertEqual(len(find("write", path=f"{folder}/before", ret=1000)), 1)
        self.assertEqual(len(find("openat", path=f"{folder}/missing/file", errno="ENOENT")), 1)
        strange = f"{folder}/inner \t\"\xff"
        self.assertEqual(len(find("write", path=strange, ret=77)), 1, rows)
        self.assertEqual(len(find("rename", path=strange, path2=f"{folder}/renamed", ret=0)), 1)
        self.assertEqual(len(find("read", path=f"{folder}/renamed", ret=50)), 1)
        sent = [args for name, args in rows if name == "sendto" and args["ret"] == 11]
        self.assertEqual(len(sent), 1)
        self.assertRegex(sent[0]["path"], rf"^tcp:127\.0\.0\.1:\d+->127\.0\.0\.1:{port}$")
        self.assertEqual(len(find("unlinkat", path=f"{folder}/before", ret=0)), 1)

    def test_more_files_than_are_remembered(self) -> None:
        script = self.directory / "job.py"
        script.write_text("""
import os, sys
names = [os.path.join(sys.argv[1], f'file_{i}') for i in range(50)]
opened = [os.open(name, os.O_RDWR | os.O_CREAT) for name in names]
print('READY', os.getpid(), flush=True); sys.stdin.readline()
for i in range(25000):
    ends = os.pipe()
    os.write(ends[1], b'x' * (1 + i % 7)); os.close(ends[0]); os.close(ends[1])
    os.pwrite(opened[i % 50], b'y' * (1000 + i % 50), 0)
print('DONE', flush=True); sys.stdin.readline()
""")
        job = subprocess.Popen(["/usr/bin/python3", str(script), str(self.directory)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        job.stdout.readline()
        with Tracer("-p", job.pid, "--activities", "io", "--format", "events-csv", "-o", self.out,
                    "--buffer-size", "64M") as tracer:
            tracer.wait_until_recording()
            job.stdin.write("\n")
            job.stdin.flush()
            job.stdout.readline()
            self.assertEqual(tracer.stop(), 0, tracer.text())
        job.stdin.close()
        job.stdout.close()
        moved = [(row["name"], json.loads(row["args"])) for row in Result(self.out).events()
                 if row["name"] in ("write", "pwrite64")]
        files = [args for name, args in moved if name == "pwrite64"]
        self.assertEqual([(args["path"], args["ret"]) for args in files],
                         [(f"{self.directory}/file_{i % 50}", 1000 + i % 50) for i in range(25_000)])
        # Each pipe has a name of its own.
        pipes = [args["path"] for name, args in moved if name == "write" and args["path"].startswith("pipe:")]
        self.assertGreaterEqual(len(pipes), 25_000)
        self.assertGreaterEqual(len(set(pipes)), 25_000)

    def test_bytes_as_the_kernel_counts_them(self) -> None:
        def counted(pid: int) -> tuple[int, int]:
            fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            return int(fields["rchar"]), int(fields["wchar"])

        with SystemJob("mix", 4, 500, self.directory / "files") as job:
            with Tracer("-p", job.pid, "--activities", "io", "--format", "events-csv", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                before = counted(job.pid)
                job.work()
                after = counted(job.pid)
                self.assertEqual(tracer.stop(), 0, tracer.text())
        moved = collections.Counter()
        for row in Result(self.out).events():
            args = json.loads(row["args"] or "{}")
            if row["category"] == "syscall" and args.get("ret", -1) > 0:
                moved[row["name"]] += args["ret"]
        # The kernel counts what read() and write() and their like move (fs/read_write.c), not recv() and send().
        read = moved["read"] + moved["pread64"] + moved["readv"] + moved["preadv"]
        written = moved["write"] + moved["pwrite64"] + moved["writev"] + moved["pwritev"]
        self.assertEqual((read, written), (after[0] - before[0], after[1] - before[1]))


class Bounds(LiveTest):
    def test_a_storm_of_calls(self) -> None:
        with SystemJob("storm", 2, 600, self.directory / "files") as job:
            with Tracer("-p", job.pid, "--activities", "syscalls", "--format", "none", "-o", self.out,
                        "--buffer-size", "64K") as tracer:
                tracer.wait_until_recording()
                job.work()
                resident = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{tracer.process.pid}/status").read_text())
                self.assertEqual(job.end(), 0)
                self.assertEqual(tracer.wait(), 0, tracer.text())
        ledger = Result(self.out).ledger
        self.assert_identities(ledger)
        calls = Result(self.out).summary["events"]["syscalls"]
        self.assertGreater(ledger["system_lost"], 0)
        # Each call is there or counted as lost; a few more are those around the storm.
        self.assertGreaterEqual(calls + ledger["system_lost"], 1_200_000)
        self.assertLess(calls + ledger["system_lost"], 1_200_000 + 500)
        self.assertLess(int(resident.group(1)), 200 << 10, "kB at most")

    def test_strict(self) -> None:
        with SystemJob("storm", 1, 600, self.directory / "files") as job:
            with Tracer("-p", job.pid, "--activities", "syscalls", "--format", "none", "-o", self.out,
                        "--buffer-size", "4K", "--strict") as tracer:
                tracer.wait_until_recording()
                job.work()
                self.assertEqual(tracer.stop(), 9, tracer.text())


class Containers(LiveTest):
    def test_ids_are_the_tracers(self) -> None:
        with SystemJob("mix", 2, 20, self.directory / "files", live.CONTAINER) as job:
            pid = child_of(job.process.pid)
            self.assertEqual(job.pid, 1)
            with Tracer("-p", pid, "--activities", "syscalls,sched", "--format", "events-csv", "-o", self.out) as tracer:
                tracer.wait_until_recording()
                job.work()
                self.assertEqual(tracer.stop(), 0, tracer.text())
        rows = list(Result(self.out).events())
        self.assertEqual({row["pid"] for row in rows}, {str(pid)})
        self.assertEqual(len({row["tid"] for row in rows if row["category"] == "syscall"}), 3)

    def test_inside_of_one(self) -> None:
        inside = (
            "import sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
            "from pathlib import Path; import system_test; from live import Tracer\n"
            "with system_test.SystemJob('mix', 2, 20, Path(sys.argv[4])) as job, Tracer('-p', job.pid, '--activities',\n"
            "        'syscalls,sched', '--format', 'events-csv', '-o', sys.argv[3]) as tracer:\n"
            "    tracer.wait_until_recording(); job.work(); print('PID', job.pid, tracer.stop(), tracer.text())\n")
        done = subprocess.run([*live.CONTAINER, sys.executable, "-c", inside, str(live.HERE), str(live.HERE.parent / "oracle"),
                               str(self.out), str(self.directory / "files")],
                              capture_output=True, text=True, timeout=live.WORK_S)
        said = re.search(r"^PID (\d+) (\d+)", done.stdout, re.MULTILINE)
        self.assertIsNotNone(said, done.stdout + done.stderr)
        self.assertEqual(said.group(2), "0", done.stdout)
        self.assertLess(int(said.group(1)), 50)
        rows = list(Result(self.out).events())
        self.assertEqual({row["pid"] for row in rows}, {said.group(1)})
        self.assertEqual(len({row["tid"] for row in rows if row["category"] == "syscall"}), 3)


class CommandLine(LiveTest):
    def test_what_is_refused(self) -> None:
        self.assert_fails(2, ("-p", 1, "--activities", "cpu,disk"), "cpu, cuda, syscalls")
        self.assert_fails(2, ("-p", 1, "--activities", "syscalls", "--with-stack"), "--with-stack needs operators")
        self.assert_fails(2, ("-p", 1, "--activities", "cuda,syscalls"), "cpu,cuda")
        self.assert_fails(3, ("-p", 4194303, "--activities", "syscalls"), "no process with PID 4194303")

    def test_a_command_without_torch(self) -> None:
        done = self.run_proftrace("--activities", "syscalls,sched", "--format", "events-csv", "-o", self.out,
                                  "--", "/bin/sh", "-c", "/bin/true; exit 0")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = Result(self.out)
        names = {row["name"] for row in result.events()}
        self.assertTrue({"execve", "exit_group"} <= names, names)
        self.assertEqual({target["comm"] for target in result.summary["target"]} & {"sh"}, {"sh"})

    def test_all_processes_of_the_host(self) -> None:
        sleeper = subprocess.Popen(["/bin/sh", "-c", "while :; do sleep 0.01; done"], start_new_session=True)
        self.addCleanup(sleeper.wait)
        self.addCleanup(os.killpg, sleeper.pid, signal.SIGKILL)
        done = self.run_proftrace("-a", "-d", "500ms", "--activities", "syscalls,sched", "--format", "events-csv",
                                  "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)
        by_pid = collections.Counter(int(row["pid"]) for row in Result(self.out).events())
        self.assertIn(sleeper.pid, by_pid)
        self.assertGreater(len(by_pid), 10)  # each sleep is a process


if __name__ == "__main__":
    live.run()

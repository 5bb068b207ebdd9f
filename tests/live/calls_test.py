#!/usr/bin/env python3
"""--activities syscalls: what is told of calls that a script makes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess

import live
from live import LiveTest, Result, Tracer

PROLOGUE = """
import ctypes, fcntl, os, select, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def wait(word):
    print(word, flush=True)
    sys.stdin.readline()
"""


class Calls(LiveTest):
    def record(self, script: str, *options: str, activities: str = "syscalls") -> list[dict]:
        """The rows of what the script does between `wait("READY")` and `wait("DONE")`, with `args` as an object."""
        job = subprocess.Popen(["/usr/bin/python3", "-c", PROLOGUE + script], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True, cwd=self.directory)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.addCleanup(job.stdin.close)
        self.addCleanup(job.stdout.close)
        self.assertEqual(job.stdout.readline(), "READY\n")
        with Tracer("-p", job.pid, "--activities", activities, *options, "--format", "events-csv", "-o", self.out) as tracer:
            tracer.wait_until_recording()
            job.stdin.write("\n")
            job.stdin.flush()
            while (line := job.stdout.readline()) not in ("", "DONE\n"):
                self.told.append(line.strip())
            self.assertEqual(line, "DONE\n")
            self.assertEqual(tracer.stop(), 0, tracer.text())
        self.pid = job.pid
        rows = list(Result(self.out).events())
        for row in rows:
            row["args"] = json.loads(row["args"] or "{}")
        return rows

    def setUp(self) -> None:
        super().setUp()
        self.told: list[str] = []  # other lines of the script

    def test_timeouts_are_those_that_were_asked_for(self) -> None:
        rows = self.record("""
class Time(ctypes.Structure): _fields_ = [('s', ctypes.c_long), ('n', ctypes.c_long)]
reader, writer = os.pipe(); os.write(writer, b'x'); idle, _ = os.pipe()
wait('READY')
select.select([idle], [], [], 0.02)  # pselect6, all of it
select.select([reader], [], [], 5)  # none of it
libc.syscall(23, 0, None, None, None, ctypes.byref(Time(0, 30000)))
left = Time(0, 40000000)
libc.syscall(271, None, 0, ctypes.byref(left), None, 8)
signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 0.02)
left = Time(0, 80000000)
libc.syscall(35, ctypes.byref(left), ctypes.byref(left))
wait('DONE')
""")
        told = [(row["name"], row["args"].get("timeout_ns")) for row in rows
                if row["name"] in ("pselect6", "select", "ppoll", "nanosleep")]
        self.assertEqual(told, [("pselect6", 20_000_000), ("pselect6", 5_000_000_000), ("select", 30_000_000),
                                ("ppoll", 40_000_000), ("nanosleep", 80_000_000)])

    def test_calls_that_a_filter_refuses_are_told_of(self) -> None:
        rows = self.record("""
def ins(code, then, otherwise, k): return struct.pack('HBBI', code, then, otherwise, k)
# mkdir: EPERM; getpgid: ENOSYS; all else may be.
text = ctypes.create_string_buffer(ins(0x20, 0, 0, 0) + ins(0x15, 3, 0, 83) + ins(0x15, 1, 0, 121) + ins(6, 0, 0, 0x7fff0000) +
                                   ins(6, 0, 0, 0x50000 | 38) + ins(6, 0, 0, 0x50000 | 1))
wait('READY')
os.mkdir('folder')
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, struct.pack('HxxxxxxQ', 6, ctypes.addressof(text))) == 0
for _ in range(3): libc.mkdir(b'refused', 0o755)
libc.getpgid(7)
os.rmdir('folder')
wait('DONE')
""")
        told = [(row["name"], row["args"].get("errno"), int(row["duration_ns"]) > 0) for row in rows
                if row["name"] in ("mkdir", "getpgid", "rmdir")]
        self.assertEqual(told, [("mkdir", None, True)] + [("mkdir", "EPERM", False)] * 3 +
                         [("getpgid", "ENOSYS", False), ("rmdir", None, True)])
        refused = [row for row in rows if row["args"].get("errno") == "EPERM"]
        self.assertEqual({row["args"]["path"] for row in refused}, {f"{self.directory}/refused"})

    SLEEPERS = """
lock = threading.Lock(); lock.acquire(); idle, _ = os.pipe()
poll = select.poll(); poll.register(idle, select.POLLIN)
threads = [threading.Thread(target=target) for target in (lambda: libc.usleep(600000), lambda: lock.acquire(timeout=0.6),
                                                          lambda: poll.poll(600))]
def stop_and_go_on():
    child = os.fork()
    if child == 0:
        pid = os.getppid()
        time.sleep(0.1); os.kill(pid, signal.SIGSTOP); time.sleep(0.1); os.kill(pid, signal.SIGCONT); os._exit(0)
    return child
"""
    WAITS = {"clock_nanosleep": "sleep", "futex": "lock", "poll": "poll"}

    def waits(self, rows: list[dict]) -> dict[str, str]:
        """Of the three threads, by what they were in: what they waited for when they had been stopped."""
        return {row["args"].get("syscall"): row["name"] for row in rows if row["category"] == "sched" and
                row["tid"] != str(self.pid) and row["pid"] == str(self.pid) and int(row["duration_ns"]) > 250_000_000}

    def test_calls_that_a_stop_broke_off_go_on_as_what_they_were(self) -> None:
        for activities in ("syscalls,sched", "sched"):
            with self.subTest(activities=activities):
                rows = self.record(self.SLEEPERS + """
wait('READY')
for thread in threads: thread.start()
child = stop_and_go_on()
for thread in threads: thread.join()
os.waitpid(child, 0)
wait('DONE')
""", "--force", activities=activities)
                self.assertEqual(self.waits(rows), self.WAITS)
                restarts = {row["args"].get("restarts") for row in rows if row["name"] == "restart_syscall"}
                self.assertEqual(restarts, set(self.WAITS) if "syscalls" in activities else set())

    def test_and_those_that_were_before(self) -> None:
        rows = self.record(self.SLEEPERS.replace("0.6", "3").replace("600", "3000") + """
for thread in threads: thread.start()
os.waitpid(stop_and_go_on(), 0)
time.sleep(0.05)
wait('READY')
for thread in threads: thread.join()
wait('DONE')
""", activities="syscalls,sched")
        self.assertEqual(self.waits(rows), self.WAITS)
        restarts = {row["args"].get("restarts") for row in rows if row["name"] == "restart_syscall"}
        self.assertEqual(restarts, set(self.WAITS))

    def test_files_have_the_names_that_proc_has(self) -> None:
        rows = self.record("""
epoll = select.epoll(); event = libc.eventfd(0, 0); pid = os.pidfd_open(os.getpid()); space = os.open('/proc/self/ns/net', 0)
timer = libc.timerfd_create(1, 0); watch = libc.inotify_init()
kept = os.open('kept', os.O_RDWR | os.O_CREAT)
def use(fd):
    print('FD', fd, os.readlink(f'/proc/self/fd/{fd}'), flush=True)
    fcntl.fcntl(fd, fcntl.F_GETFD)
wait('READY')
for fd in (epoll.fileno(), event, pid, space, timer, watch, kept): use(fd)
# Each of these is another file, or has another name, than the last one.
os.rename('kept', 'renamed'); use(kept)
os.unlink('renamed'); use(kept)
again = os.open('renamed', os.O_RDWR | os.O_CREAT); use(again)
nameless = os.open('.', os.O_TMPFILE | os.O_RDWR); use(nameless)
wait('DONE')
""")
        told = [(row["args"]["fd"], row["args"]["path"]) for row in rows
                if row["name"] == "fcntl" and row["args"]["op"] == fcntl.F_GETFD]
        names = [(int(fd), name) for _, fd, name in (line.split(" ", 2) for line in self.told)]
        self.assertEqual(told, names)
        self.assertEqual(len([name for _, name in names if name.endswith(" (deleted)")]), 2, names)

    def test_a_file_has_the_name_of_the_mount_and_the_root_that_it_is_seen_from(self) -> None:
        disk = self.directory / "disk"  # in a chroot / is no mount that could be made private
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", str(disk)], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)])
        subprocess.run(["mount", "--make-private", str(disk)], check=True)
        rows = self.record("""
os.chdir('disk'); os.makedirs('A/s'); os.makedirs('B'); open('A/s/f', 'w').write('x' * 99)
here = os.getcwd().encode()
assert libc.unshare(0x20000) == 0
assert libc.mount(here + b'/A', here + b'/B', None, 4096, None) == 0
wait('READY')
for name in ('A/s/f', 'B/s/f'): os.read(os.open(name, 0), 5)
if os.fork() == 0:
    os.chroot('A'); os.chdir('/')
    os.read(os.open('s/f', 0), 5)
    os._exit(0)
os.wait()
wait('DONE')
""")
        reads = [row["args"]["path"] for row in rows if row["name"] == "read" and row["args"].get("ret") == 5]
        self.assertEqual(reads, [f"{disk}/A/s/f", f"{disk}/B/s/f", "/s/f"])

    def test_relative_paths_start_where_the_call_began(self) -> None:
        rows = self.record("""
os.makedirs('a/b')
wait('READY')
os.chdir('a'); os.chdir('b'); os.chdir('../..')
try: os.chdir('none')
except OSError: pass
os.chdir('/')
wait('DONE')
""")
        here = str(self.directory)
        self.assertEqual([row["args"]["path"] for row in rows if row["name"] == "chdir"],
                         [f"{here}/a", f"{here}/a/b", f"{here}/a/b/../..", f"{here}/none", "/"])

    def test_paths_of_the_file_itself_and_paths_that_are_too_long(self) -> None:
        rows = self.record("""
file = os.open('file', os.O_RDWR | os.O_CREAT)
buffer = ctypes.create_string_buffer(512)
wait('READY')
libc.syscall(262, file, b'', buffer, 0x1000)  # fstat() of newer C libraries
libc.syscall(332, file, b'', 0x1000, 0x7ff, buffer)
libc.open(b'./' * 500 + b'file', 0)
wait('DONE')
""")
        self.assertEqual([row["args"]["path"] for row in rows if row["name"] in ("newfstatat", "statx")],
                         [f"{self.directory}/file"] * 2)
        long = [row["args"]["path"] for row in rows if row["name"] in ("open", "openat") and row["args"]["path"].endswith("…")]
        self.assertEqual(len(long), 1)
        self.assertEqual(Result(self.out).ledger["names_cut"], 1)

    def test_sockets_have_the_name_that_they_are_bound_to(self) -> None:
        rows = self.record("""
wait('READY')
server = socket.socket(socket.AF_UNIX)
server.bind('socket')
server.listen()
wait('DONE')
""")
        paths = {row["name"]: row["args"].get("path", "") for row in rows}
        self.assertTrue(paths["socket"].startswith("unix:["), paths)
        self.assertEqual(paths["listen"], "unix:socket")

    def test_a_lock_of_a_file_is_one_by_whatever_call(self) -> None:
        rows = self.record("""
file = os.open('lock', os.O_RDWR | os.O_CREAT)
wait('READY')
for lock in (lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_EX)):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        own = os.open('lock', os.O_RDWR); lock(own)
        os.write(writer, b'x'); time.sleep(0.2); os._exit(0)
    os.read(reader, 1)
    lock(file)
    os.wait()
wait('DONE')
""", activities="sched")
        waits = [(row["args"].get("syscall"), row["name"]) for row in rows if row["pid"] == str(self.pid)
                 and row["args"].get("syscall") in ("fcntl", "flock") and int(row["duration_ns"]) > 20_000_000]
        self.assertEqual(waits, [("fcntl", "lock"), ("flock", "lock")])


class Commands(LiveTest):
    def test_a_command_is_recorded_from_its_exec_on(self) -> None:
        # PATH has folders in which it is not.
        done = self.run_proftrace("--activities", "syscalls,sched,faults", "--format", "events-csv", "-o", self.out, "--",
                                  "true", env=dict(os.environ, PATH=f"/nowhere:/nowhere/too:{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(Result(self.out).events())
        calls = [row for row in rows if row["category"] == "syscall"]
        self.assertEqual([row["name"] for row in calls if row["name"] == "execve"], ["execve"])
        self.assertEqual((calls[0]["name"], json.loads(calls[0]["args"])["ret"]), ("execve", 0))
        self.assertEqual(calls[-1]["name"], "exit_group")
        self.assertGreater(min(int(row["start_ns"]) for row in rows if row["category"] in ("sched", "fault")),
                           int(calls[0]["start_ns"]))

    def test_one_that_cannot_be_run_is_2(self) -> None:
        for activities in ("syscalls", "sched,faults"):
            done = self.run_proftrace("--activities", activities, "-q", "--format", "none", "-o", self.out, "--",
                                      "/no/such/command")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("cannot run '/no/such/command': No such file or directory", done.stderr)
            self.assertFalse(self.out.exists())


class Targets(LiveTest):
    def test_what_has_no_program_is_3(self) -> None:
        ended = subprocess.Popen(["true"])
        self.addCleanup(ended.wait)
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        for pid in (2, ended.pid):  # kthreadd
            if not os.path.exists(f"/proc/{pid}"):
                continue  # in a PID namespace
            done = self.run_proftrace("-p", pid, "--activities", "sched", "-d", "1s", "-o", self.out)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"PID {pid} has ended, or is a thread of the kernel", done.stderr)
            self.assertFalse(self.out.exists())


if __name__ == "__main__":
    live.run()

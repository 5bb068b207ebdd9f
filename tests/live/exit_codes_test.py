#!/usr/bin/env python3
"""The exit codes of `proftrace record`, each with one sentence on stderr and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

import live
from live import Job, LiveTest, Result, Tracer


def unused_pid() -> int:
    """The PID of a process that has ended and was waited for."""
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


class UsageTest(LiveTest):
    def test_a_wrong_command_line_is_2(self) -> None:
        me = str(os.getpid())
        for arguments in (
            ("record", "--nonsense"), ("nonsense",), ("record",), ("--",), ("record", "--"), ("-p",),
            ("record", "-d", "1s"), ("-p", "x"), ("-p", "0"), ("-p", "-4"), ("-p", "99999999999"),
            ("-p", me, "-d", "never"), ("-p", f"0{me}"), ("-p", "0x7f"), ("dump", "-p", "010"), ("clean", "-p", "0x1"), ("-p", me, "-d", "0"), ("-p", me, "-d", "-1s"), ("-p", me, "-d", "1d"),
            ("-p", me, "-d", "nan"), ("-p", me, "-d", ""), ("-p", me, "--buffer-size", "1K"),
            ("-p", me, "--buffer-size", "2T"), ("-p", me, "--format", "nonsense"), ("-p", me, "--format", ""),
            ("-p", me, "--format", "table,none"), ("-p", me, "--tier", "patch", "--no-inject"), ("-p", me, "--most-dumps", "3"),
            ("-p", me, "--metadata", "novalue"), ("-p", me, "--metadata-json", "key=novalue"), ("-p", me, "--", "true"), ("-p", me, "--tier", "magic"),
            ("-p", me, "--activities", "cooking"), ("-p", me, "--gpu", "2"), ("report",), ("export", "x"),
            ("report", "x", "--sort-by", "beauty"), ("doctor", "-p", "zero"),
        ):
            with self.subTest(arguments=arguments):
                self.assert_fails(2, arguments)
        self.assert_fails(2, ("report", "x", "--row-limit", "1", "--row-limit", "2"), "--row-limit was given more than once")
        self.assert_fails(2, ("report", "x", "--row-limit"), "--row-limit needs a value")

    def test_help_and_version_are_0(self) -> None:
        for arguments in (("--help",), ("--version",), ("record", "--help"), ("report", "--help"), ("export", "--help"),
                          ("dump", "--help"), ("clean", "--help"), ("list", "--help"), ("doctor", "--help")):
            with self.subTest(arguments=arguments):
                done = self.run_proftrace(*arguments)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("roftrace", done.stdout)

    def test_an_error_with_json_is_one_document(self) -> None:
        for code, arguments in ((2, ("report", "x", "--json", "--nonsense")), (8, ("report", "missing", "--json")),
                                (3, ("doctor", "--json", "-p", unused_pid())), (5, ("doctor", "--json", "-p", os.getpid()))):
            with self.subTest(arguments=arguments):
                done = self.run_proftrace(*arguments)
                self.assertEqual(done.returncode, code, done.stderr)
                document = json.loads(done.stdout)
                self.assertEqual(document["exit_code"] if "checks" in document else document["error"]["exit_code"], code)

    def test_doctor_says_ok_for_a_host_and_a_job(self) -> None:
        with Job() as job:
            done = self.run_proftrace("doctor", "--json", "-p", job.pid)
        self.assertEqual(done.returncode, 0, done.stdout)
        checks = {check["name"]: check["ok"] for check in json.loads(done.stdout)["checks"]}
        self.assertTrue(checks["PyTorch"], done.stdout)
        for option in ("--record-shapes", "--with-stack", "--sample", "--activities"):
            self.assertTrue(checks[f"programs of {option}"], done.stdout)
        self.assertTrue(checks["inputs (--record-shapes)"], done.stdout)
        self.assertTrue(checks["Python stacks (--with-stack)"], done.stdout)


class TargetTest(LiveTest):
    def test_no_such_process_is_3(self) -> None:
        for pid in (unused_pid(), 4194303):
            self.assert_fails(3, ("-p", pid), str(pid))

    def test_a_process_without_a_name_is_recorded(self) -> None:
        code = 'import ctypes, time\nctypes.CDLL(None).prctl(15, b"", 0, 0, 0)\nprint("named", flush=True)\nwhile True: time.sleep(0.01)'
        job = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.addCleanup(job.stdout.close)
        self.assertEqual(job.stdout.readline(), "named\n")
        done = self.run_proftrace("-p", job.pid, "--activities", "syscalls", "-d", "0.5s", "-o", self.out)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_zombie_is_3(self) -> None:
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assert_fails(3, ("-p", child.pid), str(child.pid))
        child.wait()

    def test_a_thread_that_is_no_process_is_3(self) -> None:
        done = threading.Event()
        thread = threading.Thread(target=done.wait, daemon=True)
        thread.start()
        for command in (("-p",), ("clean", "-p"), ("dump", "-p")):
            self.assert_fails(3, (*command, thread.native_id), f"a thread of PID {os.getpid()}")
        done.set()
        thread.join()

    def test_a_process_without_torch_is_5(self) -> None:
        for command in (["sleep", "60"], [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)"]):
            child = subprocess.Popen(command, stdout=subprocess.PIPE)
            if command[0] != "sleep":
                child.stdout.readline()
            self.assert_fails(5, ("-p", child.pid), str(child.pid), "torch")
            child.kill()
            child.wait()
            child.stdout.close()

    def test_targets_of_which_none_has_torch_are_5(self) -> None:
        # One of several is named, and the others are recorded: targets_test.py.
        self.assert_fails(5, ("-p", os.getpid(), "-p", os.getppid()), str(os.getpid()))

    def test_a_target_that_ends_while_attaching_is_0_or_3(self) -> None:
        """Killed at moments that are spread over the whole attach and a little more."""
        moments = [number * 0.012 for number in range(20)]
        codes = []
        with Job() as job:
            for number, pid in enumerate(job.do(f"park {len(moments)}")["pids"].split(",")):
                out = self.directory / f"result{number}"
                with Tracer("-p", pid, "-o", out, "--format", "none") as tracer:
                    time.sleep(moments[number])
                    os.kill(int(pid), signal.SIGKILL)
                    code = tracer.wait()
                codes.append(code)
                if code == 0:
                    self.assert_identities(Result(out).ledger)
                else:
                    self.assertEqual(code, 3, tracer.text())
                    self.assert_one_sentence(tracer.text() + "\n", pid)
                    self.assertFalse(out.exists())
        self.assertIn(3, codes)


class PrivilegeTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.directory.chmod(0o777)
        self.environment = dict(os.environ, PROFTRACE_CACHE_DIR="")

    def test_an_unprivileged_user_is_4(self) -> None:
        for prefix in ((), live.nobody()):  # another user's job, and one's own
            with Job(prefix=prefix) as job:
                self.assert_fails(4, ("-p", job.pid), "CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "sudo",
                                  prefix=live.nobody(), env=self.environment)

    def test_too_few_capabilities_is_4(self) -> None:
        with Job() as job:
            # CAP_BPF, CAP_PERFMON and CAP_CHECKPOINT_RESTORE by number: Ubuntu 22.04's setpriv has no names for them.
            for dropped in ("-all,+cap_39", "-all,+cap_39,+cap_38", "-sys_admin,-cap_40,-sys_ptrace,-dac_override"):
                with self.subTest(dropped=dropped):
                    prefix = ("setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}")
                    self.assert_fails(4, ("-p", job.pid), "CAP_", prefix=prefix, env=self.environment)


class HostTest(LiveTest):
    def test_a_host_without_the_kernels_types_is_6(self) -> None:
        hidden = (*live.OWN_MOUNTS, "sh", "-c",
                  'mount --make-private /sys && mount -t tmpfs none /sys/kernel/btf && exec "$0" "$@"')
        with Job() as job:
            self.assert_fails(6, ("-p", job.pid), "doctor", prefix=hidden)
            done = self.run_proftrace("doctor", "--json", prefix=hidden)
        self.assertEqual(done.returncode, 6)
        failed = [check["name"] for check in json.loads(done.stdout)["checks"] if not check["ok"]]
        self.assertIn("kernel type information (BTF)", failed)

    def test_too_little_for_us_is_6(self) -> None:
        with Job() as job:
            self.assert_fails(6, ("-p", job.pid), "ulimit -n", prefix=("prlimit", "--nofile=20"))
            for megabytes in (80, 100, 120, 150, 200):
                done = self.run_proftrace("-p", job.pid, "--force", "-o", self.out, "-d", "100ms", prefix=("prlimit", f"--as={megabytes}000000"))
                self.assertIn(done.returncode, (0, 6), done.stderr)
                if done.returncode:
                    self.assertRegex(done.stderr.splitlines()[-1], "memory")
                else:
                    self.assertGreater(megabytes, 80)
            job.do("steps 1")


class EndTest(LiveTest):
    def test_signals_end_the_recording_with_0(self) -> None:
        with Job() as job:
            job.tell("loop")
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                out = self.directory / number.name
                with Tracer("-p", job.pid, "-o", out, "--format", "none") as tracer:
                    tracer.wait_until_recording()
                    self.assertEqual(tracer.stop(number), 0, tracer.text())
                self.assertGreater(Result(out).ledger["records"], 0)
            self.assert_same_results(job.finish_loop())
            self.assertEqual(job.end(), 0)

    def test_the_end_of_the_target_ends_the_recording_with_0(self) -> None:
        for kill in (False, True):
            with Job() as job:
                out = self.directory / f"kill-{kill}"
                with Tracer("-p", job.pid, "-o", out, "--format", "none") as tracer:
                    tracer.wait_until_recording()
                    self.assert_same_results(job.do("steps 100"))  # names are read while it lives
                    if kill:
                        job.process.kill()
                    else:
                        self.assertEqual(job.end(), 0)
                    self.assertEqual(tracer.wait(), 0, tracer.text())
                self.assertGreater(Result(out).ledger["begins"], 100)
                self.assert_lossless(Result(out))

    def test_several_targets_are_recorded_until_the_last_ends(self) -> None:
        with Job() as first, Job() as second:
            with Tracer("-p", first.pid, "-p", second.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                first.do("steps 3")
                self.assertEqual(first.end(), 0)
                second.do("steps 3")
                self.assertEqual(second.end(), 0)
                self.assertEqual(tracer.wait(), 0, tracer.text())
            pids = {row["pid"] for row in Result(self.out).events()}
            self.assertEqual(pids, {str(first.pid), str(second.pid)})

    def test_a_closed_stderr_does_not_lose_the_recording(self) -> None:
        with Job() as job:
            reading, writing = os.pipe()
            process = subprocess.Popen([str(live.BINARY), "-p", str(job.pid), "-o", str(self.out), "-d", "0.3s"],
                                       stdout=writing, stderr=writing, cwd=self.directory)
            os.close(writing)
            os.close(reading)
            process.wait(live.STOP_S)
            self.assertEqual(process.returncode, 0)
            self.assertEqual(self.run_proftrace("report", self.out).returncode, 0)

    def test_who_reads_the_table_may_go(self) -> None:
        """As `| head -1` does. What is on the disk is all there; a standard output that takes nothing is an error all the same."""
        with Job() as job:
            for name, code in (("pipe", 0), ("full", 7), ("closed", 7)):
                reading, writing = os.pipe()
                os.close(reading)
                with self.subTest(name=name), open("/dev/full", "w") as full:
                    command = [str(live.BINARY), "-p", str(job.pid), "-o", str(self.directory / name), "-d", "0.3s", "--format", "table,csv"]
                    if name == "closed":
                        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
                    done = subprocess.run(command, stdout=full if name == "full" else writing, stderr=subprocess.PIPE, text=True,
                                          cwd=self.directory, timeout=live.WORK_S, check=False)
                    self.assertEqual(done.returncode, code, done.stderr)
                    self.assertEqual("cannot write" in done.stderr, code == 7, done.stderr)
                    self.assertEqual({path.name for path in (self.directory / name).iterdir()},
                                     {"capture.ptrec", "summary.json", "key_averages.txt", "key_averages.csv"})
                os.close(writing)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""What recording needs of capabilities, what is said where they are missing, and that doctor's command works."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

import live
from live import Job, LiveTest, Result

SYS_PTRACE, PERFMON, BPF = 19, 38, 39


def effective(pid: int) -> set[int]:
    mask = int(re.search(r"^CapEff:\s+(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE).group(1), 16)
    return {bit for bit in range(64) if mask >> bit & 1}


class RightsTest(LiveTest):
    cache: str  # of plans, the user's

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.cache = tempfile.mkdtemp(prefix="proftrace-rights-")
        cls.addClassCleanup(shutil.rmtree, cls.cache)
        os.chown(cls.cache, live.NOBODY, live.NOBODY)

    def setUp(self) -> None:
        super().setUp()
        self.directory.chmod(0o777)
        self.environment = dict(os.environ, PROFTRACE_CACHE_DIR=self.cache)
        self.user = ("setpriv", f"--reuid={live.NOBODY}", f"--regid={live.NOBODY}", "--clear-groups")

    def program(self, *capabilities: int) -> Path:
        """A copy of the program with these in its file, as `setcap …+p` gives them."""
        path = self.directory / f"proftrace-{'-'.join(map(str, capabilities))}"
        shutil.copy(live.BINARY, path)
        mask = sum(1 << bit for bit in capabilities)
        os.setxattr(path, "security.capability", struct.pack("<IIIII", 0x02000000, mask & 0xffffffff, 0, mask >> 32, 0))
        return path

    def run_as_user(self, program: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self.user, str(program), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=live.WORK_S,
                              env=self.environment, cwd=self.directory)

    def check_recording(self, job: Job, program: Path, kept: set[int]) -> None:
        job.tell("loop")
        command = [*self.user, str(program), "-p", str(job.pid), "-o", str(self.out), "--with-stack", "--sample", "49Hz",
                   "--activities", "cpu,syscalls,sched", "--format", "events-csv", "-d", "1s"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=self.environment, cwd=self.directory) as tracer:
            assert tracer.stderr is not None
            said = ""
            while "recording PID" not in said:  # it may say before that PyTorch is being imported
                line = tracer.stderr.readline()
                self.assertNotEqual(line, "", said)
                said += line
            now = effective(tracer.pid)
            rest = tracer.stderr.read()
        self.assertEqual(now, kept)
        self.assertEqual(tracer.returncode, 0, rest)
        job.finish_loop()
        result = Result(self.out)
        self.assertGreater(result.summary["events"]["operators"], 100)
        self.assertNotIn("eBPF", [gap["feature"] for gap in result.summary["unsupported"]])
        self.assertEqual({path.stat().st_uid for path in self.out.iterdir()}, {live.NOBODY})

    def test_two_capabilities_record_ones_own_job(self) -> None:
        with Job(prefix=self.user) as job:
            self.check_recording(job, self.program(BPF, PERFMON), {BPF, PERFMON})

    def test_with_sys_ptrace_any_job(self) -> None:
        with Job() as job:
            self.check_recording(job, self.program(BPF, PERFMON, SYS_PTRACE), {BPF, PERFMON, SYS_PTRACE})

    def test_what_is_missing_is_named_and_nothing_else(self) -> None:
        with Job(prefix=self.user) as job:
            for program, missing, others in ((self.program(BPF), ("CAP_PERFMON",), ("CAP_BPF ", "CAP_SYS_ADMIN")),
                                             (live.BINARY, ("CAP_BPF", "CAP_PERFMON", "setcap cap_bpf"), ("CAP_SYS_ADMIN",))):
                done = self.run_as_user(program, "-p", job.pid, "-d", "100ms", "--tier", "bpf")
                self.assertEqual(done.returncode, 4, done.stderr)
                for words in (*missing, f"sudo {program}'"):
                    self.assertIn(words, done.stderr)
                for words in others:
                    self.assertNotIn(words, done.stderr)

    def test_root_without_capabilities_is_told_how_to_start_the_container(self) -> None:
        with Job() as job:
            dropped = "-cap_38,-cap_39,-sys_admin"
            prefix = ("setpriv", f"--bounding-set={dropped}", f"--inh-caps={dropped}")
            self.assert_fails(4, ("-p", job.pid), "--cap-add=BPF --cap-add=PERFMON", prefix=prefix)

    def test_the_command_that_doctor_prints_works(self) -> None:
        with Job(prefix=self.user) as job:
            for program, way in ((self.program(BPF, PERFMON), "-d"), (live.BINARY, "--tier patch")):
                done = self.run_as_user(program, "doctor", "-p", job.pid)
                command = done.stdout.splitlines()[-1].removeprefix("to record: ")
                self.assertTrue(command.startswith(f"{program} -p {job.pid} {way}"), done.stdout)
                self.assertEqual(json.loads(self.run_as_user(program, "doctor", "--json", "-p", job.pid).stdout)["command"], command)
                out = self.directory / f"by{way.strip('-').replace(' ', '')}"
                words = shlex.split(command.replace("-d 10s", "-d 200ms"))
                made = self.run_as_user(Path(words[0]), *words[1:], "-o", out)
                self.assertEqual(made.returncode, 0, made.stderr)
        with Job() as job:  # another user's
            done = self.run_as_user(live.BINARY, "doctor", "-p", job.pid)
            self.assertEqual(done.stdout.splitlines()[-1], f"to record: sudo {live.BINARY} -p {job.pid} -d 10s")

    def test_a_filter_that_cannot_be_read_is_told_by_doctor_as_by_record(self) -> None:
        with Job(prefix=(*self.user, "/usr/bin/python3", "-c", live.UNDER_A_FILTER)) as job:
            done = self.run_as_user(live.BINARY, "doctor", "--json", "-p", job.pid)
            checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
            jumps = checks["jumps (--tier patch)"]
            self.assertFalse(jumps["ok"])
            self.assertIn("CAP_SYS_ADMIN", jumps["detail"])
            made = self.run_as_user(live.BINARY, "-p", job.pid, "--tier", "patch", "-d", "100ms", "-o", self.out)
            self.assertEqual(made.returncode, 4, made.stderr)
            self.assertIn("seccomp filter", made.stderr)
            # Root may read it.
            root = json.loads(self.run_proftrace("doctor", "--json", "-p", job.pid).stdout)["checks"]
            self.assertTrue({check["name"]: check for check in root}["jumps (--tier patch)"]["ok"])


if __name__ == "__main__":
    live.run()

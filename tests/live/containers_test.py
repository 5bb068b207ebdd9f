#!/usr/bin/env python3
"""Where proftrace records a job in a container, and what it says where it cannot: each place that a tool may run in, with the
capabilities and the filter of system calls that it has there. crun runs the containers (container.py)."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path

import live
from container import Spec
from container_case import ContainerTest, job_in
from live import Result

THREE = ("BPF", "PERFMON", "SYS_PTRACE")
SHORT = ("-d", "300ms", "--format", "events-csv", "--force")
BUSY = "import time, torch; a = torch.ones(4, 4); end = time.time() + 2\nwhile time.time() < end: a = a @ a / 4\nprint('END')\n"
# A job that records itself, as a notebook does.
STARTS_PROFTRACE = """import os, subprocess, sys, threading, time, torch
a = torch.ones(4, 4)
tracer = subprocess.Popen([*sys.argv[1:], "-p", str(os.getpid())])
while tracer.poll() is None: a = a @ a / 4
sys.exit(tracer.returncode)
"""

# Kills a proftrace that has put jumps into a command, and says whether they go away again.
KILLS_PROFTRACE = """import os, pathlib, subprocess, sys, time
tracer = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
def has_ring(pid):
    return "proftrace_patch" in pathlib.Path(f"/proc/{pid}/maps").read_text()
def wait_for(found):
    end = time.monotonic() + 30
    while not found() and time.monotonic() < end: time.sleep(0.05)
def job():
    children = pathlib.Path(f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()
    return [pid for pid in children if os.readlink(f"/proc/{pid}/exe") == os.readlink("/proc/self/exe") and has_ring(pid)]
wait_for(job)
pid, = job()
tracer.kill(); tracer.wait()
assert has_ring(pid)
wait_for(lambda: not has_ring(pid))
print("LEFT" if has_ring(pid) else "CLEAN", os.getsid(int(pid)) == int(pid))
os.kill(int(pid), 9)
"""


class ContainersTest(ContainerTest):
    def assert_records(self, spec: Spec, pid: int, tier: str, *options: str, program: Path | None = None) -> str:
        os.chown(self.result, spec.uid, spec.uid)
        done = self.run_in(spec, program or self.program, "-p", pid, *SHORT, "-o", self.result, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = Result(self.result)
        self.assert_identities(result.ledger)
        self.assertGreater(result.summary["events"]["operators"], 100)
        self.assertEqual(result.summary["proftrace"]["tier"], tier)
        if tier == "patch":
            self.assertEqual(live.patches(self.job.pid), [])
        return done.stderr

    def assert_refused(self, spec: Spec, pid: int, options: tuple[str, ...], *words: str, but: tuple[str, ...] = ()) -> None:
        """Exit code 4 with a sentence that says these words."""
        os.chown(self.result, spec.uid, spec.uid)
        done = self.run_in(spec, self.program, "-p", pid, *SHORT, "-o", self.result, *options)
        self.assertEqual(done.returncode, 4, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        for word in (*but, "CAP_SYS_ADMIN here"):
            self.assertNotIn(word, done.stderr)
        self.assertEqual(live.patches(self.job.pid), [])

    # The host.

    def test_from_the_host_by_probes_and_by_jumps(self) -> None:
        for tier in ("bpf", "patch"):
            done = self.run_proftrace("-p", self.job.pid, *SHORT, "-o", self.out, "--tier", tier)
            self.assertEqual(done.returncode, 0, done.stderr)
            result = Result(self.out)
            self.assertGreater(result.summary["events"]["operators"], 100)
            self.assertEqual(result.summary["proftrace"]["tier"], tier)

    # Beside the job.

    def test_dockers_defaults_do_for_looking(self) -> None:
        for command in (("dump", "-p", 1), ("list",)):
            done = self.run_in(self.beside_the_job(), self.program, *command)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("job.py", done.stdout)

    def test_dockers_defaults_do_not_do_for_probes(self) -> None:
        self.assert_refused(self.beside_the_job(), 1, ("--tier", "bpf"),
                            "--cap-add=BPF --cap-add=PERFMON --cap-add=SYS_PTRACE")
        self.assert_refused(self.beside_the_job(add=("SYS_PTRACE",)), 1, ("--tier", "bpf"), "--cap-add=BPF --cap-add=PERFMON",
                            but=("--cap-add=SYS_PTRACE",))
        self.assert_refused(self.beside_the_job(add=("BPF", "SYS_PTRACE")), 1, ("--tier", "bpf"), "--cap-add=PERFMON",
                            but=("--cap-add=BPF", "--cap-add=SYS_PTRACE"))

    def test_dockers_defaults_do_for_jumps_if_the_user_knows_the_filter(self) -> None:
        self.check_jumps_at_the_users_word(self.beside_the_job())

    def test_with_sys_ptrace_as_well(self) -> None:
        self.check_jumps_at_the_users_word(self.beside_the_job(add=("SYS_PTRACE",)))

    def check_jumps_at_the_users_word(self, spec: Spec) -> None:
        self.assert_refused(spec, 1, (), "--cap-add=BPF", "--seccomp=runtime-default")
        self.assert_refused(spec, 1, ("--tier", "patch"), "seccomp filter", "--seccomp=runtime-default")
        self.assert_records(spec, 1, "patch", "--seccomp=runtime-default")
        # The job has computed what it always does, and its code is as before.
        self.assert_same_results(self.job.finish_loop())
        self.assertEqual(live.changed_text_bytes(self.job.pid), 0)
        self.job.tell("loop")

    def test_two_capabilities_do_for_a_job_of_the_same_rights(self) -> None:
        self.assert_records(self.beside_the_job(add=("BPF", "PERFMON")), 1, "bpf", "--tier", "bpf")

    def test_three_capabilities_record_all_there_is(self) -> None:
        said = self.assert_records(self.beside_the_job(add=THREE), 1, "bpf", "--tier", "bpf", "--all", "--sample", "49Hz",
                                   "--activities", "cpu,syscalls,sched,faults")
        self.assertNotIn("SYS_ADMIN", said)

    def test_another_user_needs_them_in_the_file(self) -> None:
        spec = self.beside_the_job(add=THREE, uid=live.NOBODY)
        self.assert_refused(spec, 1, ("--tier", "bpf"), "may not read", "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+p")
        capable = self.shared / "proftrace-with-capabilities"
        shutil.copy(self.program, capable)
        mask = 1 << 19 | 1 << 38 | 1 << 39
        os.setxattr(capable, "security.capability", struct.pack("<IIIII", 0x02000000, mask & 0xFFFFFFFF, 0, mask >> 32, 0))
        self.assert_records(spec, 1, "bpf", "--tier", "bpf", program=capable)
        # A container that does not grant them can start that file, and says what is missing.
        done = self.run_in(self.beside_the_job(), capable, "-p", 1, *SHORT, "-o", "/tmp/result", "--tier", "bpf")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("--cap-add=BPF --cap-add=PERFMON", done.stderr)

    def test_privileged(self) -> None:
        spec = self.beside_the_job(privileged=True)
        self.assert_records(spec, 1, "bpf", "--tier", "bpf")
        self.assert_records(spec, 1, "patch", "--tier", "patch")

    def test_the_hosts_processes(self) -> None:
        self.assert_records(self.spec(pid="host", add=THREE), self.job.pid, "bpf", "--tier", "bpf")
        self.assert_records(self.spec(pid="host", privileged=True), self.job.pid, "patch", "--tier", "patch")

    def test_from_an_image_that_holds_nothing_but_the_program(self) -> None:
        static = live.BINARY.parent / "static" / "proftrace"
        if not static.is_file():
            self.skipTest("built without PROFTRACE_STATIC")
        image = self.base / "image"
        (image / "usr/bin").mkdir(parents=True, exist_ok=True)
        shutil.copy(static, image / "usr/bin")
        for options, tier in (((), "bpf"), (("--seccomp=runtime-default",), "patch")):
            spec = dataclasses.replace(self.beside_the_job(add=THREE), root=str(image), binds=(), readonly=True, variables=())
            archive = self.directory / f"{tier}.tar"
            with archive.open("wb") as file:
                command = [*spec.prefix(), "/usr/bin/proftrace", "-p", "1", "-d", "300ms", "--with-stack", "--format", "none", "-o", "-",
                           "--tier", tier, *options]
                done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, timeout=live.WORK_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            report = self.run_proftrace("report", archive)
            self.assertEqual(report.returncode, 0, report.stderr)
            self.assertIn("aten::linear", report.stdout)

    # kubectl debug --profile=…: Kubernetes filters system calls only where it is told to (seccompProfile, or the node's SeccompDefault).

    def test_profiles_of_kubectl_debug(self) -> None:
        self.assert_refused(self.beside_the_job(filtered=False), 1, ("--tier", "bpf"), "--cap-add=BPF")
        self.assert_refused(self.beside_the_job(add=("SYS_PTRACE",), filtered=False), 1, ("--tier", "patch"), "--seccomp=runtime-default")
        self.assert_records(self.beside_the_job(add=("SYS_PTRACE",), filtered=False), 1, "patch", "--seccomp=runtime-default")
        self.assert_refused(self.beside_the_job(add=("NET_ADMIN", "NET_RAW")), 1, ("--tier", "bpf"), "--cap-add=BPF")
        restricted = self.beside_the_job(drop=True, uid=live.NOBODY, no_new_privileges=True)
        self.assert_refused(restricted, 1, (), "may not read", "CAP_SYS_PTRACE")
        self.assert_records(self.beside_the_job(privileged=True), 1, "bpf", "--tier", "bpf")  # sysadmin

    def test_jobs_that_kubernetes_does_not_filter(self) -> None:
        with job_in(self.spec(filtered=False)) as job:
            job.tell("loop")
            spec = dataclasses.replace(self.spec(filtered=False, add=("SYS_PTRACE",)), pid=f"/proc/{job.pid}/ns/pid")
            self.assert_records(spec, 1, "patch")
            self.assertEqual(live.patches(job.pid), [])

    # In the job's own container: notebooks, CI, proftrace as the container's command.

    def test_a_command_is_recorded_by_jumps(self) -> None:
        for shell in ((), ("sh", "-c", '"$0" "$@"; exit $?')):
            done = self.run_in(self.spec(), *shell, self.program, "--format", "events-csv", "--force", "-o", self.result, "--",
                               self.python, "-c", BUSY)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("END", done.stdout)
            result = Result(self.result)
            self.assertGreater(result.summary["events"]["operators"], 100)
            self.assertEqual(result.summary["proftrace"]["tier"], "patch")

    def test_a_job_records_itself(self) -> None:
        done = self.run_in(self.spec(), self.python, "-c", STARTS_PROFTRACE, self.program, *SHORT, "-o", self.result)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = Result(self.result)
        self.assertGreater(result.summary["events"]["operators"], 100)
        self.assertEqual(result.summary["proftrace"]["tier"], "patch")

    def test_a_command_with_a_filter_of_its_own_says_so(self) -> None:
        done = self.run_in(self.spec(), self.program, "--format", "none", "--force", "-o", self.result, "--", self.python, "-c",
                           live.UNDER_A_FILTER, self.python, "-c", BUSY)
        self.assertIn("END", done.stdout)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("seccomp filter", done.stderr)
        self.assertNotIn("had loaded PyTorch", done.stderr)

    def test_the_users_word_is_not_taken_for_two_filters(self) -> None:
        done = self.run_in(self.spec(), self.program, "--format", "none", "--force", "-o", self.result, "--seccomp=runtime-default", "--",
                           self.python, "-c", live.UNDER_A_FILTER, self.python, "-c", BUSY)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("has 2 seccomp filters", done.stderr)

    def test_a_profile_that_kills_is_found_by_trying(self) -> None:
        done = self.run_in(self.spec(kills=("restart_syscall",)), self.program, "--format", "none", "--force", "-o", self.result, "--",
                           self.python, "-c", BUSY)
        self.assertIn("END", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("does not allow restart_syscall", done.stderr)

    def test_the_jumps_of_a_killed_proftrace_go_away(self) -> None:
        # Then the job is an orphan, of a session of its own: nothing but its ring tells that its filter is the same.
        forever = "import os; os.setsid()\n" + BUSY.replace("+ 2", "+ 60")
        done = self.run_in(self.spec(), self.python, "-c", KILLS_PROFTRACE, self.program, "--format", "none", "--force", "-o", self.result,
                           "--", self.python, "-c", forever)
        self.assertEqual((done.returncode, done.stdout), (0, "CLEAN True\n"), done.stderr)

    # What doctor says is what happens.

    def test_doctor_prints_the_command_that_works(self) -> None:
        for spec, pid in ((self.beside_the_job(), 1), (self.beside_the_job(add=THREE), 1), (self.beside_the_job(privileged=True), 1),
                          (self.spec(pid="host", add=THREE), self.job.pid)):
            with self.subTest(str(spec.capabilities())):
                done = self.run_in(spec, self.program, "doctor", "-p", pid, "--json")
                command = json.loads(done.stdout)["command"]
                made = self.run_in(spec, "sh", "-c", command.replace("-d 10s", " ".join(SHORT)) + f" -o {self.result}")
                self.assertEqual(made.returncode, 0, made.stderr)
                self.assertGreater(Result(self.result).summary["events"]["operators"], 100)


if __name__ == "__main__":
    live.run()

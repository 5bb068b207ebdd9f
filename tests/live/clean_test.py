#!/usr/bin/env python3
"""`proftrace clean`: what a killed tracer has left in a process and its children goes, and nothing of anybody else."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import live
from patch_test import LONG, TOOL, PatchJob, files, patch, patch_regions

THREADS = 2
# Forks two children that stay and work, tells their PIDs, and ends with the sum of what they computed.
FORKING_JOB = """
import os, sys, time, torch
def work():
    total = 0.0
    for i in range(200):
        total += torch.mm(torch.full((4, 4), i / 7), torch.eye(4)).sum().item()
    return total
torch.set_num_threads(1)
expected = work()
print(os.getpid(), flush=True)
sys.stdin.readline()
children = []
for _ in range(2):
    to_child, from_parent = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(from_parent)
        os.read(to_child, 1)
        os._exit(0 if work() == expected else 1)
    os.close(to_child)
    children.append((child, from_parent))
print(*(child for child, _ in children), flush=True)
sys.stdin.readline()
for child, pipe in children:
    os.write(pipe, b"x")
    assert os.waitpid(child, 0)[1] == 0
assert work() == expected
print("whole", flush=True)
"""


def wait_until_patched(pid: int, tool: subprocess.Popen[str]) -> None:
    live.wait_until(lambda: tool.poll() is not None or bool(patch_regions(pid)), 60, "mapped")
    live.wait_until(lambda: tool.poll() is not None or live.changed_text_bytes(pid) > 10_000, 60, "patched")
    assert tool.poll() is None, tool.returncode


def leave_patches(pid: int, prefix: tuple[str, ...] = ()) -> None:
    """As a killed tracer does whose guardian was killed as well."""
    tool = subprocess.Popen([*prefix, TOOL, str(pid), "100"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until_patched(pid, tool)
    tool.kill()
    tool.wait()


def tell(job: subprocess.Popen[str]) -> None:
    job.stdin.write("\n")
    job.stdin.flush()


class CleanTest(live.LiveTest):
    def clean(self, *pids: int, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        return self.run_proftrace("clean", *(word for pid in pids for word in ("-p", pid)), prefix=prefix)

    def forking_job(self) -> Path:
        script = self.directory / "forking_job.py"
        script.write_text(FORKING_JOB)
        return script

    def assert_is_clean(self, pid: int) -> None:
        self.assertEqual((live.changed_text_bytes(pid), patch_regions(pid)), (0, []))

    def test_after_a_killed_tracer(self) -> None:
        with PatchJob(THREADS, LONG) as job, PatchJob(THREADS, LONG) as other:
            patch(job.pid, 0.1)
            fds = files(job.pid)
            leave_patches(job.pid)
            done = self.clean(job.pid, other.pid)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            lines = done.stdout.splitlines()
            self.assertRegex(lines[0], rf"^PID {job.pid}: [5-9]\d\d\d jumps and \d+ bytes of memory removed$")
            self.assertEqual(lines[1:], [f"nothing is left in PID {other.pid}"])
            self.assert_is_clean(job.pid)
            self.assertEqual(files(job.pid), fds)
            self.assertEqual(self.clean(job.pid).stdout, f"nothing is left in PID {job.pid}\n")
            self.assertIsNone(job.process.poll())

    def test_children_are_cleaned_with_it_and_without_it(self) -> None:
        for named in ("parent", "orphan"):
            with self.subTest(named=named), PatchJob(script=self.forking_job()) as forking:
                job, pid = forking.process, forking.pid
                tool = subprocess.Popen([TOOL, str(pid), "100"], stdout=subprocess.DEVNULL)
                wait_until_patched(pid, tool)
                tell(job)
                children = [int(word) for word in job.stdout.readline().split()]
                # As long as the tracer lives they are not anybody else's either.
                self.assert_fails(4, ("clean", "-p", children[0]), f"PID {children[0]} is being patched by proftrace PID {tool.pid}")
                tool.kill()
                tool.wait()
                for child in children:
                    self.assertGreater(live.changed_text_bytes(child), 10_000)
                done = self.clean(pid if named == "parent" else children[0])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                cleaned = sorted(int(line.split()[1].rstrip(":")) for line in done.stdout.splitlines())
                self.assertEqual(cleaned, sorted([pid, *children]))
                for one in cleaned:
                    self.assert_is_clean(one)
                tell(job)
                self.assertEqual(job.stdout.readline(), "whole\n")
                self.assertEqual(job.wait(live.STOP_S), 0)

    def test_another_tracer_keeps_its_own(self) -> None:
        with PatchJob(THREADS, LONG) as job:
            tool = subprocess.Popen([TOOL, str(job.pid), "100"], stdout=subprocess.PIPE, text=True)
            wait_until_patched(job.pid, tool)
            self.assert_fails(4, ("clean", "-p", job.pid), f"PID {job.pid} is being patched by proftrace PID {tool.pid}")
            tool.send_signal(signal.SIGINT)
            output, _ = tool.communicate(timeout=60)
            self.assertIn("; OK", output)
            self.assert_is_clean(job.pid)

    def test_who_is_not_there(self) -> None:
        child = subprocess.Popen(["true"])
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assert_fails(3, ("clean", "-p", child.pid), str(child.pid))
        child.wait()
        self.assert_fails(3, ("clean", "-p", child.pid), str(child.pid))
        self.assert_fails(2, ("clean",))

    def test_without_root(self) -> None:
        user = live.nobody()
        with PatchJob(THREADS, LONG) as foreign:
            self.assert_fails(4, ("clean", "-p", foreign.pid), str(foreign.pid), prefix=user)
        with PatchJob(THREADS, LONG, prefix=user) as job:
            leave_patches(job.pid)
            done = self.clean(job.pid, prefix=user)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"PID {job.pid}: ", done.stdout)
            self.assert_is_clean(job.pid)
            self.assertIsNone(job.process.poll())


if __name__ == "__main__":
    live.run()

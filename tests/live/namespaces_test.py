#!/usr/bin/env python3
"""Targets in namespaces of their own, and libraries that were replaced while they are used."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import unittest
from pathlib import Path

import live
from live import HERE, Job, LiveTest, Result, Tracer


def child_of(pid: int) -> int:
    """The only child."""
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            children.append(int(path.parent.name))
    assert len(children) == 1, children
    return children[0]


class NamespaceTest(LiveTest):
    def test_a_tracer_in_a_time_namespace_records_by_the_kernels_clock(self) -> None:
        inside = ("unshare", "--time", "--monotonic", "100000", "--boottime", "100000", "--fork")
        with Job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--activities", "cpu,sched", "--sample", "99Hz", prefix=inside) as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(job.do("steps 5"))
                subprocess.run(["pkill", "-INT", "-P", str(tracer.process.pid)], check=False)
                self.assertEqual(tracer.wait(), 0, tracer.text())
            result = Result(self.out)
            self.assert_lossless(result)
            rows = [row for row in result.events() if row["path"] == "step"]
            self.assertEqual(len(rows), 5)
            # The rows' times are Unix times all the same.
            self.assertLess(abs(int(rows[0]["start_ns"]) / 1e9 - time.time()), 600)

    def test_a_wrapper_names_what_it_started(self) -> None:
        with Job(prefix=("timeout", "300")) as job:
            child = child_of(job.pid)
            for tier in ("bpf", "patch"):
                self.assert_fails(5, ("record", "-p", job.pid, "-d", "1s", "-o", self.out, "--tier", tier), f"{child} .*proftrace -p {child}")
        with Job(prefix=("sh", "-c", '"$@"; true', "sh", "nice")) as job:
            grandchild = child_of(job.pid)
            self.assert_fails(5, ("record", "-p", job.pid, "-d", "1s", "-o", self.out), f"{grandchild} .*proftrace -p {grandchild}")

    def test_ids_of_a_job_in_a_container_are_the_hosts(self) -> None:
        with Job(prefix=live.CONTAINER) as job:
            pid = child_of(job.pid)
            self.assertEqual(job.own_pid, 1)
            with Tracer("-p", pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(job.do("steps 5"))
                answer = job.do("fork 1")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(self.out)
            self.assert_lossless(result)
            rows = [row for row in result.events() if row["path"] == "step"]
            self.assertEqual([(row["pid"], row["tid"]) for row in rows], [(str(pid), str(pid))] * 5)
            # The child told the number that it has in the container.
            child = int(answer["children"].split(":")[0])
            self.assertNotIn(child, [target["pid"] for target in result.summary["target"]])
            self.assertEqual(len(result.summary["target"]), 2)

    def test_within_one_container_the_ids_are_the_containers(self) -> None:
        inside = (
            "import os, subprocess, sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
            "import live; from live import Job, LiveTest, Tracer\n"
            "LiveTest.python = sys.argv[3]\n"
            "with Job() as job, Tracer('-p', job.pid, '-o', sys.argv[4], '--format', 'events-csv') as tracer:\n"
            "    tracer.wait_until_recording(); job.do('steps 5'); job.do('fork 1')\n"
            "    print('PID', job.own_pid, tracer.stop(), tracer.text())\n")
        done = subprocess.run([*live.CONTAINER, sys.executable, "-c", inside, str(HERE), str(HERE.parent / "oracle"),
                               LiveTest.python, str(self.out)], capture_output=True, text=True, timeout=live.WORK_S)
        said = re.search(r"^PID (\d+) (\d+)", done.stdout, re.MULTILINE)
        self.assertIsNotNone(said, done.stdout + done.stderr)
        self.assertEqual(said.group(2), "0", done.stdout)
        self.assertLess(int(said.group(1)), 50)
        result = Result(self.out)
        self.assert_lossless(result)
        rows = [row for row in result.events() if row["path"] == "step"]
        self.assertEqual([(row["pid"], row["tid"]) for row in rows], [(said.group(1), said.group(1))] * 5)
        self.assertEqual(len(result.summary["target"]), 2)


class OtherRootTest(LiveTest):
    def test_a_job_with_another_root_is_recorded_whole(self) -> None:
        """The tracer has the same mounts, in a namespace of their own, and not the root."""
        root = self.directory / "root"
        root.mkdir()
        inside = (
            "import os, subprocess, sys; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
            "def mount(*options): subprocess.run(['mount', *options], check=True)\n"
            "base, root = sys.argv[5], sys.argv[5] + '/all'\n"
            "mount('-t', 'tmpfs', 'none', base); mount('--make-private', base); os.mkdir(root)\n"
            "mount('--rbind', '/', root)\n"
            "import live; from live import Job, LiveTest, Tracer\n"
            "LiveTest.python = sys.argv[3]\n"
            "with Job(prefix=('chroot', root)) as job, "
            "Tracer('-p', job.pid, '-o', sys.argv[4], '--format', 'events-csv') as tracer:\n"
            "    tracer.wait_until_recording(); job.do('steps 5')\n"
            "    print('ENDED', tracer.stop(), tracer.text())\n")
        done = subprocess.run([*live.OWN_MOUNTS, sys.executable, "-c", inside, str(HERE), str(HERE.parent / "oracle"),
                               LiveTest.python, str(self.out), str(root)], capture_output=True, text=True, timeout=live.WORK_S)
        self.assertRegex(done.stdout, "ENDED 0", done.stdout + done.stderr)
        result = Result(self.out)
        self.assert_lossless(result)
        self.assertRegex(result.summary["target"][0]["torch_version"] or "none", r"^\d+\.\d+")
        self.assertEqual(sum(row["path"] == "step" for row in result.events()), 5)


class CopiedUpTest(LiveTest):
    """Libraries on overlayfs that were copied up after the job had mapped them."""

    def setUp(self) -> None:
        super().setUp()
        for name in ("upper", "work", "root"):
            (self.directory / name).mkdir()
        program = "import importlib.util, os; print(os.path.realpath(os.path.join(os.path.dirname(importlib.util.find_spec('torch').origin), 'lib/libtorch_cpu.so')))"
        done = subprocess.run([LiveTest.python, "-c", program], capture_output=True, text=True, check=True)
        self.library = Path(done.stdout.strip())

    def overlay(self, lower: str, place: str) -> str:
        """A command of the shell."""
        layers = f"lowerdir={lower},upperdir={self.directory}/upper,workdir={self.directory}/work"
        return f"mount -t overlay overlay -o {layers} {place}"

    def in_job(self, job: Job, *command: str) -> None:
        subprocess.run(["nsenter", "-m", "-r", "-t", str(job.pid), *command], check=True)

    def records(self, job: Job, *tiers: str) -> None:
        for tier in tiers:
            with self.subTest(tier):
                tracer = Tracer("-p", job.pid, "-o", self.out, "--force", "--tier", tier, "--format", "events-csv")
                result, answers = self.record_by(tracer, job, "steps 5")
                self.assert_same_results(answers[0])
                paths = [row["path"] for row in result.events()]
                self.assertEqual(paths.count("step"), 5)
                self.assertGreater(sum(path.startswith("step/aten::") for path in paths), 50)
                self.assertEqual(live.changed_text_bytes(job.pid), 0)

    def test_a_layer_below_the_overlay_that_is_mounted_over_it(self) -> None:
        folder = str(self.library.parent)
        with Job(prefix=(*live.OWN_MOUNTS, "sh", "-c", self.overlay(folder, folder) + ' && exec "$0" "$@"')) as job:
            self.records(job, "bpf")
            self.in_job(job, "chmod", "u+x,g+x", str(self.library))
            self.records(job, "bpf", "patch")
            # Started later, and has the copy mapped.
            with Job(prefix=("nsenter", "-m", "-t", str(job.pid))) as later:
                self.records(later, "bpf")
            self.in_job(job, "sh", "-c", f"printf x >> {self.library}")
            record = ("-p", job.pid, "-o", self.out, "--force", "-d", "300ms", "--format", "none")
            done = self.run_proftrace(*record, "--tier", "bpf")
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assert_one_sentence(done.stderr.splitlines()[-1] + "\n", "probes of libtorch_cpu.so.* do not reach PID", "--tier patch")
            done = self.run_proftrace(*record, "--tier", "patch")
            self.assertEqual(done.returncode, 0, done.stderr)
            reasons = [gap["reason"] for gap in Result(self.out).summary["unsupported"]]
            self.assertTrue(any("do not reach PID" in reason for reason in reasons), reasons)

    def test_a_container_whose_root_is_an_overlay(self) -> None:
        root = self.directory / "root"
        bind = " && ".join(f"mount --rbind /{name} {root}/{name}" for name in ("proc", "sys", "dev", "tmp"))
        command = f'{self.overlay("/", str(root))} && {bind} && exec chroot {root} "$0" "$@"'
        with Job(prefix=(*live.OWN_MOUNTS, "sh", "-c", command)) as job:
            self.in_job(job, "chown", "1:1", str(self.library))
            self.records(job, "bpf", "patch")


class ReplacedLibraryTest(LiveTest):
    """The job runs on a copy of libtorch_cpu, loaded before the installed one."""

    def libraries(self) -> list[Path]:
        """All that torch maps, libtorch_cpu first."""
        program = "import torch; print(*{l.split(maxsplit=5)[-1].strip() for l in open('/proc/self/maps') if '.so' in l}, sep='\\n')"
        done = subprocess.run([LiveTest.python, "-c", program], capture_output=True, text=True, check=True)
        return sorted(map(Path, done.stdout.split("\n")[:-1]), key=lambda path: not path.name.startswith("libtorch_cpu"))

    def test_a_library_that_was_replaced_or_deleted_is_still_found(self) -> None:
        libraries = self.libraries()
        library = libraries[0].resolve()
        copy = self.directory / library.name
        subprocess.run(["cp", "--reflink=auto", str(library), str(copy)], check=True)
        folders = ":".join({str(path.parent): None for path in libraries})  # the copy's own do not lead to these
        with Job(environment={"LD_PRELOAD": str(copy), "LD_LIBRARY_PATH": folders}, fresh=True) as job:
            maps = Path(f"/proc/{job.pid}/maps")
            self.assertIn(str(copy), maps.read_text())
            for number, replace in enumerate((lambda: copy.unlink(), lambda: copy.write_text("something else"))):
                replace()
                self.assertIn(f"{copy} (deleted)", maps.read_text())
                out = self.directory / f"result{number}"
                with Tracer("-p", job.pid, "-o", out, "--format", "events-csv") as tracer:
                    tracer.wait_until_recording()
                    self.assert_same_results(job.do("steps 5"))
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                result = Result(out)
                self.assert_lossless(result)
                self.assertEqual(sum(row["path"] == "step/forward/aten::linear" for row in result.events()), 15)


if __name__ == "__main__":
    live.run()

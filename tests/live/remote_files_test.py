#!/usr/bin/env python3
"""PyTorch on a file system that is a program (FUSE): root may not open its files, and it may never answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

import live
from live import NOBODY, Job, LiveTest, Result, Tracer

HERE = Path(__file__).resolve().parent
FIND = "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])"
# A question is waited for so long, and one more may be under way.
SILENT_S = 5.0


class RemoteJob:
    """A job whose libtorch_cpu lies on a FUSE file system of its user's alone, or on an overlay of one."""

    def __init__(self, directory: Path, is_overlay: bool = False) -> None:
        folder = directory / "torch libraries"
        folder.mkdir()
        folder.chmod(0o755)
        package = subprocess.run([LiveTest.python, "-c", FIND], check=True, capture_output=True, text=True).stdout.strip()
        library = Path(package) / "lib/libtorch_cpu.so"
        self.path = folder / (Path(os.readlink(library)).name if library.is_symlink() else library.name)
        # In a wheel its neighbours are looked for beside it.
        for file in [library] if library.is_symlink() else library.parent.glob("lib*.so*"):
            (folder / (self.path.name if file == library else file.name)).symlink_to(file.resolve())
        server = [sys.executable, str(HERE / "fuse_server.py"), str(folder), str(NOBODY)]
        place = folder
        above: list[str] = []
        if is_overlay:
            place, empty = directory / "merged", directory / "empty"
            for made in (place, empty):
                made.mkdir()
                made.chmod(0o755)
            self.path = place / self.path.name
            server.append("allow_other")  # the overlay's mounter, root, opens them
            above = ["sh", "-c", f"mount -t overlay overlay -o 'ro,lowerdir={folder}:{empty}' {place} && exec \"$@\"", "sh"]
        # Nobody but root reads through an overlay of a file system that knows no access lists.
        user = () if is_overlay else live.nobody()
        prefix = (*server, "--", *above, *user, "env", f"LD_LIBRARY_PATH={place}")
        self.job = Job(prefix=prefix)
        self.pid = self.job.own_pid

    def stop_server(self) -> None:
        os.kill(self.job.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.job.process.pid, signal.SIGCONT)


class RemoteFilesTest(LiveTest):
    @contextlib.contextmanager
    def remote_job(self, is_overlay: bool = False) -> Iterator[RemoteJob]:
        remote = RemoteJob(self.directory, is_overlay)
        with remote.job:
            maps = Path(f"/proc/{remote.pid}/maps").read_text()
            self.assertIn(str(remote.path), maps)
            try:
                yield remote
            finally:
                remote.go_on()

    def check_recorded(self, remote: RemoteJob, tier: str) -> None:
        out = self.directory / tier
        with Tracer("-p", remote.pid, "-o", out, "--format", "events-csv", "--tier", tier) as tracer:
            tracer.wait_until_recording()
            self.assert_same_results(remote.job.do("steps 3"))
            self.assertEqual(tracer.stop(), 0, tracer.text())
        names = Result(out).names[remote.pid]
        self.assertGreater(names["aten::addmm"] + names["aten::mm"], 0, names)
        self.assertEqual(live.patches(remote.pid), [])

    def test_what_only_its_user_may_open_is_recorded(self) -> None:
        with self.remote_job() as remote:
            for tier in ("bpf", "patch"):
                with self.subTest(tier=tier):
                    self.check_recorded(remote, tier)
            self.assert_same_results(remote.job.do("steps 3"))

    def test_an_overlay_is_as_remote_as_its_layers(self) -> None:
        with self.remote_job(is_overlay=True) as remote:
            for tier in ("bpf", "patch"):
                with self.subTest(tier=tier):
                    self.check_recorded(remote, tier)

    def test_one_that_does_not_answer_costs_only_its_own_job(self) -> None:
        self.check_silent(is_overlay=False, kind="fuse.tested")

    def test_an_overlay_of_one_that_does_not_answer_neither(self) -> None:
        self.check_silent(is_overlay=True, kind="overlay")

    def check_silent(self, is_overlay: bool, kind: str) -> None:
        with Job() as other, self.remote_job(is_overlay) as remote:
            remote.stop_server()
            with Tracer("-p", remote.pid, "-p", other.pid, "-o", self.out, "--format", "events-csv") as tracer:
                tracer.wait_until_recording()
                self.assert_same_results(other.do("steps 3"))
                begin = time.monotonic()
                self.assertEqual(tracer.stop(), 0, tracer.text())
                self.assertLess(time.monotonic() - begin, 2 * SILENT_S)
                self.assertRegex(tracer.text(), rf"PID {remote.pid} is not recorded: .*{remote.path.name}.*{kind}.* does not answer")
            self.assertGreater(sum(Result(self.out).names[other.pid].values()), 0)
            remote.go_on()
            self.assert_same_results(remote.job.do("steps 3"))

    def check_readers(self, tracer: int, remote: RemoteJob) -> None:
        """The processes that read the library for it hold none of its streams: they may have to wait for the file system for ever."""
        readers = []
        for child in Path(f"/proc/{tracer}/task/{tracer}/children").read_text().split():
            descriptors = {entry.name: os.readlink(entry) for entry in Path(f"/proc/{child}/fd").iterdir()}
            if str(remote.path) in descriptors.values():
                readers.append(child)
                self.assertEqual({descriptors[stream] for stream in "012"}, {"/dev/null"}, descriptors)
        self.assertTrue(readers)

    def test_the_end_is_not_waited_for(self) -> None:
        with self.remote_job() as remote:
            remote.stop_server()
            with Tracer("-p", remote.pid, "-o", self.out, "--format", "none") as tracer:
                reader = Path(f"/proc/{tracer.process.pid}/task/{tracer.process.pid}/children")
                live.wait_until(lambda: bool(reader.read_text().strip()), live.READY_S, "a process that reads the file")
                begin = time.monotonic()
                self.assertNotEqual(tracer.stop(), 0, tracer.text())
                self.assertLess(time.monotonic() - begin, SILENT_S)

    def test_one_that_stops_answering_while_it_is_recorded(self) -> None:
        for tier in ("bpf", "patch"):
            with self.subTest(tier=tier), contextlib.ExitStack() as stack:
                remote = stack.enter_context(self.remote_job())
                out = self.directory / tier
                with Tracer("-p", remote.pid, "-o", out, "--format", "events-csv", "--tier", tier) as tracer:
                    tracer.wait_until_recording()
                    self.assert_same_results(remote.job.do("steps 3"))
                    self.check_readers(tracer.process.pid, remote)
                    remote.stop_server()
                    self.assertIn(tracer.stop(), (0, 6), tracer.text())
                self.assertGreater(sum(Result(out).names[remote.pid].values()), 0)
                remote.go_on()
                self.assert_same_results(remote.job.do("steps 3"))
                for path in (self.directory / "torch libraries").iterdir():
                    path.unlink()
                (self.directory / "torch libraries").rmdir()


if __name__ == "__main__":
    live.run()

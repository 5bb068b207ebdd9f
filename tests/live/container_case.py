"""Tests of containers: one job in a container of Docker's defaults, and one root directory for all containers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import live
from container import Spec
from live import Job, LiveTest


def first_of(runner: int) -> int:
    """The first process of the container that this process runs."""
    found: list[Path] = []
    live.wait_until(lambda: bool(found.extend(Path("/run").glob(f"proftrace-{runner}/*/status")) or found), live.START_S, "a container")
    return int(json.loads(found[0].read_text())["pid"])


@contextlib.contextmanager
def job_in(spec: Spec) -> Iterator[Job]:
    """A job as a container's first process; `pid` is the host's."""
    with Job(prefix=spec.prefix()) as job:
        job.pid = first_of(job.process.pid)
        try:
            yield job
        finally:
            os.kill(job.pid, signal.SIGKILL)  # it has a session of its own
            job.process.wait()


class ContainerTest(LiveTest):
    """Starts the job, and runs commands in other containers with the same root."""

    base: Path
    root: Path
    shared: Path  # the same path in all containers
    program: Path
    job: Job
    stack: contextlib.ExitStack

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        cls.base = Path(tempfile.mkdtemp(prefix="proftrace-containers-"))
        cls.base.chmod(0o755)
        cls.stack.callback(shutil.rmtree, cls.base, ignore_errors=True)
        names = ("root", "upper", "work", "shared")
        cls.root, upper, work, cls.shared = (cls.base / name for name in names)
        for name in names:
            (cls.base / name).mkdir()
        cls.shared.chmod(0o777)
        layers = f"lowerdir=/,upperdir={upper},workdir={work}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, str(cls.root)], check=True)
        cls.stack.callback(subprocess.run, ["umount", "-l", str(cls.root)], check=True)
        cls.program = cls.shared / "proftrace"
        shutil.copy(live.BINARY, cls.program)
        (cls.shared / "cache").mkdir(mode=0o777)
        cls.job = cls.stack.enter_context(job_in(cls.spec()))
        cls.job.tell("loop")

    @classmethod
    def spec(cls, **changes: object) -> Spec:
        folders = {str(live.HERE), str(Path(cls.python).resolve().parents[1]), str(Path(cls.python).parents[1])}
        # What the root has already needs no mount, unless it lies on another file system.
        plans = f"{cls.shared}/cache" if "uid" in changes else os.environ["PROFTRACE_CACHE_DIR"]  # another user has plans of his own
        binds = [str(cls.shared), os.environ["PROFTRACE_CACHE_DIR"], *sorted(folder for folder in folders if os.stat(folder).st_dev != os.stat("/").st_dev)]
        return Spec(root=str(cls.root), binds=tuple(binds), variables=(f"PROFTRACE_CACHE_DIR={plans}",), **changes)

    def beside_the_job(self, **changes: object) -> Spec:
        """In the job's PID namespace: docker run --pid=container:JOB, an ephemeral container, a pod's sidecar."""
        return dataclasses.replace(self.spec(**changes), pid=f"/proc/{self.job.pid}/ns/pid")

    def run_in(self, spec: Spec, *command: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*spec.prefix(), *map(str, command)], capture_output=True, text=True, timeout=live.WORK_S, cwd=self.base)

    def setUp(self) -> None:
        super().setUp()
        self.result = Path(tempfile.mkdtemp(prefix="result-", dir=self.shared))

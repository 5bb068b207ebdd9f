"""Jobs that are forks of a process that has imported torch (job_server.py)."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import IO

HERE = Path(__file__).resolve().parent


class ForkedJob:
    """What the tests use of subprocess.Popen."""

    def __init__(self, server: "JobServer", pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> None:
        self.server, self.pid, self.stdin, self.stdout = server, pid, stdin, stdout
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self.server.code(self, 0)

    def wait(self, timeout: float | None = None) -> int:
        if self.server.code(self, timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("a forked job", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class JobServer:
    """One a process, started with the first job."""

    def __init__(self, python: str, environment: dict[str, str]) -> None:
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.process = subprocess.Popen([python, str(HERE / "job_server.py"), str(other.fileno())], stdin=subprocess.DEVNULL,
                                            pass_fds=[other.fileno()], env=environment, cwd=HERE)
        self.told = threading.Condition()
        self.begun: list[int] = []
        self.ended: dict[int, int] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while message := self.socket.recv(4096):
            said = json.loads(message)
            with self.told:
                if "begun" in said:
                    self.begun.append(said["begun"])
                else:
                    self.ended[said["ended"]] = said["code"]
                self.told.notify_all()

    def start(self, script: Path, environment: dict[str, str], timeout_s: float) -> ForkedJob:
        job_reads, we_write = os.pipe()
        we_read, job_writes = os.pipe()
        request = json.dumps({"script": str(script), "environment": environment})
        socket.send_fds(self.socket, [request.encode()], [job_reads, job_writes])
        os.close(job_reads), os.close(job_writes)
        with self.told:
            if not self.told.wait_for(lambda: self.begun, timeout_s):
                raise TimeoutError(f"no job within {timeout_s:g} s; the server's exit code: {self.process.poll()}")
            pid = self.begun.pop()
        return ForkedJob(self, pid, os.fdopen(we_write, "wb"), os.fdopen(we_read, "rb"))

    def code(self, job: ForkedJob, timeout_s: float | None) -> int | None:
        """The exit code, as Popen's, when it is there."""
        with self.told:
            if job.returncode is None and self.told.wait_for(lambda: job.pid in self.ended, timeout_s):
                job.returncode = self.ended.pop(job.pid)
        return job.returncode

#!/usr/bin/env python3
"""Starts jobs by forking itself: torch, which takes two seconds of a processor to import, it has imported once.

argv[1]: the number of a socket (SOCK_SEQPACKET). What comes is a script and variables as JSON, with the two descriptors that become
its stdin and stdout; a message goes back with the job's PID, and another one when it has ended.
"""

from __future__ import annotations

import json
import os
import runpy
import select
import signal
import socket
import sys

import torch  # noqa: F401
import torch.utils.data  # noqa: F401

REQUEST_BYTES = 1 << 20


def tell(server: socket.socket, message: dict[str, int]) -> None:
    server.send(json.dumps(message).encode())


def report_ended(server: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        tell(server, {"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def next_job(server: socket.socket) -> str | None:
    """Serves until a fork of it is a job: the job's script. None: nobody asks any more."""
    waking, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken)
    while True:
        ready, _, _ = select.select([server, waking], [], [])
        if waking in ready:
            os.read(waking, 4096)
            report_ended(server)
        if server not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(server, REQUEST_BYTES, 2)
        if not request:
            return None
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            for descriptor in (*descriptors, waking, woken):
                os.close(descriptor)
            server.close()
            wanted = json.loads(request)
            os.environ.update(wanted["environment"])
            return wanted["script"]
        for descriptor in descriptors:
            os.close(descriptor)
        tell(server, {"begun": pid})


if __name__ == "__main__":
    script = next_job(socket.socket(fileno=int(sys.argv[1])))
    if script is not None:
        sys.argv = [script]
        runpy.run_path(script, run_name="__main__")

"""Threads that wait in one blocking system call each, and say which of them saw EINTR."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from typing import Callable

import torch

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SECONDS = 2
TIME = struct.pack("qq", SECONDS, 0)
interrupted: set[str] = set()
is_over = threading.Event()
keep: list[object] = []  # what calls point to


def word(value: object) -> object:
    if isinstance(value, bytes):
        value = ctypes.create_string_buffer(value, max(len(value), 1))
        keep.append(value)
        return ctypes.addressof(value)
    return value


def wait_in(name: str, number: int, *arguments: object) -> None:
    words = [ctypes.c_long(word(argument)) for argument in arguments]
    while not is_over.is_set():
        if libc.syscall(ctypes.c_long(number), *words) < 0 and ctypes.get_errno() == errno.EINTR:
            interrupted.add(name)


def calls() -> dict[str, tuple[object, ...]]:
    reader, writer = os.pipe()
    quiet, _keep = os.pipe()
    keep.append((writer, _keep))
    poll = struct.pack("ihh", quiet, select.POLLIN, 0)
    bits = bytearray(128)
    bits[quiet // 8] |= 1 << quiet % 8
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    plain, other = socket.socketpair()
    timed, other_timed = socket.socketpair()
    timed.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, TIME)
    full, unread = socket.socketpair()
    full.setblocking(False)
    try:
        while full.send(b"x" * 65536):
            pass
    except BlockingIOError:
        pass
    full.setblocking(True)
    full.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, TIME)
    epoll = select.epoll()
    epoll.register(quiet, select.EPOLLIN)
    semaphores = libc.semget(0, 1, 0o600)
    queue = libc.msgget(0, 0o600)
    take = struct.pack("Hhh", 0, -1, 0)
    locked = tempfile.NamedTemporaryFile()
    fcntl.flock(locked, fcntl.LOCK_EX)
    again = open(locked.name, "rb")
    ranged = tempfile.NamedTemporaryFile()
    # Another process holds the lock: one's own locks do not keep one waiting.
    holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); "
                               "print(flush=True); sys.stdin.read()", ranged.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    context = ctypes.c_long()
    libc.syscall(ctypes.c_long(206), ctypes.c_long(1), ctypes.byref(context))
    keep.extend((listener, plain, other, timed, other_timed, full, unread, epoll, locked, again, ranged, holder))
    ends.extend((lambda: os.write(writer, b"x" * 64), lambda: socket.create_connection(listener.getsockname()), lambda: other.send(b"x"),
                 lambda: (libc.semctl(semaphores, 0, 0), libc.msgctl(queue, 0, 0)), lambda: fcntl.flock(locked, fcntl.LOCK_UN), holder.kill))
    none = bytes(8)
    return {
        "read": (0, reader, bytes(1), 1), "poll": (7, poll, 1, SECONDS * 1000), "select": (23, quiet + 1, bytes(bits), 0, 0, TIME),
        "nanosleep": (35, TIME, 0), "accept": (43, listener.fileno(), 0, 0), "recv": (45, plain.fileno(), bytes(1), 1, 0, 0, 0),
        "recv with a timeout": (45, timed.fileno(), bytes(1), 1, 0, 0, 0), "send with a timeout": (44, full.fileno(), bytes(1), 1, 0, 0, 0),
        "semop": (65, semaphores, take, 1), "semtimedop": (220, semaphores, take, 1, TIME), "msgrcv": (70, queue, bytes(16), 8, 0, 0),
        "flock": (73, again.fileno(), fcntl.LOCK_EX), "fcntl(F_SETLKW)": (72, ranged.fileno(), 7, struct.pack("hhqqi4x", 1, 0, 0, 0, 0)),
        "sigtimedwait": (128, none, 0, TIME, 8), "futex": (202, bytes(4), 128, 0, TIME, 0, 0), "clock_nanosleep": (230, 1, 0, TIME, 0),
        "epoll_wait": (232, epoll.fileno(), bytes(16), 1, SECONDS * 1000), "waitid": (247, 1, holder.pid, bytes(128), 4, 0),
        "pselect": (270, quiet + 1, bytes(bits), 0, 0, TIME, 0), "ppoll": (271, poll, 1, TIME, 0, 8),
        "epoll_pwait": (281, epoll.fileno(), bytes(16), 1, SECONDS * 1000, 0, 8), "io_getevents": (208, context.value, 1, 1, bytes(64), TIME),
    }


ends: list[Callable[[], object]] = []


def main() -> None:
    torch.set_num_threads(1)
    waits = calls()
    threads = [threading.Thread(target=wait_in, args=(name, *call), daemon=True) for name, call in waits.items()]
    for thread in threads:
        thread.start()
    print("READY", os.getpid(), flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            is_over.set()
            for end in ends:
                end()
            for thread in threads:
                thread.join(10 * SECONDS)
            named = ",".join(name.replace(" ", "_") for name in sorted(interrupted))
            print(f"DONE interrupted={named} waits={len(waits)} alive={sum(thread.is_alive() for thread in threads)}", flush=True)
            continue
        torch.ones(3).add_(1)
        print("DONE step=1", flush=True)


if __name__ == "__main__":
    main()

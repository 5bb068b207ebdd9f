"""A job that reads, writes and waits for a lock, with sums of its own. A line of input starts it once it has
printed READY; its last line are the sums."""

import json
import os
import socket
import sys
import tempfile
import threading

import torch
from torch.profiler import record_function

ROUNDS = 5
HOLD_S = 0.02
torch.ones(2).add(1)
folder = tempfile.mkdtemp()
source, copy = os.path.join(folder, "source"), os.path.join(folder, "copy")
with open(source, "wb") as file:
    file.write(os.urandom(200_000))


def move_bytes():
    """What each file gave and got, in all ways that Python has."""
    got = {source: 0, copy: 0}
    put = {source: 0, copy: 0}
    fd = os.open(source, os.O_RDONLY)
    out = os.open(copy, os.O_RDWR | os.O_CREAT)
    for i in range(100):
        got[source] += len(os.pread(fd, 777, i * 100))
        put[copy] += os.write(out, b"y" * 123)
    got[source] += os.readv(fd, [bytearray(1000), bytearray(2345)])
    got[source] += os.preadv(fd, [bytearray(500)], 10)
    put[copy] += os.writev(out, [b"1" * 10, b"2" * 20])
    put[copy] += os.pwritev(out, [b"q" * 77], 5)
    reader, writer = os.pipe()
    pipe = os.readlink(f"/proc/self/fd/{writer}")
    put[pipe] = 0
    for target, moved in ((copy, os.sendfile(out, fd, 100, 5000)), (copy, os.copy_file_range(fd, out, 3000, 0, 50_000)),
                          (pipe, os.splice(fd, writer, 2000, offset_src=0))):
        got[source] += moved
        put[target] += moved
    os.read(reader, 5000)
    one, other = socket.socketpair()
    one.send(b"a" * 11)
    other.recv(100)
    os.write(one.fileno(), b"b" * 13)
    os.read(other.fileno(), 100)
    got[source] += len(os.read(fd, 1 << 20))
    for file in (fd, out, reader, writer):
        os.close(file)
    return got, put


def wait_for_each_other():
    lock = threading.Lock()
    held = threading.Event()

    def hold():
        for _ in range(ROUNDS):
            with record_function("holder"):
                lock.acquire()
                held.set()
                threading.Event().wait(HOLD_S)
                with record_function("releasing"):
                    lock.release()
            while held.is_set():
                threading.Event().wait(0.001)

    thread = threading.Thread(target=hold)
    thread.start()
    for _ in range(ROUNDS):
        held.wait()
        with record_function("waiter"):
            lock.acquire()
        lock.release()
        held.clear()
    thread.join()


print("READY", flush=True)
sys.stdin.readline()
got, put = move_bytes()
wait_for_each_other()
print(json.dumps({"got": got, "put": put}), flush=True)
sys.stdin.readline()

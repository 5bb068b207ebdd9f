"""Waits of known length inside known operators, modules and workers. MODE: planted, threads, readers or loader."""

import os
import sys
import threading
import time

import torch
from torch.profiler import record_function

torch.set_num_threads(1)
SLEEP, LOCK, READ = 0.030, 0.020, 0.025


def wait_for_line(word):
    print(word, os.getpid(), flush=True)
    sys.stdin.readline()


class Sleeper(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        time.sleep(SLEEP)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def planted():
    reader, writer = os.pipe()
    lock = threading.Lock()
    rounds = 10
    go = threading.Barrier(2)

    def other():
        for _ in range(rounds):
            go.wait()
            with lock:
                go.wait()
                time.sleep(LOCK)
            go.wait()
            time.sleep(READ)
            os.write(writer, b"x")

    thread = threading.Thread(target=other, name="other")
    x = torch.randn(64, 64)
    wait_for_line("READY")
    thread.start()
    for _ in range(rounds):
        with record_function("round"):
            with record_function("sleep"):
                Sleeper.apply(x)
            with record_function("compute"):
                for _ in range(30):
                    torch.mm(x, x)
            go.wait()
            go.wait()
            with record_function("lock"):
                with lock:
                    pass
            go.wait()
            with record_function("read"):
                os.read(reader, 1)
    thread.join()


def threads():
    def work(seed):
        state = seed
        while not stop.is_set():
            state = (state * 1664525 + 1013904223) % 2**32
            sum(range(state % 30000))
            if state % 3 == 0:
                time.sleep(state % 3000 * 1e-6)

    stop = threading.Event()
    for seed in range(4):
        threading.Thread(target=work, args=(seed,), daemon=True).start()
    # What takes the CPU away from them.
    child = os.fork()
    if child == 0:
        while os.getppid() != 1:
            sum(range(100000))
        os._exit(0)
    wait_for_line("READY")
    stop.set()
    os.kill(child, 9)


def readers():
    pipes = [os.pipe() for _ in range(128)]
    for reader, _ in pipes:
        threading.Thread(target=os.read, args=(reader, 1), daemon=True).start()

    def work():
        while True:
            sum(range(1000))
            time.sleep(0.001)

    threading.Thread(target=work, daemon=True).start()
    wait_for_line("READY")


class Slow(torch.utils.data.Dataset):
    """Item 7 of each eight is read from a pipe that has nothing for a while."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 64

    def __getitem__(self, index):
        with open(self.path, "rb", buffering=0) as file:
            file.read(1 << 20)
        if index % 8 == 7:
            reader, writer = os.pipe()
            threading.Timer(0.060, os.write, (writer, b"x")).start()
            os.read(reader, 1)
        return torch.full((4,), float(index))


def loader():
    path = sys.argv[2]
    with open(path, "wb") as file:
        file.write(b"z" * (1 << 20))
    wait_for_line("READY")
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.utils.data.DataLoader(Slow(path), batch_size=8, num_workers=2, prefetch_factor=1)
    for _ in range(2):
        for batch in data:
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()


{"planted": planted, "threads": threads, "readers": readers, "loader": loader}[sys.argv[1]]()
if sys.argv[1] not in ("threads", "readers"):
    wait_for_line("DONE")

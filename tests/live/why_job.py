"""Steps that take so long for one reason. Commands on stdin, one a line:

    start KIND   DONE kind=…; steps of that kind until `stop`
    stop         DONE steps=…

Each kind has one cause that is planted, or looks as if it had one (KINDS in why_test.py says which)."""

from __future__ import annotations

import gc
import hashlib
import itertools
import mmap
import os
import queue
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Iterator

import torch
import torch.distributed
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)
Step = Callable[[], object]
FILE_BYTES = 4 << 20  # so many that reading them takes longer than a step, even from a fast disk


class Items(Dataset):  # type: ignore[type-arg]
    """`delay`: seconds that an item takes; `path`: a file that it reads whole; `work`: rounds of computing."""

    def __init__(self, delay: float = 0, path: str = "", work: int = 0) -> None:
        self.delay, self.path, self.work = delay, path, work

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.delay > 0:
            time.sleep(self.delay)
        if self.path:
            with open(self.path, "rb", buffering=0) as stream:
                while stream.read(1 << 16):
                    pass
                os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(self.work):
            index = (index * 1103515245 + 12345) % (1 << 31)
        return torch.full((16, 64), float(index % 7))


class Training:
    """A small model, trained by a step that takes about two milliseconds."""

    def __init__(self, width: int = 128) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 8))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self.batch = torch.ones(16, 64)

    def step(self, batch: torch.Tensor | None = None) -> None:
        self.optimizer.zero_grad()
        self.model(self.batch if batch is None else batch.reshape(-1, 64)).pow(2).mean().backward()
        self.optimizer.step()


def loader_steps(training: Training, **options: object) -> Iterator[None]:
    workers = int(options.pop("workers", 1))  # type: ignore[call-overload]
    for batch in DataLoader(Items(**options), batch_size=2, num_workers=workers):  # type: ignore[arg-type]
        training.step(batch)
        yield


class Holder(threading.Thread):
    """Holds the lock nearly always."""

    def __init__(self, held_s: float) -> None:
        super().__init__(daemon=True)
        self.lock, self.held_s, self.is_over = threading.Lock(), held_s, False

    def run(self) -> None:
        while not self.is_over:
            with self.lock:
                time.sleep(self.held_s)
            time.sleep(0.001)


class Beside(threading.Thread):
    """Does the same again and again, until it is over."""

    def __init__(self, work: Step) -> None:
        super().__init__(daemon=True)
        self.work, self.is_over = work, False

    def run(self) -> None:
        while not self.is_over:
            self.work()


def written(stream: object, size: int) -> None:
    stream.seek(0)  # type: ignore[attr-defined]
    stream.write(b"x" * size)  # type: ignore[attr-defined]
    os.fsync(stream.fileno())  # type: ignore[attr-defined]


def endless(step: Step) -> Iterator[None]:
    while True:
        step()
        yield


def python_work(rounds: int) -> int:
    value = 1
    for _ in range(rounds):
        value = (value * 1103515245 + 12345) % (1 << 31)
    return value


def join(path: str, rank: int) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)


def be_late(path: str) -> None:
    """The other rank of `late_rank`."""
    join(path, 1)
    flag = torch.zeros(1)
    while not flag:
        time.sleep(0.008)
        torch.distributed.all_reduce(flag)
    torch.distributed.destroy_process_group()


class Kinds:
    """An iterator for each kind, that makes a step at a time; what they leave is undone by close()."""

    def __init__(self) -> None:
        self.at_end: list[Step] = []
        self.folder = tempfile.mkdtemp(prefix="why-")

    def close(self) -> None:
        for action in reversed(self.at_end):
            action()
        self.at_end.clear()

    def beside(self, work: Step) -> None:
        thread = Beside(work)
        thread.start()

        def end() -> None:
            thread.is_over = True
            thread.join()

        self.at_end.append(end)

    def path(self) -> str:
        path = os.path.join(self.folder, "shard-17.bin")
        with open(path, "wb") as stream:
            stream.write(os.urandom(FILE_BYTES))
        return path

    def with_pause(self, pause: Step, every: int = 1) -> Iterator[None]:
        training, number = Training(), 0

        def step() -> None:
            nonlocal number
            training.step()
            number += 1
            if number % every == 0:
                pause()

        return endless(step)

    def loader_sleeps(self) -> Iterator[None]:
        return loader_steps(Training(), delay=0.008)

    def loader_reads(self) -> Iterator[None]:
        return loader_steps(Training(), path=self.path())

    def loader_computes(self) -> Iterator[None]:
        return loader_steps(Training(), work=60000)

    def loader_inline(self) -> Iterator[None]:
        return loader_steps(Training(), work=40000, workers=0)

    def sleep(self) -> Iterator[None]:
        return self.with_pause(lambda: time.sleep(0.006))

    def lock(self) -> Iterator[None]:
        holder = Holder(0.008)
        holder.start()

        def end() -> None:
            holder.is_over = True
            holder.join()

        self.at_end.append(end)

        def pause() -> None:
            with holder.lock:
                pass

        return self.with_pause(pause)

    def io(self) -> Iterator[None]:
        stream = open(os.path.join(self.folder, "log.bin"), "wb", buffering=0)
        self.at_end.append(stream.close)
        return self.with_pause(lambda: written(stream, 1 << 20))

    def socket(self) -> Iterator[None]:
        here, there = socket.socketpair()

        def serve() -> None:
            while there.recv(1):
                time.sleep(0.006)
                there.sendall(b"y")

        server = threading.Thread(target=serve, daemon=True)
        server.start()
        self.at_end += [there.close, server.join, here.close]

        def ask() -> None:
            here.sendall(b"x")
            here.recv(1)

        return self.with_pause(ask)

    def poll(self) -> Iterator[None]:
        reader, writer = os.pipe()
        self.at_end += [lambda: os.close(reader), lambda: os.close(writer)]
        return self.with_pause(lambda: select.select([reader], [], [], 0.006))

    def child(self) -> Iterator[None]:
        return self.with_pause(lambda: subprocess.run(["sleep", "0.01"], check=True))

    def pool(self) -> Iterator[None]:
        pool = ThreadPoolExecutor(1)
        self.at_end.append(pool.shutdown)
        return self.with_pause(lambda: pool.submit(time.sleep, 0.006).result())

    def queue(self) -> Iterator[None]:
        items: queue.Queue[int] = queue.Queue(1)

        def fill() -> None:
            time.sleep(0.006)
            try:
                items.put(1, timeout=0.1)
            except queue.Full:
                pass

        self.beside(fill)
        return self.with_pause(lambda: items.get())

    def python(self) -> Iterator[None]:
        return self.with_pause(lambda: python_work(60000))

    def gil(self) -> Iterator[None]:
        """Another thread computes in Python without an end."""
        self.beside(lambda: python_work(20000))
        return self.with_pause(lambda: python_work(2000))

    def one_operator(self) -> Iterator[None]:
        left, right = torch.randn(400, 400), torch.randn(400, 400)
        product = torch.empty(400, 400)
        return self.with_pause(lambda: torch.mm(left, right, out=product))

    def small_operators(self) -> Iterator[None]:
        values = torch.ones(4)

        def pause() -> None:
            for _ in range(1500):
                values.mul_(1)

        return self.with_pause(pause)

    def faults(self) -> Iterator[None]:
        """Memory that is used for the first time, and kept."""
        size = 8 << 20
        memory = mmap.mmap(-1, 1000 * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        pages = torch.frombuffer(memory, dtype=torch.uint8)
        offsets = itertools.cycle(range(0, 1000 * size, size))

        return self.with_pause(lambda: pages[(at := next(offsets)):at + size].fill_(1))

    def churn(self) -> Iterator[None]:
        """Tensors so large that the C library takes and gives back the memory of each."""
        return self.with_pause(lambda: torch.empty(48 << 20, dtype=torch.uint8).fill_(1))

    def kept(self) -> Iterator[None]:
        """The same work in a tensor that is kept."""
        tensor = torch.empty(48 << 20, dtype=torch.uint8)
        return self.with_pause(lambda: tensor.fill_(1))

    def run_queue(self) -> Iterator[None]:
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cpus)})
        rivals = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
        self.at_end.append(lambda: os.sched_setaffinity(0, cpus))
        for rival in rivals:
            self.at_end += [rival.wait, rival.kill]
        return self.with_pause(lambda: python_work(5000))

    def collection(self) -> Iterator[None]:
        kept = [[i] for i in range(200000)]
        self.at_end.append(kept.clear)
        return self.with_pause(lambda: gc.collect())

    def checkpoint(self) -> Iterator[None]:
        path = os.path.join(self.folder, "checkpoint.bin")
        state = torch.zeros(1 << 20)

        def save() -> None:
            with torch.autograd.profiler.record_function("save_checkpoint"):
                with open(path, "wb") as stream:
                    stream.write(state.numpy().tobytes())
                    os.fsync(stream.fileno())
                time.sleep(0.02)

        return self.with_pause(save, every=10)

    def late_rank(self) -> Iterator[None]:
        path = os.path.join(self.folder, "meeting")
        other = subprocess.Popen([sys.executable, __file__, path])
        join(path, 0)
        flag = torch.zeros(1)

        def end() -> None:
            torch.distributed.all_reduce(flag.fill_(1))
            other.wait()
            torch.distributed.destroy_process_group()

        self.at_end.append(end)
        return self.with_pause(lambda: torch.distributed.all_reduce(flag))

    # What looks like a cause, and is none.

    def fast_loader(self) -> Iterator[None]:
        training = Training(2048)
        return loader_steps(training, workers=1)

    def sleeper_beside(self) -> Iterator[None]:
        self.beside(lambda: time.sleep(0.006))
        return self.one_operator()

    def writer_beside(self) -> Iterator[None]:
        stream = open(os.path.join(self.folder, "beside.bin"), "wb", buffering=0)
        self.at_end.append(stream.close)

        def write() -> None:
            written(stream, 1 << 12)
            time.sleep(0.005)

        self.beside(write)
        return self.one_operator()

    def locks_beside(self) -> Iterator[None]:
        lock = threading.Lock()

        def take() -> None:
            with lock:
                time.sleep(0.004)

        self.beside(take)
        self.beside(take)
        return self.one_operator()

    def even_steps(self) -> Iterator[None]:
        return self.one_operator()

    def timed_condition(self) -> Iterator[None]:
        """Waits as long as CPython does for its own lock before it asks for that, but for something else."""
        condition = threading.Condition()

        def wait() -> None:
            with condition:
                condition.wait(0.005)

        return self.with_pause(wait)

    def native_beside(self) -> Iterator[None]:
        """Another thread computes, and gives the interpreter's lock up meanwhile."""
        data = bytes(1 << 24)
        self.beside(lambda: hashlib.sha256(data))
        return self.one_operator()

    def collected_before(self) -> Iterator[None]:
        """Many objects, but none that the collector looks for in the loop."""
        kept = [[i] for i in range(200000)]
        gc.freeze()
        self.at_end += [gc.unfreeze, kept.clear]
        return self.one_operator()

    def child_beside(self) -> Iterator[None]:
        """Another thread waits for processes."""
        self.beside(lambda: subprocess.run(["sleep", "0.02"], check=True))
        return self.one_operator()

    def compiled_steps(self, sizes: Iterator[int], warm_up: int) -> Iterator[None]:
        """A training whose model is compiled, for batches of these sizes; `warm_up`: steps before the first one that counts."""
        import torch._dynamo  # PyTorch 1.13 has none

        for limit in ("cache_size_limit", "recompile_limit", "accumulated_cache_size_limit", "accumulated_recompile_limit"):
            if hasattr(torch._dynamo.config, limit):
                setattr(torch._dynamo.config, limit, 100_000)
        training = Training()
        model = torch.compile(training.model, backend="eager", dynamic=False)

        def step() -> None:
            training.optimizer.zero_grad()
            model(torch.ones(next(sizes), 64)).sum().backward()
            training.optimizer.step()

        for _ in range(warm_up):
            step()
        return endless(step)

    def recompiles(self) -> Iterator[None]:
        return self.compiled_steps(itertools.count(4), 1)

    def compiled_before(self) -> Iterator[None]:
        return self.compiled_steps(itertools.cycle((64, 256, 512)), 6)


def main() -> None:
    kinds = Kinds()
    commands: queue.Queue[str] = queue.Queue()

    def read() -> None:
        # Not by sys.stdin: a fork while it is read leaves the child with its lock held.
        rest = b""
        while data := os.read(0, 1000):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                commands.put(line.decode())
        commands.put("")

    threading.Thread(target=read, daemon=True).start()
    print(f"READY {os.getpid()}", flush=True)
    # Steps are those of the main thread, as in a training job.
    while line := commands.get():
        words = line.split()
        if words[0] != "start":
            print("DONE steps=0", flush=True)
            continue
        steps = 0
        iterator = getattr(kinds, words[1])()
        next(iterator)
        print(f"DONE kind={words[1]}", flush=True)
        while commands.empty():
            next(iterator)
            steps += 1
        del iterator
        kinds.close()
        if not commands.get():
            break
        print(f"DONE steps={steps}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        be_late(sys.argv[1])
    else:
        main()

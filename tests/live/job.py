#!/usr/bin/env python3
"""The PyTorch job that the live tests record. It prints `READY PID`, then does what each line on stdin says and answers with
`DONE …`: steps N | loop [PAUSE_MS] | raise N | raising | threads N | crowd N [backward] | intra N | forkback N [memory] | allocate N | churn | ranges itt|nvtx N | workers METHOD | libraries N SECONDS | fork N [SECONDS] | park N | orphans N | storm N | short N | programs N | grandchild | spawn N | helpers N | vfork FIFO | loader | exec ARGV | fds

Every step makes the same result from the same seed: `checksum=` is that result, and `distinct=1` says that no step gave
another. `loop`, `raising` and `vfork` go on until the next line comes.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import multiprocessing
import os
import queue
import signal
import subprocess
import threading
import time
from typing import Callable

import torch
from torch.autograd.profiler import record_function


class Checksums:
    """The results of all steps so far; there should be one."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.count = 0

    def add(self, *tensors: torch.Tensor) -> None:
        text = " ".join(repr(tensor.detach().double().sum().item()) for tensor in tensors)
        self.seen.add(hashlib.sha256(text.encode()).hexdigest()[:16])
        self.count += 1

    def __str__(self) -> str:
        return f"steps={self.count} distinct={len(self.seen)} checksum={','.join(sorted(self.seen))}"


def forward() -> tuple[torch.Tensor, torch.nn.Module]:
    generator = torch.Generator().manual_seed(7)
    model = torch.nn.Linear(8, 8)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator))
    data = torch.rand(4, 8, generator=generator)
    with record_function("forward"):
        for _ in range(3):
            data = model(data).relu() / 8
    return data.sum(), model


def step(checksums: Checksums) -> None:
    with record_function("step"):
        loss, model = forward()
        loss.backward()
        checksums.add(loss, *(parameter.grad for parameter in model.parameters()))


def forward_step(checksums: Checksums) -> None:
    """Without autograd's engine, which does not work in a forked child."""
    with torch.no_grad():
        checksums.add(forward()[0])


def throw(checksums: Checksums) -> None:
    """A C++ exception out of an operator, inside an annotation."""
    value = torch.ones(2, 3)
    try:
        with record_function("throwing"):
            torch.mm(value, value)
    except RuntimeError:
        checksums.add(value)


class Items(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.full((4,), float(number)).sqrt()


class SlowItems(Items):
    """So that workers are there when their probes are."""

    def __getitem__(self, number: int) -> torch.Tensor:
        time.sleep(0.005)
        return super().__getitem__(number)


def work_in_child(seconds: float, tell: Callable[[str], None]) -> None:
    """What a child does: says when it began, works, says what came out."""
    began_ns = time.time_ns()
    checksums = Checksums()
    while time.time_ns() - began_ns < seconds * 1e9:
        forward_step(checksums)
    tell(f"{os.getpid()} {began_ns} {checksums.count} {len(checksums.seen)}")


def grow(count: int) -> list[torch.Tensor]:
    """Blocks of 4, 8, 12 … bytes: each one's size tells which it is, and what is allocated with it."""
    return [torch.empty(number) for number in range(1, count + 1)]


def allocate_in_child(tell: Callable[[str], None]) -> None:
    began_ns = time.time_ns()
    time.sleep(1.0)  # its probes are there then
    kept = grow(100)
    del kept[::2]
    tell(f"{os.getpid()} {began_ns} {len(kept)} 1")


def spawned(seconds: float, results: "multiprocessing.Queue[str]") -> None:
    work_in_child(seconds, results.put)


def fork_child(work: Callable[[Callable[[str], None]], None]) -> tuple[int, int]:
    """Forks a child that does `work`; its pid and the pipe that its words come through."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            work(lambda text: os.write(writing, f"{text}\n".encode()))
        finally:
            os._exit(0)
    os.close(writing)
    return pid, reading


def read_all(fd: int) -> list[str]:
    with os.fdopen(fd) as stream:
        return stream.read().splitlines()


class Job:
    def __init__(self) -> None:
        self.lines: "queue.Queue[str | None]" = queue.Queue()
        self.checksums = Checksums()

    def read_lines(self) -> None:
        # Not through sys.stdin: a forked worker closes that, and would wait for this thread's lock.
        text = b""
        while piece := os.read(0, 65536):
            *lines, text = (text + piece).split(b"\n")
            for line in lines:
                self.lines.put(line.decode())
        self.lines.put(None)

    def until_next_line(self, work: Callable[[Checksums], None]) -> None:
        while self.lines.empty():
            work(self.checksums)

    def on_steps(self, count: str) -> str:
        for _ in range(int(count)):
            step(self.checksums)
        return ""

    def on_loop(self, pause_ms: str = "0") -> str:
        def step_and_pause(checksums: Checksums) -> None:
            step(checksums)
            if pause_ms != "0":
                time.sleep(float(pause_ms) / 1e3)

        self.until_next_line(step_and_pause)
        return ""

    def on_raise(self, count: str) -> str:
        for _ in range(int(count)):
            throw(self.checksums)
        return ""

    def on_raising(self) -> str:
        self.until_next_line(throw)
        return ""

    def on_threads(self, count: str) -> str:
        """Short-lived threads, at most four at a time."""
        tids = []
        for first in range(0, int(count), 4):
            group = [threading.Thread(target=lambda: (tids.append(threading.get_native_id()), forward_step(Checksums())))
                     for _ in range(first, min(first + 4, int(count)))]
            for thread in group:
                thread.start()
            for thread in group:
                thread.join()
        return f"tids={','.join(map(str, tids))}"

    def on_fork(self, count: str, seconds: str = "1") -> str:
        children = [fork_child(lambda tell: work_in_child(float(seconds), tell)) for _ in range(int(count))]
        return f"children={self.collect(children)}"

    def on_park(self, count: str) -> str:
        """Children that wait to be killed."""
        pids = []
        for _ in range(int(count)):
            pid = os.fork()
            if pid == 0:
                signal.pause()
            pids.append(pid)
        return f"pids={','.join(map(str, pids))}"

    def on_crowd(self, count: str, what: str = "forward") -> str:
        """Threads that are all there at once, and work at once."""
        barrier = threading.Barrier(int(count))
        tids = []
        does = {"forward": forward_step, "backward": step}[what]

        def work() -> None:
            barrier.wait()
            tids.append(threading.get_native_id())
            does(Checksums())
            barrier.wait()

        threads = [threading.Thread(target=work) for _ in range(int(count))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return f"tids={','.join(map(str, tids))}"

    def on_intra(self, count: str) -> str:
        """Operators that torch splits among its own threads, between two operators that it does not."""
        torch.set_num_threads(4)
        value = torch.rand(512, 512, generator=torch.Generator().manual_seed(7))
        for _ in range(int(count)):
            with record_function("split"):
                value = torch.mm(value, value).relu() / 512
        torch.set_num_threads(1)
        return ""

    def on_forkback(self, count: str, what: str = "") -> str:
        """Forks in the middle of a backward; each child works on."""
        children: list[tuple[int, int]] = []

        def fork(gradient: torch.Tensor) -> torch.Tensor:
            children.append(fork_child(allocate_in_child if what == "memory" else lambda tell: work_in_child(2, tell)))
            return gradient

        for _ in range(int(count)):
            weight = torch.ones(4, 4, requires_grad=True)
            product = torch.mm(weight, weight)
            product.register_hook(fork)
            with record_function("backward"):
                product.relu().sum().backward()
        return f"children={self.collect(children)}"

    def on_allocate(self, count: str) -> str:
        """Blocks that stay."""
        self.kept = grow(int(count))
        return ""

    def on_churn(self) -> str:
        """Steps, while another thread registers and deregisters operators."""
        rounds = [0]

        def register() -> None:
            while self.lines.empty():
                library = torch.library.Library(f"churn{rounds[0] % 5}", "DEF")
                for number in range(4):
                    library.define(f"operator_{rounds[0] % 3}_{number}(Tensor x) -> Tensor")
                if hasattr(library, "_destroy"):
                    library._destroy()
                del library
                rounds[0] += 1

        thread = threading.Thread(target=register)
        thread.start()
        self.until_next_line(step)
        thread.join()
        return f"rounds={rounds[0]}"

    def on_ranges(self, kind: str, count: str) -> str:
        """Ranges of ITT or NVTX on two threads at once, with an exception out of one; then what emit_* makes of an operator."""
        ranges = torch.profiler.itt if kind == "itt" else torch.cuda.nvtx
        try:
            ranges.mark("is there")
        except RuntimeError as error:
            return f"missing={str(error).replace(' ', '_')}"
        value = torch.ones(2, 3)

        def work() -> None:
            for number in range(int(count)):
                ranges.range_push(f"outer {number}")
                value.add(1)
                with record_function("between"):
                    ranges.range_push("inner")
                    ranges.mark("here")
                    if kind == "nvtx":  # of which nobody can tell where it ends
                        ranges.range_end(ranges.range_start("long"))
                    value.mul(2)
                    ranges.range_pop()
                ranges.range_pop()
                value.sub(1)
                try:
                    with ranges.range("failing"):
                        torch.mm(value, value)
                except RuntimeError:
                    value.neg()

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ranges.range_pop()  # of nothing
        emits = kind == "itt" or torch.cuda.is_available()  # the other one waits for the GPU first
        if emits:
            with getattr(torch.autograd.profiler, f"emit_{kind}")(), torch.no_grad():
                value.exp()
        return f"emitted={int(emits)} tids={','.join(str(thread.native_id) for thread in threads)}"

    def on_workers(self, method: str) -> str:
        loader = torch.utils.data.DataLoader(SlowItems(), batch_size=4, num_workers=2, multiprocessing_context=method)
        iterator = iter(loader)
        workers = [worker.pid for worker in iterator._workers]
        total = sum(float(batch.sum()) for batch in iterator)
        return f"workers={','.join(map(str, workers))} total={total:.3f}"

    def on_libraries(self, count: str, seconds: str) -> str:
        """Operators that are registered, called ten times, and deregistered again."""
        value = torch.ones(4)
        for number in range(int(count)):
            library = torch.library.Library(f"passing{number}", "DEF")
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x + x, "CPU")
            operator = getattr(getattr(torch.ops, f"passing{number}"), "twice")
            for _ in range(10):
                operator(value)
            time.sleep(float(seconds))
            if hasattr(library, "_destroy"):
                library._destroy()
            del library
        return ""

    def on_orphans(self, count: str) -> str:
        """Children that outlive this process: each makes four steps when SIGUSR1 comes, and ends."""
        signal.signal(signal.SIGUSR1, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
        pids = []
        for _ in range(int(count)):
            pid = os.fork()
            if pid == 0:
                signal.sigwait({signal.SIGUSR1})
                for _ in range(4):
                    forward_step(Checksums())
                os._exit(0)
            pids.append(pid)
        return f"pids={','.join(map(str, pids))}"

    def on_grandchild(self) -> str:
        def work(tell: Callable[[str], None]) -> None:
            pid, reading = fork_child(lambda tell_parent: work_in_child(1.0, tell_parent))
            for line in read_all(reading):
                tell(line)
            os.waitpid(pid, 0)

        return f"children={self.collect([fork_child(work)])}"

    @staticmethod
    def collect(children: list[tuple[int, int]]) -> str:
        words = []
        for pid, reading in children:
            words += [line.replace(" ", ":") for line in read_all(reading)]
            if os.waitpid(pid, 0)[1]:
                words.append(f"{pid}:failed")
        return ",".join(words)

    def on_storm(self, count: str) -> str:
        for _ in range(int(count)):
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        return ""

    def on_short(self, count: str) -> str:
        """Children that run some operators and end at once."""
        pids = []
        for _ in range(int(count)):
            pid, reading = fork_child(lambda tell: forward_step(Checksums()))
            self.collect([(pid, reading)])
            pids.append(pid)
        return f"pids={','.join(map(str, pids))}"

    def on_programs(self, count: str) -> str:
        """Children that run other programs, which fork too, or would run one that is not there."""
        for _ in range(int(count)):
            subprocess.run(["/bin/sh", "-c", "(exit 3); (:) & wait"], check=True)
            subprocess.run(["/bin/sh", "-c", ":"], check=True, preexec_fn=lambda: None)  # by fork(), not vfork()
            with contextlib.suppress(FileNotFoundError):
                subprocess.run(["no-such-program"])
        return ""

    def on_spawn(self, seconds: str) -> str:
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        child = context.Process(target=spawned, args=(float(seconds), results))
        child.start()
        text = results.get()
        child.join()
        return f"children={text.replace(' ', ':')} code={child.exitcode}"

    def on_helpers(self, seconds: str) -> str:
        """As spawn, while another program comes and goes all the time."""
        is_over = threading.Event()

        def run_helpers() -> None:
            while not is_over.wait(0.02):
                subprocess.run(["/bin/true"], check=True)

        thread = threading.Thread(target=run_helpers)
        thread.start()
        try:
            return self.on_spawn(seconds)
        finally:
            is_over.set()
            thread.join()

    def on_vfork(self, fifo: str) -> str:
        """Goes on until the next line, while a child that has its memory waits for somebody who opens `fifo` to write."""
        libc = ctypes.CDLL(None)  # os.posix_spawn() would keep the GIL
        actions = ctypes.create_string_buffer(1024)
        libc.posix_spawn_file_actions_init(actions)
        libc.posix_spawn_file_actions_addopen(actions, 0, fifo.encode(), os.O_RDONLY, 0)
        arguments = (ctypes.c_char_p * 2)(b"true", None)
        pid, results = ctypes.c_int(), []
        thread = threading.Thread(target=lambda: results.append(libc.posix_spawnp(ctypes.byref(pid), b"true", actions, None, arguments, None)))
        thread.start()
        self.until_next_line(step)
        thread.join()
        return f"spawned={results[0]} status={os.waitpid(pid.value, 0)[1]}"

    def on_loader(self) -> str:
        loader = torch.utils.data.DataLoader(SlowItems(), batch_size=4, num_workers=2)
        iterator = iter(loader)
        workers = [worker.pid for worker in iterator._workers]
        total = sum(float(batch.sum()) for batch in iterator)
        return f"workers={','.join(map(str, workers))} total={total:.3f}"

    def on_exec(self, *arguments: str) -> str:
        os.execv(arguments[0], list(arguments))
        return ""

    def on_fds(self) -> str:
        return f"fds={len(os.listdir('/proc/self/fd'))}"

    def run(self) -> None:
        threading.Thread(target=self.read_lines, daemon=True).start()
        step(self.checksums)
        print(f"READY {os.getpid()}", flush=True)
        while line := self.lines.get():
            command, *arguments = line.split()
            words = getattr(self, f"on_{command}")(*arguments)
            print(f"DONE {command} {self.checksums} {words}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    Job().run()

#!/usr/bin/env python3
"""A job that uses a GPU by the stand-in for CUDA (tests/support/cuda_double), between operators of torch.

The commands of job.py, and: load PATH (of the Runtime; the Driver comes with its first call) | cupti PATH |
cuda N (rounds) |
real N (rounds of calls of the Runtime that torch brings) |
init (the Driver) |
agent (rounds until an agent records here) |
kinds CORRELATION (a record of each kind of CUPTI's, within an annotation) |
burst SECONDS (of launches that wait for nothing) |
idle ROUNDS (of launches with something planted between them, which keeps the GPU idle) |
spawncuda CUPTI RUNTIME N SECONDS (a spawned child, which lives on for so long) |
forkcuda CUPTI RUNTIME N (rounds in a forked child and here).
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import queue
import threading
import time
from typing import Callable

import torch
from torch.autograd.profiler import record_function

import job
from cuda_job_facts import ALLOCATED, COPIED, SET

TO_DEVICE = 1
PLANT_S, COMPUTED = 0.004, 60_000
OTHER_STREAM, EMPTY_STREAM = 20, 30
BEFORE, PLANTED, OTHER = (ctypes.create_string_buffer(name, 64) for name in (b"_Z6beforev", b"_Z7plantedv", b"_Z5otherv"))
AGENT_S = 20.0
BURST, BURST_PAUSE_S = 200, 0.005
STATE_OFFSET, RUNNING = 32, 1  # of struct pt_agent_page


def agent_records() -> bool:
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        with contextlib.suppress(FileNotFoundError):  # an injection has just closed it
            if "memfd:proftrace_gpu" in os.readlink(path):
                with open(path, "rb") as page:
                    page.seek(STATE_OFFSET)
                    return int.from_bytes(page.read(4), "little") == RUNNING
    return False


def rounds_of_its_own(cupti: str, runtime: str, rounds: int) -> int:
    """Failures of a process that has not used CUDA before."""
    work = CudaJob()
    work.on_cupti(cupti)
    work.on_load(runtime)
    work.on_agent()
    return int(work.on_cuda(str(rounds)).rpartition("=")[2])


def spawned(cupti: str, runtime: str, rounds: int, seconds: float, tell: "multiprocessing.connection.Connection") -> None:
    torch.set_num_threads(1)
    for _ in range(20):  # it is recorded soon after it has loaded torch
        torch.ones(4).add(1)
        time.sleep(0.1)
    tell.send(rounds_of_its_own(cupti, runtime, rounds))
    time.sleep(seconds)


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


# What keeps a thread from launching, each in a function of its own; an operator at both ends tells of the function.
def known(value: torch.Tensor = torch.ones(4)) -> None:
    value.add(1)


def later(work: "queue.SimpleQueue[Callable[[], object]]") -> None:
    """On a thread of its own, which is there already: starting one waits for it."""
    while True:
        do = work.get()
        time.sleep(PLANT_S)
        do()


class Plants:
    def __init__(self) -> None:
        self.later: "queue.SimpleQueue[Callable[[], object]]" = queue.SimpleQueue()
        threading.Thread(target=later, args=(self.later,), daemon=True).start()
        self.reading, self.writing = os.pipe()
        self.numbers = torch.rand(200_000)

    def plant_sleep(self) -> None:
        known()
        time.sleep(PLANT_S)
        known()

    def plant_read(self) -> None:
        known()
        self.later.put(lambda: os.write(self.writing, b"x"))
        os.read(self.reading, 1)
        known()

    def plant_lock(self) -> None:
        known()
        lock = threading.Lock()
        lock.acquire()
        self.later.put(lock.release)
        lock.acquire()
        known()

    def plant_compute(self) -> None:
        known()
        sum(number & 3 for number in range(COMPUTED))
        known()

    def plant_operator(self) -> None:
        self.numbers.sort()

    def plant_data(self) -> None:
        with record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            time.sleep(PLANT_S)


class CudaJob(job.Job):
    def on_load(self, path: str) -> str:
        self.runtime = ctypes.CDLL(path)
        self.runtime.cudaMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
        self.runtime.cudaMemsetAsync.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p]
        self.runtime.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.runtime.cudaFree.argtypes = self.runtime.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
        self.runtime.cudaLaunchKernel.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        return ""

    def on_cupti(self, path: str) -> str:
        self.cupti = ctypes.CDLL(path)
        return ""

    def on_init(self) -> str:
        return f"result={ctypes.CDLL('libcuda.so.1').cuInit(0)}"

    def on_agent(self) -> str:
        end = time.monotonic() + AGENT_S
        while not agent_records() and time.monotonic() < end:
            self.one_round([])
        return ""

    def on_burst(self, seconds: str) -> str:
        launches, end = 0, time.monotonic() + float(seconds)
        one = Dim3(1, 1, 1)
        while time.monotonic() < end:
            torch.ones(1)
            for _ in range(BURST):
                self.runtime.cudaLaunchKernel(BEFORE, one, one, None, 0, None)
            launches += BURST
            time.sleep(BURST_PAUSE_S)
        return f"launches={launches}"

    def on_kinds(self, correlation: str) -> str:
        with record_function("every kind"):
            start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            time.sleep(0.003)
            self.cupti.cupti_double_emit_every_kind(ctypes.c_uint64(start), int(correlation))
        return f"start={start} tid={threading.get_native_id()}"

    def on_spawncuda(self, cupti: str, runtime: str, rounds: str, seconds: str) -> str:
        here, there = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        child = context.Process(target=spawned, args=(cupti, runtime, int(rounds), float(seconds), there), daemon=True)
        child.start()
        failures = here.recv()
        if seconds == "0":
            child.join()
        return f"pid={child.pid} failures={failures}"

    def on_forkcuda(self, cupti: str, runtime: str, rounds: str) -> str:
        reading, writing = os.pipe()
        pid = os.fork()
        failures = -1
        if pid == 0:
            try:
                time.sleep(0.5)  # its probes are there then
                failures = rounds_of_its_own(cupti, runtime, int(rounds))
                time.sleep(0.5)  # a forked worker's exit waits for no last records
            finally:
                os.write(writing, str(failures).encode())
                os._exit(0)
        own = rounds_of_its_own(cupti, runtime, int(rounds))
        answer = os.read(reading, 64).decode()
        os.waitpid(pid, 0)
        os.close(reading), os.close(writing)
        return f"pid={pid} failures={own},{answer}"

    def launch(self, kernel: ctypes.Array, columns: int = 1, stream: int = 0) -> None:
        self.runtime.cudaLaunchKernel(ctypes.addressof(kernel), Dim3(columns, 1, 1), Dim3(1, 1, 1), None, 0, stream)

    def on_idle(self, rounds: str) -> str:
        """Between two kernels, when the first has ended, one thing that takes longer than both."""
        of = Plants()
        plants = [of.plant_sleep, of.plant_read, of.plant_lock, of.plant_compute, of.plant_operator, self.plant_synchronize, of.plant_data]
        took = []
        for _ in range(int(rounds)):
            for plant in plants:
                self.launch(BEFORE)
                self.runtime.cudaStreamSynchronize(None)
                begin = time.monotonic_ns()
                plant()
                took.append(f"{plant.__name__.removeprefix('plant_')}:{time.monotonic_ns() - begin}")
                self.launch(PLANTED)
                self.runtime.cudaStreamSynchronize(None)
            self.launch(OTHER, 8, OTHER_STREAM)
            self.runtime.cudaStreamSynchronize(OTHER_STREAM)
        return f"took={','.join(took)}"

    def plant_synchronize(self) -> None:
        """A stream that never had work keeps its waiter, and leaves the device idle."""
        for _ in range(3):
            self.runtime.cudaStreamSynchronize(EMPTY_STREAM)

    def one_round(self, failures: list[int]) -> None:
        runtime = self.runtime
        host, device = ctypes.create_string_buffer(COPIED), ctypes.create_string_buffer(COPIED)
        grid, value, pointer = Dim3(2, 1, 1), torch.ones(4), ctypes.c_void_p()
        with record_function("copy"):
            value.add(1)
            failures.append(runtime.cudaMemcpyAsync(device, host, COPIED, TO_DEVICE, None))
        with record_function("launch"):
            failures.append(runtime.cudaLaunchKernel(ctypes.addressof(host), grid, grid, None, 0, None))
            runtime.cudaLaunchKernel(None, grid, grid, None, 0, None)  # an invalid function: an early return
        with record_function("wait"):
            failures.append(runtime.cudaStreamSynchronize(None))
        failures.append(runtime.cudaMemsetAsync(device, 0, SET, None))
        failures.append(runtime.cudaMalloc(ctypes.byref(pointer), ALLOCATED))
        failures.append(runtime.cudaFree(pointer))
        failures.append(runtime.cudaGetDevice(ctypes.byref(ctypes.c_int())))
        with record_function("driver"):
            launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernel  # as Triton does
            failures.append(launch(ctypes.c_void_p(ctypes.addressof(host)), 2, 1, 1, 1, 1, 1, 0, None, None, None))
            value.mul(2)

    def on_real(self, rounds: str) -> str:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split()[-1] for line in maps if "libcudart.so" in line}
        if not paths:
            return "missing=1"
        runtime = ctypes.CDLL(paths.pop())
        pointer, buffer, one, none = ctypes.c_void_p(), ctypes.create_string_buffer(64), Dim3(1, 1, 1), ctypes.c_void_p()
        place, size, device = ctypes.byref(pointer), ctypes.c_size_t(16), ctypes.c_int(0)
        calls = {
            "cudaMalloc": (place, size), "cudaMallocHost": (place, size), "cudaMallocManaged": (place, size, 1),
            "cudaMallocAsync": (place, size, none), "cudaHostAlloc": (place, size, 0), "cudaFree": (none,), "cudaFreeHost": (none,),
            "cudaFreeAsync": (none, none), "cudaMemcpy": (buffer, buffer, size, 0), "cudaMemcpyAsync": (buffer, buffer, size, 0, none),
            "cudaMemcpyPeerAsync": (buffer, device, buffer, device, size, none), "cudaMemset": (buffer, 0, size),
            "cudaMemsetAsync": (buffer, 0, size, none), "cudaDeviceSynchronize": (), "cudaStreamSynchronize": (none,),
            "cudaStreamQuery": (none,), "cudaStreamWaitEvent": (none, none, 0), "cudaEventQuery": (none,), "cudaEventRecord": (none, none),
            "cudaEventSynchronize": (none,), "cudaGraphLaunch": (none, none), "cudaLaunchKernel": (none, one, one, none, size, none)}
        for _ in range(int(rounds)):
            with record_function("real"):
                for name, arguments in calls.items():
                    getattr(runtime, name)(*arguments)
        return f"names={','.join(calls)}"

    def on_cuda(self, rounds: str) -> str:
        failures: list[int] = []

        def work() -> None:
            for _ in range(int(rounds)):
                self.one_round(failures)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return f"tids={','.join(str(thread.native_id) for thread in threads)} failures={sum(map(bool, failures))}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    CudaJob().run()

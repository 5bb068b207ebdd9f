#!/usr/bin/env python3
"""A job that uses a GPU by the stand-in for CUDA (tests/support/cuda_double), between operators of torch.

The commands of job.py, and: load PATH (of the Runtime; the Driver comes with its first call) | cupti PATH |
cuda N (rounds) |
real N (rounds of calls of the Runtime that torch brings).
"""

from __future__ import annotations

import ctypes
import threading

import torch
from torch.autograd.profiler import record_function

import job
from cuda_job_facts import ALLOCATED, COPIED, SET

TO_DEVICE = 1


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


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

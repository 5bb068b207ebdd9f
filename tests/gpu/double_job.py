"""gpu_job.py's jobs with the stand-ins for CUDA and CUPTI (tests/support) in the place of a GPU: for trying check_gpu.py where there is none.
torch.profiler records them, too: Kineto takes the stand-in for CUPTI, and its records are what both are given.

Environment: PROFTRACE_DOUBLES, the folder with cuda_double and cupti_double of a build.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Callable

DOUBLES = Path(os.environ.get("PROFTRACE_DOUBLES", Path(__file__).resolve().parents[2] / "build/release/tests/support"))
COLUMN_NS = 2000  # a kernel's time for each of its grid's columns
TO_DEVICE, FROM_DEVICE, ON_DEVICE = 1, 2, 3
BYTES = 64 << 10


def start_again_with_doubles() -> None:
    """The stand-ins have to be there before torch's own libraries."""
    import torch

    major = (torch.version.cuda or "0").split(".", maxsplit=1)[0]
    preloaded = [DOUBLES / "cuda_double/libcuda_presence.so", DOUBLES / f"cupti_double/{major}/libcupti.so.{major}"]
    if not all(library.exists() for library in preloaded):
        raise SystemExit(f"no stand-in for the CUPTI of CUDA {major}")
    os.environ.update(LD_PRELOAD=":".join(map(str, preloaded)), LD_LIBRARY_PATH=str(DOUBLES / "cuda_double"), CUPTI_DOUBLE="",
                      CUDA_DOUBLE_VERSION=f"{major}000", CUDA_DOUBLE_KERNEL_NS=str(COLUMN_NS))
    os.execv(sys.executable, [sys.executable, *sys.argv])


if "CUDA_DOUBLE_KERNEL_NS" not in os.environ:
    start_again_with_doubles()

import torch  # noqa: E402

import gpu_job  # noqa: E402


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Graph(ctypes.Structure):  # struct cuda_double_graph
    _fields_ = [("id", ctypes.c_uint), ("kernels", ctypes.c_uint), ("name", ctypes.c_char_p)]


RUNTIME = ctypes.CDLL(str(DOUBLES / "cuda_double/libcudart.so.12"))
CUPTI = ctypes.CDLL(None)  # preloaded
RUNTIME.cudaLaunchKernel.argtypes = [ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
RUNTIME.cudaGraphLaunch.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
RUNTIME.cudaMemcpyAsync.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
RUNTIME.cudaMemsetAsync.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p]
RUNTIME.cudaStreamSynchronize.argtypes = [ctypes.c_void_p]
HOST, DEVICE = ctypes.create_string_buffer(BYTES), ctypes.create_string_buffer(BYTES)
FORWARD, BACKWARD = (ctypes.create_string_buffer(name, 64) for name in (b"_Z7forwardPf", b"_Z8backwardPf"))
GRAPH = Graph(5, 3, b"_Z8in_graphv")


def launch(kernel: ctypes.Array, columns: int, stream: int = 0) -> None:
    assert RUNTIME.cudaLaunchKernel(ctypes.addressof(kernel), Dim3(columns, 2, 1), Dim3(32, 1, 1), None, 0, stream) == 0


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(context, value: torch.Tensor) -> torch.Tensor:
        launch(FORWARD, 10)
        return value * 2

    @staticmethod
    def backward(context, gradient: torch.Tensor) -> torch.Tensor:
        launch(BACKWARD, 20)
        return gradient * 2


def train() -> torch.Tensor:
    value = torch.ones(4, requires_grad=True)
    with torch.autograd.profiler.record_function("step"):
        loss = Layer.apply(Layer.apply(value)).sum()
        loss.backward()
    return loss


def work_on_streams() -> torch.Tensor:
    with torch.autograd.profiler.record_function("streams"):
        for stream in (20, 21, 22):
            launch(FORWARD, 15, stream)
    for stream in (20, 21, 22):
        RUNTIME.cudaStreamSynchronize(stream)
    return torch.ones(1)


def replay() -> torch.Tensor:
    with torch.autograd.profiler.record_function("replay"):
        RUNTIME.cudaGraphLaunch(ctypes.byref(GRAPH), 0)
    return torch.ones(1)


class Copies(torch.autograd.Function):
    @staticmethod
    def forward(context, value: torch.Tensor) -> torch.Tensor:
        for kind in (TO_DEVICE, FROM_DEVICE, ON_DEVICE):
            RUNTIME.cudaMemcpyAsync(DEVICE, HOST, BYTES // kind, kind, 0)
        RUNTIME.cudaMemsetAsync(DEVICE, 0, BYTES, 0)
        return value.clone()


def copy() -> torch.Tensor:
    return Copies.apply(torch.ones(1))


def all_of_it() -> torch.Tensor:
    CUPTI.cupti_double_emit_overheads()
    return train() + work_on_streams() + replay() + copy()


def synchronize() -> None:
    RUNTIME.cudaStreamSynchronize(0)


torch.cuda.synchronize = synchronize  # torch's own initializes CUDA, and so does its profiler's end by it
KINDS: dict[str, Callable[[], Callable[[], torch.Tensor]]] = {
    "all": lambda: all_of_it, "mlp": lambda: train, "streams": lambda: work_on_streams, "graphs": lambda: replay, "copies": lambda: copy}

if __name__ == "__main__":
    gpu_job.main(KINDS)

#!/usr/bin/env python3
"""A job that loads a second PyTorch into a namespace of the linker of its own (dlmopen), where it has its own Dispatcher.

Prints `READY PID`; then, for each line on stdin, `DONE …`: load PATH (of a libtorch_cpu) | local PATH (into its own namespace) | here N (products with a gradient) |
there N (products through the second one, by its C interface).
"""

from __future__ import annotations

import ctypes
import os
import sys

import torch
from torch.autograd.profiler import record_function

SIDE = 4
NEW_NAMESPACE, NOW = -1, 2  # dlfcn.h: LM_ID_NEWLM, RTLD_NOW

libc = ctypes.CDLL(None)
libc.dlmopen.restype = libc.dlsym.restype = ctypes.c_void_p
libc.dlerror.restype = ctypes.c_char_p


class Second:
    def __init__(self, path: str) -> None:
        self.library = libc.dlmopen(ctypes.c_long(NEW_NAMESPACE), path.encode(), NOW)
        if not self.library:
            raise OSError(libc.dlerror().decode())
        self.function("aoti_torch_mm_out")

    def function(self, name: str) -> "ctypes._CFuncPtr":
        address = libc.dlsym(ctypes.c_void_p(self.library), name.encode())
        if not address:
            raise OSError(f"it has no {name}")
        return ctypes.CFUNCTYPE(ctypes.c_int32)(address)

    def call(self, name: str, *arguments: object) -> None:
        if self.function(name)(*arguments):
            raise RuntimeError(name)

    def tensor(self) -> ctypes.c_void_p:
        sizes, strides = (ctypes.c_int64 * 2)(SIDE, SIDE), (ctypes.c_int64 * 2)(SIDE, 1)
        result = ctypes.c_void_p()
        float_type, cpu = ctypes.c_int32(6), ctypes.c_int32(0)
        self.call("aoti_torch_empty_strided", ctypes.c_int64(2), sizes, strides, float_type, cpu, ctypes.c_int32(0), ctypes.byref(result))
        return result

    def products(self, count: int) -> None:
        left, right, out = self.tensor(), self.tensor(), self.tensor()
        for _ in range(count):
            self.call("aoti_torch_mm_out", out, left, right)
        for tensor in (left, right, out):
            self.call("aoti_torch_delete_tensor_object", tensor)


def here(count: int) -> None:
    weight = torch.ones(SIDE, SIDE, requires_grad=True)
    for _ in range(count):
        with record_function("here"):
            value = torch.mm(weight, weight)
        value.sum().backward()


def main() -> None:
    torch.set_num_threads(1)
    here(1)
    print(f"READY {os.getpid()}", flush=True)
    second = None
    for line in sys.stdin:
        command, argument = line.split()
        words = ""
        if command == "load":
            try:
                second = Second(argument)
            except OSError as error:
                words = "refused=" + str(error).replace(" ", "_")
        elif command == "local":
            ctypes.CDLL(argument)
        elif command == "here":
            here(int(argument))
        else:
            assert second is not None
            second.products(int(argument))
        print(f"DONE {command} {words}", flush=True)
    os._exit(0)  # the destructors of both would meet


if __name__ == "__main__":
    main()

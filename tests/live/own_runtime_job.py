#!/usr/bin/env python3
"""Catches what operators throw in code that has a C++ runtime of its own: `own_runtime_job.py COMPILER FLAGS...` builds it.

Behind each exception comes a row from a deeper stack, as in real code: whoever takes what was unwound for open gives it a wrong
parent. `READY PID`; for "work" it prints `DONE times=N caught=N`."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile

import torch

TIMES = 50
# Tensors are words here, and leak: neither torch's headers nor its std:: are needed.
SOURCE = r"""
#include <alloca.h>

namespace at {
struct Tensor {
  void* impl;
  ~Tensor() {}
};
namespace _ops {
struct mm { static Tensor call(const Tensor&, const Tensor&); };
struct relu { static Tensor call(const Tensor&); };
}  // namespace _ops
}  // namespace at

#define APART __attribute__((noinline))
static volatile int cleaned;
struct Cleans { ~Cleans() { cleaned = cleaned + 1; } };

static APART void fails(const at::Tensor& a, const at::Tensor& b) {
  Cleans cleans;
  at::_ops::mm::call(a, b);
}
static APART void passes(const at::Tensor& a, const at::Tensor& b, int how) {
  if (how != 1) return fails(a, b);
  try { fails(a, b); } catch (...) { throw; }
}
static APART int catches(const at::Tensor& a, const at::Tensor& b, int how) {
  try { passes(a, b, how); } catch (...) { return 1; }
  return 0;
}
static APART void goes_deeper(const at::Tensor& a) {
  volatile char* room = (volatile char*)alloca(16384);
  room[0] = 1;
  at::_ops::relu::call(a);
}
extern "C" __attribute__((visibility("default"))) int Throw(const at::Tensor* a, const at::Tensor* b, int times) {
  int caught = 0;
  try { throw 1; } catch (int) {}  // a copy of libgcc's unwinder is made ready by its first exception
  for (int i = 0; i < times; ++i) {
    caught += catches(*a, *b, i % 2);
    goes_deeper(*a);
  }
  return caught;
}
"""


def build(compiler: str, flags: list[str]) -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        source, library = f"{folder}/throws.cc", f"{folder}/throws.so"
        with open(source, "w", encoding="ascii") as file:
            file.write(SOURCE)
        torch_library = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
        subprocess.run([compiler, "-O2", "-fPIC", "-shared", "-fvisibility=hidden", source, "-o", library, torch_library,
                        "-Wl,--allow-shlib-undefined", *flags], check=True)
        return ctypes.CDLL(library)


def main() -> None:
    library = build(sys.argv[1], sys.argv[2:])
    tensors = [torch.ones(4, 4), torch.ones(9, 9)]
    words = [ctypes.c_void_p(tensor._cdata) for tensor in tensors]

    def throw(times: int) -> int:
        return int(library.Throw(ctypes.byref(words[0]), ctypes.byref(words[1]), times))

    assert throw(2) == 2
    print("READY", os.getpid(), flush=True)
    for _ in sys.stdin:
        with torch.autograd.profiler.record_function("throws"):
            caught = throw(TIMES)
        with torch.autograd.profiler.record_function("after"):
            tensors[0].exp()
        print(f"DONE times={TIMES} caught={caught}", flush=True)


if __name__ == "__main__":
    main()

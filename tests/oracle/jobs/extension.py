"""Operators of a C++ library: unboxed, composite, boxed, with autograd in C++; and one that is loaded while recording."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from typing import Iterable

import torch

from workload import Context, Workload

LONGEST_WAIT_S = 15.0
SOURCE = """
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <torch/types.h>
#include <torch/version.h>

static torch::Tensor plus_one(const torch::Tensor& value) { return value + 1; }
static torch::Tensor twice(const torch::Tensor& value) { return value.add(value); }
static void boxed(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  torch::Tensor value = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, value.mul(3));
}

struct Squared : torch::autograd::Function<Squared> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, const torch::Tensor& value) {
    context->save_for_backward({value});
    return value * value;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 2 * context->get_saved_variables()[0]};
  }
};
static torch::Tensor squared(const torch::Tensor& value) { return Squared::apply(value); }
static torch::Tensor own_row(const torch::Tensor& value) {
  RECORD_FUNCTION("own row", std::vector<c10::IValue>({value}));
  torch::Tensor result = value.sin();
  { RECORD_USER_SCOPE("own scope"); result = result.cos(); }
  return result;
}
static torch::Tensor failing(const torch::Tensor& value) {
  RECORD_FUNCTION("failing row", std::vector<c10::IValue>({value}));
  return torch::mm(value, torch::ones({9, 9}));
}
#if TORCH_VERSION_MAJOR >= 2
// Called as torchvision calls its own: with numbers that may be symbolic, and a kernel that takes plain ones.
static torch::Tensor patches(const torch::Tensor& value, int64_t rows, double factor, int64_t columns, bool flip) {
  torch::Tensor part = value.slice(0, 0, rows).slice(1, 0, columns).mul(factor);
  return flip ? part.neg() : part;
}
static torch::Tensor typed(const torch::Tensor& value) {
  using Type = torch::Tensor(const torch::Tensor&, c10::SymInt, double, c10::SymInt, bool);
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("NAMESPACE::patches", "").typed<Type>();
  return op.call(value, value.sym_size(0) - 1, 0.5, 3, true);
}
#endif

TORCH_LIBRARY(NAMESPACE, library) {
  library.def("plus_one(Tensor value) -> Tensor");
  library.def("twice(Tensor value) -> Tensor", twice);
  library.def("boxed(Tensor value) -> Tensor");
  library.def("squared(Tensor value) -> Tensor");
  library.def("own_row(Tensor value) -> Tensor", own_row);
  library.def("failing(Tensor value) -> Tensor", failing);
#if TORCH_VERSION_MAJOR >= 2
  library.def("patches(Tensor value, SymInt rows, float factor, SymInt columns, bool flip) -> Tensor");
  library.def("typed(Tensor value) -> Tensor", typed);
#endif
}
TORCH_LIBRARY_IMPL(NAMESPACE, CPU, library) {
  library.impl("plus_one", plus_one);
  library.impl("boxed", torch::CppFunction::makeFromBoxedFunction<&boxed>());
#if TORCH_VERSION_MAJOR >= 2
  library.impl("patches", patches);
#endif
  library.impl("squared", [](const torch::Tensor& value) { return value * value; });
}
TORCH_LIBRARY_IMPL(NAMESPACE, Autograd, library) { library.impl("squared", squared); }
"""


def build(namespace: str, optimisation: str, source: str = SOURCE) -> str:
    """The library's path."""
    of_source = hashlib.sha256(source.encode()).hexdigest()[:8]
    directory = os.path.join(tempfile.gettempdir(), f"{namespace}-{torch.__version__}-{os.getuid()}-{of_source}")
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "operators.cpp")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source.replace("NAMESPACE", namespace))
    library = os.path.join(directory, f"{namespace}.so")
    if os.path.exists(library):
        return library
    # By hand: torch.utils.cpp_extension needs setuptools and Python's headers.
    package = os.path.dirname(torch.__file__)
    folders = [os.path.join(package, "include"), os.path.join(package, "include/torch/csrc/api/include"),
               "/usr/include/torch/csrc/api/include"]
    with open("/proc/self/maps", encoding="utf-8") as maps:
        mapped = {line.split(maxsplit=5)[-1].strip() for line in maps}
    libraries = [path for path in sorted(mapped) if os.path.basename(path).startswith(("libtorch_cpu.so", "libc10.so"))]
    standard = "c++20" if tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 9) else "c++17"
    subprocess.run(["g++", "-shared", "-fPIC", optimisation, f"-std={standard}", path, *libraries, "-o", library,
                    f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
                    *(f"-I{folder}" for folder in folders if os.path.isdir(folder))], check=True)
    return library


def code_of(library: str) -> list[tuple[int, int, int]]:
    """Where this process has it: begin, end, offset in the file."""
    places = []
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for fields in (line.split(maxsplit=5) for line in maps):
            if fields[-1].strip() == library and "x" in fields[1]:
                begin, end = (int(number, 16) for number in fields[0].split("-"))
                places.append((begin, end, int(fields[2], 16)))
    return places


def wait_for_probes(library: str) -> None:
    """What a library does before its probes are live is not recorded. They are bytes of its code; where there are none the wait ends."""
    end = time.monotonic() + LONGEST_WAIT_S
    with open("/proc/self/mem", "rb", buffering=0) as memory, open(library, "rb") as file:
        while time.monotonic() < end:
            for begin, last, offset in code_of(library):
                memory.seek(begin)
                file.seek(offset)
                code = file.read(last - begin)
                if memory.read(len(code)) != code:
                    return
            time.sleep(0.01)


class Extension(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.weight = torch.randn(4, 4, requires_grad=True)
        torch.ops.load_library(build("proftrace_first", "-O2"))
        self.later = build("proftrace_later", "-O0")
        self.namespaces = ["proftrace_first"]

    def before_window(self) -> None:
        torch.ops.load_library(self.later)
        if self.context.profiled:
            wait_for_probes(self.later)
        self.namespaces.append("proftrace_later")
        self.step()

    def step(self) -> None:
        for namespace in self.namespaces:
            operators = getattr(torch.ops, namespace)
            value = operators.twice(operators.plus_one(self.weight.detach()))
            value = operators.boxed(operators.own_row(value))
            if hasattr(operators, "typed"):
                self.total += operators.typed(value).sum().double()
            result = operators.squared(self.weight).sum()
            result.backward()
            self.total += value.sum().double() + result.detach().double()
            try:
                operators.failing(value)
            except RuntimeError:
                self.total += 1

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

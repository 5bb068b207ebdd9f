"""What else runs TorchScript: static runtime, the mobile interpreter, fused kernels, methods that C++ calls."""

import io
import os
import tempfile
from typing import Iterable, List

import torch
from torch import nn

import extension
from workload import Context, Workload

# A program that serves a model calls it so: Method::operator() and Method::run.
CALLER = """
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/library.h>

static torch::jit::Module& loaded(const std::string& path) {
  static torch::jit::Module module = torch::jit::load(path);
  return module;
}
static at::Tensor call(const std::string& path, const at::Tensor& value) {
  return loaded(path).get_method("forward")({value}).toTensor();
}
static at::Tensor run(const std::string& path, const at::Tensor& value) {
  torch::jit::Stack stack = {value};
  loaded(path).get_method("forward").run(stack);
  return stack.at(0).toTensor();
}
TORCH_LIBRARY(NAMESPACE, library) {
  library.def("call(str path, Tensor value) -> Tensor", call);
  library.def("run(str path, Tensor value) -> Tensor", run);
}
"""


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(value)
        parts = hidden.split(3, 1)
        return torch.cat([torch.relu(parts[0]), torch.sigmoid(parts[1]) * 2.0], 1) + value.transpose(0, 0)


class Lists(nn.Module):
    def forward(self, values: List[torch.Tensor], turns: int) -> List[torch.Tensor]:
        made: List[torch.Tensor] = []
        for turn in range(turns):
            if turn % 2 == 0:
                made.append(values[turn].tanh())
            else:
                made.append(torch.mm(values[turn], made[0]))
        return made


def fusible(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.tanh(left * right + left) * torch.sigmoid(right)


class Runtimes(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.value = torch.randn(6, 6)
        gate = torch.jit.script(Gate().eval())
        self.still = torch._C._jit_to_static_module(gate._c)
        self.still_lists = torch._C._jit_to_static_module(torch.jit.script(Lists().eval())._c)
        self.mobile = mobile(gate)
        self.mobile_lists = mobile(torch.jit.script(Lists().eval()))
        # NNC's own interpreter stands in where there is no LLVM.
        torch._C._jit_override_can_fuse_on_cpu(True)
        torch._C._jit_set_texpr_fuser_enabled(True)
        torch._C._jit_set_te_must_use_llvm_cpu(False)
        self.fused = torch.jit.script(fusible)
        torch.ops.load_library(extension.build("proftrace_caller", "-O0", CALLER))
        self.path = os.path.join(tempfile.mkdtemp(), "gate.pt")
        gate.save(self.path)

    def step(self) -> None:
        with torch.no_grad():
            self.total += self.still(self.value).sum().double()
            for made in self.still_lists([self.value, self.value], 2):
                self.total += made.sum().double()
            self.total += self.mobile(self.value).sum().double()
            for made in self.mobile_lists([self.value, self.value], 2):
                self.total += made.sum().double()
            self.total += self.fused(self.value, self.value).sum().double()
            self.total += torch.ops.proftrace_caller.call(self.path, self.value).sum().double()
            self.total += torch.ops.proftrace_caller.run(self.path, self.value).sum().double()
            for run in (self.still_lists, self.mobile_lists):
                self.catch(run)
            self.total += torch.sin(self.value).sum().double()

    def catch(self, run: object) -> None:
        """The second turn multiplies what does not fit."""
        try:
            run([self.value, self.value[:, :2]], 2)  # type: ignore[operator]
        except Exception:  # torch.jit.Error has no common base with RuntimeError in all versions
            self.total += 1

    def finish(self) -> None:
        os.remove(self.path)
        os.rmdir(os.path.dirname(self.path))

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]


def mobile(module: torch.jit.ScriptModule) -> object:
    from torch.jit.mobile import _load_for_lite_interpreter

    return _load_for_lite_interpreter(io.BytesIO(module._save_to_buffer_for_lite_interpreter()))

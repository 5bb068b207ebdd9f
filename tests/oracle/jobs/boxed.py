"""Operators that reach the dispatcher by its boxed way, and everything else that is not a plain call."""

from __future__ import annotations

from typing import Any, Callable, Iterable

import torch
from torch import nn
from torch.nn import functional

from workload import Context, Workload


@torch.jit.script
def scripted(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    total = left + right
    for _ in range(2):
        total = torch.tanh(total) * left
    return total.sum()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return gradient * 2 + value * 0


LIBRARY = torch.library.Library("proftrace_oracle", "DEF")
LIBRARY.define("shifted(Tensor value, float by) -> Tensor")
LIBRARY.define("halved(Tensor value) -> Tensor")
LIBRARY.impl("shifted", lambda value, by: value + by, "CPU")
LIBRARY.impl("halved", lambda value: value / 2, "CompositeImplicitAutograd")


@torch.autograd.profiler.record_function("decorated")
def decorated(value: torch.Tensor) -> torch.Tensor:
    return value.relu().mean()


class Boxed(Workload):
    """Runs each piece that this version of torch has."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.left = torch.randn(6, 6)
        self.weight = torch.randn(6, 6, requires_grad=True)
        self.pieces: list[Callable[[], torch.Tensor]] = [
            self.script, self.aten_with_gradient, self.aten_without_gradient, self.aten_in_inference_mode,
            self.library, self.annotations, self.annotations_in_modes, self.custom_function, self.foreach]
        if hasattr(functional, "scaled_dot_product_attention"):
            self.pieces.append(self.attention)
        if hasattr(torch, "func"):
            self.pieces += [self.functional_gradient, self.mapped, self.hessian]
        if hasattr(torch.library, "custom_op"):
            self.python_operator = self.define_python_operator()
            self.pieces.append(self.python_operator_with_gradient)

    def step(self) -> None:
        for piece in self.pieces:
            self.total += piece().detach().double()

    def script(self) -> torch.Tensor:
        result = scripted(self.left, self.weight)
        result.backward()
        return result

    def aten_with_gradient(self) -> torch.Tensor:
        result = torch.ops.aten.mm(torch.ops.aten.add.Tensor(self.weight, self.left), self.left).sum()
        result.backward()
        return result

    def aten_without_gradient(self) -> torch.Tensor:
        with torch.no_grad():
            return torch.ops.aten.sum.dim_IntList(torch.ops.aten.mul(self.weight, 2.0), [0]).sum()

    def aten_in_inference_mode(self) -> torch.Tensor:
        with torch.inference_mode():
            value = torch.ops.aten.sigmoid(torch.ops.aten.matmul(self.left, self.left))
            return torch.ops.aten.mean(value).clone()

    def library(self) -> torch.Tensor:
        operators = torch.ops.proftrace_oracle
        return operators.halved(operators.shifted(self.left, 0.5)).sum()

    def annotations(self) -> torch.Tensor:
        value = self.left
        with torch.autograd.profiler.record_function("level 0"):
            for depth in range(3):
                with torch.autograd.profiler.record_function(f"level {depth + 1}; \"quoted\", é"):
                    value = value.add(depth)
                    with torch.autograd.profiler.record_function("leaf"):
                        value = value.mul(0.5)
        return decorated(value)

    def annotations_in_modes(self) -> torch.Tensor:
        """Both operators of an annotation are called again by the mode's code."""
        try:
            from torch.utils._python_dispatch import TorchDispatchMode
        except ImportError:
            return torch.zeros(())

        class Handing(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return function(*args, **(kwargs or {}))

        with Handing(), torch.autograd.profiler.record_function("in a mode"):
            value = self.left.exp().sum()
            with Handing(), torch.autograd.profiler.record_function("in two modes"):
                return value + self.left.sin().sum()

    def custom_function(self) -> torch.Tensor:
        result = Doubled.apply(self.weight).sum()
        result.backward()
        return result

    def foreach(self) -> torch.Tensor:
        values = [torch.ones(3), torch.ones(2, 2)]
        torch._foreach_add_(values, 1.0)
        return torch.stack([value.sum() for value in torch._foreach_mul(values, 2.0)]).sum()

    def attention(self) -> torch.Tensor:
        value = self.weight.reshape(1, 1, 6, 6)
        result = functional.scaled_dot_product_attention(value, value, value).sum()
        result.backward()
        return result

    def functional_gradient(self) -> torch.Tensor:
        return torch.func.grad(lambda value: (value.sin() * self.left).sum())(self.left).sum()

    def hessian(self) -> torch.Tensor:
        """Its rule is a script, which calls detach with other values below its argument."""
        return torch.func.hessian(lambda row: functional.layer_norm(row, row.shape).sin().sum())(self.left[0]).sum()

    def mapped(self) -> torch.Tensor:
        return torch.func.vmap(lambda row: row.dot(row) + row.sum())(self.left).sum()

    def define_python_operator(self) -> Any:
        @torch.library.custom_op("proftrace_oracle::squared", mutates_args=())
        def squared(value: torch.Tensor) -> torch.Tensor:
            return value * value

        squared.register_autograd(
            lambda ctx, gradient: gradient * 2 * ctx.saved_tensors[0],
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))
        return squared

    def python_operator_with_gradient(self) -> torch.Tensor:
        result = self.python_operator(self.weight).sum()
        result.backward()
        return result

    def tensors(self) -> Iterable[torch.Tensor]:
        gradient = self.weight.grad
        return [self.total] if gradient is None else [self.total, gradient]

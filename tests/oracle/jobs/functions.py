"""Autograd beyond a plain backward(): Functions in Python, hooks, double backward, checkpoints, transforms."""

from __future__ import annotations

import gc
from typing import Any, Callable, Iterable

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from workload import Context, Workload


class Cubed(torch.autograd.Function):
    """Its backward is differentiable, and calls operators."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(value)
        return value * value * value

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (value,) = ctx.saved_tensors
        return CubedBackward.apply(gradient, value)


class CubedBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gradient, value)
        return gradient * 3 * value * value

    @staticmethod
    def backward(ctx: Any, outer: torch.Tensor) -> Any:
        gradient, value = ctx.saved_tensors
        return outer * 3 * value * value, outer * gradient * 6 * value


class Nested(torch.autograd.Function):
    """Calls another Function and a module in its forward."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            inner = value.detach().requires_grad_(True)
            result = Cubed.apply(inner).sum()
            (ctx.gradient,) = torch.autograd.grad(result, inner)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * ctx.gradient


class Scaled(torch.autograd.Function):
    """Takes what are no tensors."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, *rest: Any) -> torch.Tensor:
        ctx.rest = len(rest)
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient * 2, *[None] * ctx.rest


class Refusing(torch.autograd.Function):
    """Throws: in forward in C++, in forward in Python, or in backward in Python."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, how: str) -> torch.Tensor:
        ctx.how = how
        value = value + 1
        if how == "operator":
            torch.mm(value, torch.ones(9, 9))
        if how == "python":
            raise KeyError("forward")
        return value * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        gradient = gradient * 2
        raise KeyError("backward")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return self.layers(Cubed.apply(value))


class Functions(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.weight = torch.randn(5, 5, requires_grad=True)
        self.block = Block()
        self.pieces: list[Callable[[], torch.Tensor]] = [
            self.double_backward, self.nested, self.told, self.hooks, self.checkpointed, self.jacobians, self.refusals,
            self.anomaly, self.checked, self.called, self.made]
        if hasattr(torch, "func"):
            self.pieces += [self.transforms, self.stacked_transforms]

    def step(self) -> None:
        for piece in self.pieces:
            self.total += piece().detach().double()

    def double_backward(self) -> torch.Tensor:
        (first,) = torch.autograd.grad(Cubed.apply(self.weight).sum(), self.weight, create_graph=True)
        (second,) = torch.autograd.grad(first.pow(2).sum(), self.weight, create_graph=True)
        second.sum().backward()
        return second.sum()

    def nested(self) -> torch.Tensor:
        result = Nested.apply(self.weight).sum()
        result.backward()
        return result

    def told(self) -> torch.Tensor:
        of_any_keys = {"scale": 1, 2: 3}  # the table is of another kind
        many = dict.fromkeys(map(str, range(1000)))
        return Scaled.apply(self.weight, {"scale": 0.5, "causal": True}, of_any_keys, many, {}, (1, 2.5, None), [1, 2], "same").sum()

    def hooks(self) -> torch.Tensor:
        seen: list[torch.Tensor] = []
        value = self.weight * 2
        handle = value.register_hook(lambda gradient: gradient.mul(0.5))
        result = Cubed.apply(value)
        assert result.grad_fn is not None
        result.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs[0].sum()))
        total = result.sum()
        total.backward()
        handle.remove()
        return total + sum(seen)

    def checkpointed(self) -> torch.Tensor:
        for reentrant in (True, False):
            value = self.weight.detach().requires_grad_(True)
            result = checkpoint(self.block, value, use_reentrant=reentrant).sum()
            result.backward()
        return result

    def jacobians(self) -> torch.Tensor:
        value = self.weight.detach()[0]
        jacobian = torch.autograd.functional.jacobian(lambda v: v.sin() * v, value)
        hessian = torch.autograd.functional.hessian(lambda v: (v ** 3).sum(), value)
        return jacobian.sum() + hessian.sum()

    def refusals(self) -> torch.Tensor:
        count = torch.zeros(1)
        for how in ("operator", "python", "backward"):
            value = torch.ones(3, 3, requires_grad=True)
            try:
                Refusing.apply(value, how).sum().backward()
            except (KeyError, RuntimeError):
                count += 1
            value.detach().add(1)
        return count.sum()

    def anomaly(self) -> torch.Tensor:
        with torch.autograd.profiler.record_function("anomaly"), torch.autograd.detect_anomaly(check_nan=False):
            result = Cubed.apply(self.weight).sum()
            result.backward()
        return result

    def checked(self) -> torch.Tensor:
        """The engine calls no node of what autograd.grad() is asked for; another node is called without the engine."""
        value = self.weight.detach()[:2, :2].double().requires_grad_(True)
        torch.autograd.gradgradcheck(torch.sigmoid, (value,), atol=1e-3)
        return value.sum()

    def called(self) -> torch.Tensor:
        """Nodes that Python calls itself; the second call throws, and its row is over where that is caught."""
        value = self.weight[:2].mm(self.weight)
        assert value.grad_fn is not None
        gradient, _ = value.grad_fn(torch.ones(2, 5))
        count = torch.zeros(1)
        try:
            value.grad_fn(torch.ones(3, 3))
        except RuntimeError:
            count += 1
        return gradient.sum() + value.detach().add(1).sum() + count.sum()

    def made(self) -> torch.Tensor:
        """Classes that are made at run time: one often has the address of another one that is gone."""
        total = torch.zeros(())
        for number in range(4):
            members = {"forward": staticmethod(lambda ctx, value: value * 2), "backward": staticmethod(lambda ctx, gradient: gradient * 3)}
            function: Any = type(f"Made{number}", (torch.autograd.Function,), members)
            result = function.apply(self.weight).sum()
            result.backward()
            total += result.detach()
            del function, result
            gc.collect()
        return total

    def transforms(self) -> torch.Tensor:
        value = self.weight.detach()
        gradient = torch.func.grad(lambda v: (v.sin() * v).sum())(value)
        mapped = torch.func.vmap(torch.func.grad(lambda row: row.pow(2).sum()))(value)
        return gradient.sum() + mapped.sum()

    def stacked_transforms(self) -> torch.Tensor:
        value = self.weight.detach()[0]
        jacobian = torch.func.jacrev(lambda v: v * v.sum())(value)
        hessian = torch.func.hessian(lambda v: (v ** 3).sum())(value)
        _, product = torch.func.vjp(torch.cos, value)
        return jacobian.sum() + hessian.sum() + product(value)[0].sum()

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

"""Operators of every kind that does not go the usual way: sparse, complex, quantized, foreach, linear algebra, FFT,
indexing, random numbers, named and nested tensors, subclasses, dispatch modes."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Iterable

import torch
from torch import nn
from torch.nn import functional

from workload import Context, Workload

warnings.filterwarnings("ignore")


class Tagged(torch.Tensor):
    """A subclass that sees its operators in Python."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(function, types, args, kwargs or {})


class Families(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.value = torch.randn(6, 6)
        self.weight = torch.randn(6, 6, requires_grad=True)
        self.pieces: list[Callable[[], torch.Tensor]] = [
            self.sparse, self.complex, self.foreach, self.linear_algebra, self.fourier, self.indexing, self.random,
            self.quantized, self.subclass, self.modes, self.wrapped, self.in_place, self.generation, self.nested]

    def step(self) -> None:
        for piece in self.pieces:
            self.total += piece().detach().double().real

    def sparse(self) -> torch.Tensor:
        coordinates = torch.tensor([[0, 1, 2], [2, 0, 1]])
        matrix = torch.sparse_coo_tensor(coordinates, torch.tensor([1.0, 2.0, 3.0]), (6, 6)).coalesce()
        product = torch.sparse.mm(matrix, self.weight)
        product.sum().backward()
        csr = self.value.to_sparse_csr()
        return product.sum() + (csr @ self.value).sum() + matrix.to_dense().sum()

    def complex(self) -> torch.Tensor:
        value = torch.complex(self.value, self.value.t()).requires_grad_(True)
        result = (value.conj() * value.exp()).abs().sum() + torch.view_as_real(value).sum()
        result.backward()
        return result + value.angle().sum() + value.imag.sum()

    def foreach(self) -> torch.Tensor:
        values = [torch.ones(3), torch.ones(2, 2)]
        torch._foreach_mul_(values, 2.0)
        torch._foreach_addcdiv_(values, values, values, 0.5)
        optimizer = torch.optim.AdamW([self.weight], 1e-3, foreach=True)
        self.weight.grad = torch.ones_like(self.weight)
        optimizer.step()
        return torch.stack([value.norm() for value in torch._foreach_sqrt(values)]).sum()

    def linear_algebra(self) -> torch.Tensor:
        matrix = self.value @ self.value.t() + 6 * torch.eye(6)
        matrix.requires_grad_(True)
        result = torch.linalg.solve(matrix, self.value).sum() + torch.linalg.slogdet(matrix)[1]
        result.backward()
        values = torch.linalg.eigvalsh(matrix.detach())
        left, singular, right = torch.linalg.svd(self.value)
        return result + values.sum() + singular.sum() + torch.linalg.cholesky(matrix.detach()).sum() + torch.linalg.norm(left)

    def fourier(self) -> torch.Tensor:
        value = self.value.clone().requires_grad_(True)
        result = torch.fft.ifft2(torch.fft.fft2(value)).abs().sum() + torch.fft.rfft(value).abs().sum()
        result.backward()
        return result + torch.fft.fftshift(self.value).sum()

    def indexing(self) -> torch.Tensor:
        value = self.weight * 1
        rows = torch.tensor([0, 2, 4])
        picked = value[rows, 1:3][:, None].squeeze(1) + value[value > 0].sum()
        picked.sum().backward()
        copy = self.value.clone()
        copy[rows] = 1.0
        copy[:, 0] += 2
        copy.index_add_(0, rows, torch.ones(3, 6))
        copy.scatter_(1, torch.zeros(6, 1, dtype=torch.long), 3.0)
        return picked.sum() + copy.gather(1, torch.ones(6, 1, dtype=torch.long)).sum() + copy[..., -1].take(rows).sum()

    def random(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(3)
        return (torch.rand(4, generator=generator).sum() + torch.randperm(9, generator=generator).sum()
                + torch.full((2,), 1e12).sum() + torch.full((2,), -(2.0**63)).sum() + torch.full((2,), 3e19).sum()
                + torch.bernoulli(torch.full((4,), 0.5), generator=generator).sum()
                + torch.normal(0.0, 1.0, (3,), generator=generator).sum())

    def quantized(self) -> torch.Tensor:
        if not torch.backends.quantized.supported_engines or torch.backends.quantized.engine == "none":
            return torch.zeros(())
        value = torch.quantize_per_tensor(self.value, 0.1, 10, torch.quint8)
        doubled = torch.ops.quantized.add(value, value, 0.2, 10)
        model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(6, 4)), {nn.Linear}, torch.qint8)
        with torch.no_grad():
            return doubled.dequantize().sum() + model(self.value).sum() * 0 + functional.relu(value).dequantize().sum()

    def subclass(self) -> torch.Tensor:
        value = self.value.as_subclass(Tagged)
        return (value.exp() + value).sum().as_subclass(torch.Tensor)

    def modes(self) -> torch.Tensor:
        try:
            from torch.utils._python_dispatch import TorchDispatchMode
        except ImportError:
            return torch.zeros(())

        class Watching(TorchDispatchMode):
            def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return function(*args, **(kwargs or {}))

        with Watching():
            value = self.weight.mul(2).sum()
            value.backward()
        return value

    def wrapped(self) -> torch.Tensor:
        """A tensor that Python's code stands for, without a mode and within one."""
        wrap = getattr(torch.Tensor, "_make_wrapper_subclass", None)
        tree = getattr(torch.utils, "_pytree", None)
        if wrap is None or tree is None:
            return torch.zeros(())

        class Wrapped(torch.Tensor):
            @staticmethod
            def __new__(cls, inner: torch.Tensor) -> "Wrapped":
                self = wrap(cls, inner.size(), dtype=inner.dtype)
                self.inner = inner
                return self

            @classmethod
            def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                plain = tree.tree_map(lambda value: value.inner if isinstance(value, cls) else value, (args, kwargs or {}))
                result = function(*plain[0], **plain[1])
                return tree.tree_map(lambda value: cls(value) if isinstance(value, torch.Tensor) else value, result)

        value = Wrapped(torch.ones(2, 3))
        result = torch.cat([value, value.mul(2.5)]).sum(dim=[0, 1], keepdim=True)
        return result.add(torch.ones(1, 1), alpha=3).inner.sum()

    def in_place(self) -> torch.Tensor:
        value = torch.zeros(4)
        value.add_(1).mul_(3).clamp_(max=2)
        torch.add(value, 1, out=value)
        value.detach_()
        return value.resize_(2).sum()

    def generation(self) -> torch.Tensor:
        """A cache that grows."""
        with torch.inference_mode():
            cache = torch.zeros(0, 6)
            for _ in range(4):
                cache = torch.cat([cache, self.value[:1]])
                scores = torch.softmax(self.value[:1] @ cache.t(), -1)
            result = scores @ cache
        return torch.tensor(float(result.sum()))

    def nested(self) -> torch.Tensor:
        if not hasattr(torch, "nested"):
            return torch.zeros(())
        value = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
        with contextlib.suppress(RuntimeError):  # not all versions can, but all make the row
            torch.cat([value, value])
        return torch.nested.to_padded_tensor(value * 2, 0.0).sum()

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

"""What a drawn program is made of: functions of square matrices, each of which gives one again, or throws."""

from __future__ import annotations

from typing import Callable

import torch
from torch.nn import functional

SIDE = 4

Unary = Callable[[torch.Tensor], torch.Tensor]
Binary = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def in_view(change: Callable[[torch.Tensor], object]) -> Unary:
    """Changes a view of a copy in place."""
    def function(value: torch.Tensor) -> torch.Tensor:
        copy = value.clone()
        change(copy)
        return copy
    return function


def through(dtype: torch.dtype, change: Callable[[torch.Tensor], torch.Tensor]) -> Unary:
    return lambda value: change(value.to(dtype)).to(torch.float32)


def sparse(value: torch.Tensor) -> torch.Tensor:
    return torch.sparse.mm(value.relu().to_sparse(), value).add(1)


def scattered(value: torch.Tensor) -> torch.Tensor:
    index = torch.arange(SIDE).flip(0).expand(SIDE, SIDE)
    return torch.zeros(SIDE, SIDE).scatter_add(1, index, value).gather(0, index.t())


def recomposed(value: torch.Tensor) -> torch.Tensor:
    left, right = value.chunk(2, 1)
    top, *rest = left.unbind(0)
    return torch.stack([torch.cat([top, right[0]]), *(torch.cat([row, right[1]]) for row in rest)])


def complex_product(value: torch.Tensor) -> torch.Tensor:
    both = torch.complex(value, value.t())
    return torch.view_as_real(both.conj() * both).sum(2) + both.abs() + both.angle().tanh()


# Any value, with or without a gradient.
UNARY: list[Unary] = [
    torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.sin, lambda v: v.t(), lambda v: v.t().contiguous(),
    lambda v: v.clone(), lambda v: v.reshape(-1).view(SIDE, SIDE), lambda v: v.softmax(1), lambda v: v.flip(0),
    lambda v: v.sum(0, keepdim=True).expand(SIDE, SIDE), lambda v: v.mean(1, keepdim=True) + v, lambda v: v.clamp(-1, 1),
    lambda v: v.to(torch.float64).to(torch.float32), lambda v: torch.stack([v, v]).mean(0), lambda v: v.cumsum(1),
    lambda v: torch.where(v > 0, v, v * 0.1), lambda v: v.sort(1)[0], lambda v: v.masked_fill(v > 2, 2.0),
    lambda v: torch.cat([v[:2], v[2:]]), lambda v: v.roll(1, 0), lambda v: functional.gelu(v),
    lambda v: functional.layer_norm(v, (SIDE,)), lambda v: v.index_select(0, torch.tensor([3, 2, 1, 0])),
    lambda v: functional.conv2d(v.reshape(1, 1, SIDE, SIDE), torch.ones(1, 1, 3, 3), padding=1)[0, 0],
    # Views.
    lambda v: v.narrow(0, 1, 2).repeat(2, 1), lambda v: v[None, :, None].squeeze(), lambda v: v.transpose(0, 1)[::2].repeat(2, 1),
    lambda v: v.diagonal().diag_embed() + v, lambda v: v.unfold(0, 2, 1).mean(2).sum(0).expand(SIDE, SIDE),
    lambda v: v.as_strided((SIDE, SIDE), (1, SIDE)) if v.is_contiguous() else v.permute(1, 0), lambda v: v.unsqueeze(0).expand(3, -1, -1)[1],
    recomposed, lambda v: torch.cat(v.split([1, 3])), lambda v: v.flatten().unflatten(0, (SIDE, SIDE)), lambda v: v.movedim(0, 1),
    lambda v: v.select(0, 1).outer(v.select(1, 2)), lambda v: v.tril() + v.triu(1), lambda v: torch.rot90(v),
    # In place, also in views of copies.
    lambda v: v.clone().add_(1).mul_(0.5), lambda v: v.clone().clamp_(max=1).relu_(), in_view(lambda v: v[0].add_(2)),
    in_view(lambda v: v[:, 1:3].mul_(0.5).neg_()), in_view(lambda v: v.t().sub_(v.detach().mean())), in_view(lambda v: v.diagonal().zero_()),
    in_view(lambda v: v.index_fill_(0, torch.tensor([0, 2]), 1.0)), in_view(lambda v: v[1:].copy_(v[:-1].clone())),
    in_view(lambda v: v.masked_fill_(v.detach() < 0, 0.0)), in_view(lambda v: v.view(-1)[3:7].tanh_().add_(v.detach().sum())),
    in_view(lambda v: v.__setitem__((slice(1, 3), 0), 0.5)), in_view(lambda v: v.index_put_((torch.tensor([1, 1]),), torch.ones(SIDE), accumulate=True)),
    # Other numbers.
    through(torch.float64, lambda v: v.exp().log1p()), through(torch.bfloat16, lambda v: v + v.mean()), through(torch.float64, lambda v: v.cumprod(1)),
    lambda v: v + torch.arange(SIDE), lambda v: v * torch.tensor(2, dtype=torch.int16), lambda v: v.pow(2) + (v > 0), lambda v: 2 - v, lambda v: v / 3,
    complex_product, lambda v: torch.fft.ifft(torch.fft.fft(v)).real, lambda v: torch.fft.rfft2(v).abs().sum(1, keepdim=True).expand(SIDE, SIDE),
    # Others.
    scattered, sparse, lambda v: v.topk(2)[0].repeat(1, 2), lambda v: functional.embedding(torch.tensor([0, 3, 3, 1]), v),
    lambda v: functional.max_pool2d(v[None], 2).repeat(1, 2, 2)[0], lambda v: functional.dropout(v, 0.3), lambda v: functional.pad(v, (1, 1))[:, 1:-1],
    lambda v: torch.linalg.solve(v @ v.t() + 9 * torch.eye(SIDE), v), lambda v: torch.einsum("ij->ji", v), lambda v: functional.log_softmax(v, 0),
    lambda v: functional.batch_norm(v, None, None, training=True), lambda v: v.logsumexp(1, keepdim=True) - v, lambda v: torch.nan_to_num(v.rsqrt()),
    lambda v: functional.interpolate(v[None, None], scale_factor=2.0)[0, 0, ::2, ::2], lambda v: functional.softplus(v).sqrt(),
]
BINARY: list[Binary] = [
    torch.add, torch.mul, torch.sub, torch.mm, torch.matmul, torch.maximum,
    lambda a, b: torch.addmm(a, a, b), lambda a, b: torch.einsum("ij,kj->ik", a, b),
    lambda a, b: functional.linear(a, b), lambda a, b: torch.lerp(a, b, 0.3),
    lambda a, b: torch.bmm(a[None], b[None])[0], lambda a, b: torch.baddbmm(a[None], a[None], b[None])[0], lambda a, b: a.atan2(b),
    lambda a, b: torch.addcmul(a, a, b, value=0.5), lambda a, b: torch.where(a > b, a, b), lambda a, b: functional.cosine_similarity(a, b).outer(a[0]),
    lambda a, b: torch.cdist(a, b), lambda a, b: a.add(b, alpha=2), lambda a, b: torch.hypot(a, b), lambda a, b: functional.bilinear(a, b, torch.ones(SIDE, SIDE, SIDE)),
    lambda a, b: (a.to(torch.float64) @ b.to(torch.float64)).to(torch.float32), lambda a, b: a.clone().copy_(b).add_(a), lambda a, b: torch.kron(a[:2, :2], b[:2, :2]),
]


def with_out(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    result = torch.empty(0)
    torch.add(a, b, out=result)
    torch.mm(result, b, out=(other := torch.empty(SIDE, SIDE)))
    torch.cat([other[:2], a[:2]], out=result)
    torch.mul(result, 0.5, out=result)
    return result


def each(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    values = torch._foreach_add([a, b.t().contiguous()], 1.0)
    torch._foreach_mul_(values, [0.5, 2.0])
    torch._foreach_addcmul_(values, [a, a], [b, b], 0.1)
    return torch._foreach_add(values, [b, a])[0] + torch._foreach_neg(values)[1]


def whole_numbers(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    left, right = (a * 4).to(torch.int32), (b * 4).to(torch.int64)
    total = (left + right).remainder(7).bitwise_and(5) + (left > right).to(torch.uint8) + left.bool().logical_not()
    return total.float() + torch.bincount(total.clamp(0, 3).flatten(), minlength=SIDE)[:SIDE]


def compressed(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    matrix = torch.sparse_coo_tensor(torch.tensor([[0, 1, 1, 3], [1, 0, 0, 3]]), a[0], (SIDE, SIDE))
    return torch.sparse.sum(matrix.coalesce() * 2, 0).to_dense() + matrix.to_dense() + b.to_sparse_csr() @ a


def rounded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.half() + b.half()).float().round() + torch.randn_like(a) + torch.randint(0, 5, (SIDE,)) + torch.full_like(b, 2).uniform_()


# Without a gradient.
PLAIN: list[Binary] = [with_out, each, whole_numbers, compressed, rounded]


def written_leaf(value: torch.Tensor) -> object:
    return value.clone().requires_grad_(True).add_(1)


def twice_backward(value: torch.Tensor) -> object:
    loss = (value.clone().requires_grad_(True) ** 2).sum()
    loss.backward()
    return loss.backward()


def changed_after(value: torch.Tensor) -> object:
    """What the backward needs is written to before it."""
    weight = value.clone().requires_grad_(True)
    kept = weight * 1
    result = kept.exp()
    result.add_(1)
    return result.sum().backward()


def thrown_in_hook(value: torch.Tensor) -> object:
    weight = value.clone().requires_grad_(True)
    middle = weight.tanh()
    middle.register_hook(lambda gradient: torch.mm(gradient, torch.ones(9, 9)))
    return (middle * 2).sum().backward()


# Each throws RuntimeError or IndexError.
THROWING: list[Callable[[torch.Tensor], object]] = [
    lambda v: v.view(3, 5), lambda v: torch.mm(v, torch.ones(7, 7)), lambda v: torch.einsum("ij,jk->ik", v, torch.ones(9, 9)),
    lambda v: v.index_select(0, torch.tensor([99])), lambda v: functional.linear(v, torch.ones(3, 3)),
    lambda v: functional.conv2d(v, torch.ones(1, 2, 3)), lambda v: torch.cat([v, torch.ones(3)]),
    lambda v: functional.cross_entropy(v, torch.full((SIDE,), 77)),
    lambda v: torch.mm(v, v.double()), lambda v: torch.add(v, v, out=torch.empty(SIDE, SIDE, dtype=torch.int64)), lambda v: v.expand(2, 2),
    lambda v: v.select(0, 9), lambda v: v[torch.tensor([5])], lambda v: v.clone().requires_grad_(True).mul(2).backward(),
    lambda v: torch.linalg.cholesky(-9 * torch.eye(SIDE)), lambda v: v.reshape(5, -1), lambda v: torch.stack([v, v[0]]), lambda v: v.to_sparse().view(2, 8),
    lambda v: torch.ops.aten.mm(v, torch.ones(9, 9)), lambda v: v.clone().resize_(3, 5).requires_grad_(True).resize_(2), lambda v: v.gather(0, torch.full((1, 1), 50)),
    written_leaf, twice_backward, changed_after, thrown_in_hook,
]

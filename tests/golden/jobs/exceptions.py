"""Operators that throw and are caught: at the top, under an annotation, in a hook and in the backward of a Function."""

import contextlib
import time

import torch
from torch.nn import functional

torch.set_num_threads(1)
values = torch.arange(6.0).reshape(2, 3)
weight = torch.ones(4, 5, requires_grad=True)


class FailingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value * 2

    @staticmethod
    def backward(ctx, gradient):
        return torch.mm(gradient, torch.ones(7, 7))


def fail_in_hook(gradient):
    gradient.sum()
    raise ValueError("hook")


while True:
    with contextlib.suppress(RuntimeError):
        torch.mm(values, values)
    with torch.autograd.profiler.record_function("guarded"):
        with contextlib.suppress(RuntimeError):
            functional.linear(values, weight)
        torch.relu(values)
    with contextlib.suppress(IndexError):
        functional.embedding(torch.tensor([99]), torch.ones(3, 2))
    with contextlib.suppress(RuntimeError):
        FailingBackward.apply(weight).sum().backward()
    hooked = weight * 3
    hooked.register_hook(fail_in_hook)
    with contextlib.suppress(ValueError):
        hooked.sum().backward()
    torch.add(values, 1)
    time.sleep(0.02)

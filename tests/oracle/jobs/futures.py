"""Annotations of every form: contexts, decorators, _RecordFunctionFast, across futures, ITT."""

from __future__ import annotations

import contextlib
import enum
from typing import Iterable

import torch
from torch import nn
from torch.autograd.profiler import record_function

from workload import Context, Workload


class Number(enum.IntEnum):
    LARGE = 3


class Decimal(float):
    pass


@record_function("decorated twice")
@record_function("decorated")
def decorated(value: torch.Tensor) -> torch.Tensor:
    return value.relu().mean()


@torch.jit.script
def scripted(value: torch.Tensor) -> torch.Tensor:
    with torch.autograd.profiler.record_function("in a script"):
        value = value.mul(2)
    return value


class Futures(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.total = torch.zeros(1, dtype=torch.float64)
        self.value = torch.randn(4, 4)
        self.fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
        self.fast_has_inputs = False
        if self.fast is not None:
            with contextlib.suppress(TypeError):  # 2.1's takes a name alone
                self.fast("inputs", [])
                self.fast_has_inputs = True

    def step(self) -> None:
        self.total += decorated(self.value).double()
        self.total += scripted(self.value).sum().double()
        self.across_future()
        if self.fast is not None:
            self.fast_contexts()
            if self.fast_has_inputs:
                self.fast_with_inputs()
        self.with_arguments()

    def across_future(self) -> None:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        with record_function("across a future") as annotation:
            self.value.add(1)
            result = annotation._call_end_callbacks_on_future(future)
        self.value.mul(2)
        future.set_result(self.value.sum())
        self.total += result.wait().double()

    def fast_contexts(self) -> None:
        # New texts: Python has made no UTF-8 of them yet.
        for start in ("schön", "训练", "\N{FIRE}", "ü" * 300):
            with self.fast(f"{start} {int(self.value.numel())}"):
                self.value.add(1)
        with self.fast("fast"):
            self.value.add(1)
            with self.fast("## a name that is longer than the others, " + "x" * 300):
                self.value.sub(1)
        again = self.fast("again")
        for _ in range(2):
            with again:
                self.value.neg()
        try:
            with self.fast("failing"):
                torch.mm(self.value, torch.ones(9, 9))
        except RuntimeError:
            self.total += 1

    def fast_with_inputs(self) -> None:
        """Of what torch infers no type is left out there."""
        value = self.value
        for number, inputs in enumerate((
                [value, 1, 2.5, "text", None, True, 1 + 2j, -3, 2**62, value.shape],
                (value, [value, value[:1]], (value, 1.5, "text", None), (), [], {}, [1, 2], [2.5], [False, True], ["a", "b"]),
                [Number.LARGE, Decimal(2), nn.Parameter(value), list(range(30)), list(range(31)), [value] * 40, [1j], [None]],
                [], (), [torch.tensor(3), torch.ones(0, 3), value.t(), value.to_sparse()])):
            with self.fast(f"inputs {number}", inputs):
                value.neg()
        again = self.fast("again, with inputs", [value, 7])
        for _ in range(2):
            with again:
                value.neg()

    def with_arguments(self) -> None:
        if not hasattr(torch.autograd, "_record_function_with_args_enter"):
            return
        handle = torch.autograd._record_function_with_args_enter("with arguments", 1, False, 2.5, "text")
        self.value.abs()
        torch.autograd._record_function_with_args_exit(handle)
        handle = torch.autograd._record_function_with_args_enter(
            "with objects", self.value, None, [1, 2, -3], (self.value, 1), {"a": 1}, -(1 << 40), 1 + 2j, self.value.requires_grad)
        torch.autograd._record_function_with_args_exit(handle)
        handle = torch.autograd._record_function_with_args_enter(
            "with lists", [self.value, self.total], ["a", "b"], [True, False], [1.5] * 40, [self.value] * 3, 7)
        torch.autograd._record_function_with_args_exit(handle)
        handle = torch.autograd._record_function_with_args_enter("with nothing")
        torch.autograd._record_function_with_args_exit(handle)

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

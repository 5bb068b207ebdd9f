"""Graphs that are made on one thread and run on another, or on several at once: sequence numbers are each thread's own."""

from __future__ import annotations

import threading
from typing import Callable, Iterable

import torch

import profiles
from workload import Context, Workload


def on_thread(function: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Runs it on a thread that ends with it."""
    results: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


class Crossing(Workload):
    """Forwards on threads of their own, their backwards on this one and on others; the same graph twice."""

    threads_have_profiles = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.weight = torch.randn(6, 6, requires_grad=True)
        self.results: list[torch.Tensor] = []

    @staticmethod
    def missing() -> str:
        return "" if profiles.can_profile_all_threads() else "this torch.profiler records one thread only"

    def forward(self) -> torch.Tensor:
        return (self.weight @ self.weight).tanh().mul(2).sum()

    def silent(self) -> torch.Tensor:
        """Numbers that no node gets: gradients are off, or nothing needs one."""
        with torch.no_grad():
            plain = self.weight.mul(2)
        with torch.inference_mode():
            plain = plain + self.weight.sum()
        with torch.no_grad(), torch.enable_grad():
            return (self.weight * plain.clone()).sum()

    def backward(self, loss: torch.Tensor, keep: bool = False) -> torch.Tensor:
        loss.backward(retain_graph=keep)
        return loss.detach()

    def step(self) -> None:
        self.weight.grad = None
        here = self.forward()
        there = on_thread(self.forward)
        also_there = on_thread(self.silent)
        self.backward(there, keep=True)
        self.backward(there)
        on_thread(lambda: self.backward(here))
        on_thread(lambda: self.backward(also_there))
        assert self.weight.grad is not None
        self.results.append(self.weight.grad.clone())

    def tensors(self) -> Iterable[torch.Tensor]:
        return self.results

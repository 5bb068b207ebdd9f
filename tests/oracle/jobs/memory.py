"""A workload for --memory: allocations and frees in every place where a rule could go wrong, on the thread that profiles."""

from __future__ import annotations

import ctypes
import random
from typing import Iterable

import numpy
import torch

from workload import Context, Workload

MOST_KEPT = 40
CUDA = 1  # c10::DeviceType


def of_c10(*names: str) -> ctypes._CFuncPtr | None:
    """A function of libc10.so, wherever it is loaded from; totals were signed before 2.1."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        path = next((line.split(maxsplit=5)[5].strip() for line in maps if "/libc10.so" in line), None)
    library = ctypes.CDLL(path) if path else None
    return next((getattr(library, name) for name in names if hasattr(library, name)), None)


class Device:
    """What CUDA's caching allocator tells the profiler; without a device: c10's own functions are called."""

    def __init__(self, index: int) -> None:
        self.device = ctypes.c_uint16(CUDA | index << 8)  # c10::Device: type and index, a byte each
        self.report = of_c10("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE", "_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE")
        self.report_out_of_memory = of_c10("_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE", "_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE")
        self.allocated, self.reserved = 0, 0
        self.blocks: list[tuple[int, int]] = []

    def tell(self, address: int, size: int) -> None:
        self.allocated += size
        self.report(ctypes.c_void_p(address), ctypes.c_int64(size), ctypes.c_size_t(self.allocated), ctypes.c_size_t(self.reserved), self.device)

    def allocate(self, size: int) -> None:
        self.reserved = max(self.reserved, self.allocated + size + (1 << 20))
        self.blocks.append((0x7F0000000000 + 512 * len(self.blocks) + self.allocated, size))
        self.tell(*self.blocks[-1])

    def free(self) -> None:
        address, size = self.blocks.pop(0)
        self.tell(address, -size)

    def refuse(self, size: int) -> None:
        if self.report_out_of_memory:
            self.report_out_of_memory(ctypes.c_int64(size), ctypes.c_size_t(self.allocated), ctypes.c_size_t(self.reserved), self.device)


class Memory(Workload):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.random = random.Random(context.seed)
        self.total = torch.zeros(())
        self.from_before = [torch.randn(1000 + index) for index in range(20)]
        self.kept: list[torch.Tensor] = []
        self.devices = [Device(0), Device(3)]

    def step(self) -> None:
        self.empty_blocks()
        self.views_and_resizes()
        self.foreign_memory()
        self.out_of_memory()
        self.freed_by_exceptions()
        self.freed_elsewhere()
        self.autograd()
        self.device_memory()
        for _ in range(20):
            self.random_change()
        if self.from_before:
            del self.from_before[-3:]

    def empty_blocks(self) -> None:
        torch.empty(0)
        torch.empty(3, 0, 5).sum()
        torch.cat([torch.empty(0), torch.ones(3)])

    def views_and_resizes(self) -> None:
        x = torch.arange(60.0)
        y = x.view(6, 10)[1:3].t()
        del x
        self.total += y.sum()
        z = torch.ones(4)
        z.resize_(400).fill_(1.0)  # a larger block: the old one is freed
        z.resize_(2)
        self.total += z.sum()
        z.set_(torch.ones(7).untyped_storage() if hasattr(z, "untyped_storage") else torch.ones(7).storage(), 0, (7,))

    def foreign_memory(self) -> None:
        array = numpy.ones((30, 30), dtype=numpy.float32)
        x = torch.from_numpy(array)
        self.total += (x + 1).sum()
        self.total += torch.frombuffer(bytearray(64), dtype=torch.float32).sum()
        x.clone().numpy()

    def out_of_memory(self) -> None:
        for size in (1 << 50, 1 << 48):
            try:
                torch.empty(size)
            except RuntimeError:
                pass
        try:
            torch.ones(1 << 24).expand(1 << 24, 1 << 24).contiguous()
        except RuntimeError:
            pass

    def freed_by_exceptions(self) -> None:
        """While C++ frames are unwound: in the operators that throw, between them, and around all of them."""
        leaf, matrix = torch.ones(3, requires_grad=True), torch.ones(2, 3)
        for fail in (lambda: leaf.add_(1), lambda: torch.einsum("ij,jk->ik", matrix, matrix), lambda: torch.cdist(matrix, torch.ones(2, 4)),
                     lambda: torch.stack([matrix + 1, torch.ones(3)]), lambda: (matrix * 2).view(5)):
            try:
                fail()
            except RuntimeError:
                self.total += torch.ones(2).sum()

    def freed_elsewhere(self) -> None:
        """In another operator than it was allocated in, in none, and by the garbage collector's order."""
        x = torch.randn(50, 50)
        with torch.autograd.profiler.record_function("holder"):
            y = [x @ x for _ in range(3)]
            x = None
        with torch.autograd.profiler.record_function("freer"):
            y.pop()
        y.clear()
        self.total += torch.ones(5).add_(1).mul(2).sum()

    def autograd(self) -> None:
        x = torch.randn(20, 20, requires_grad=True)
        loss = (x * torch.rand(20, 20)).exp().sum()  # what the graph keeps is freed by the second backward
        loss.backward(retain_graph=True)
        loss.backward()
        self.total += x.grad.sum().detach()

    def device_memory(self) -> None:
        first, other = self.devices
        with torch.autograd.profiler.record_function("on devices"):
            first.allocate(1 << 20)
            with torch.autograd.profiler.record_function("deeper"):
                other.allocate(512)
                first.allocate(2048)
                torch.ones(10)
            other.allocate(1 << 33)
            first.refuse(1 << 40)
        other.allocate(4096)  # in no row
        other.refuse(1 << 41)
        with torch.autograd.profiler.record_function("freed on devices"):
            first.free()
            other.free()

    def random_change(self) -> None:
        choice = self.random.randrange(4)
        if choice == 0 or not self.kept:
            self.kept.append(torch.rand(self.random.randrange(1, 3000)))
        elif choice == 1:
            self.kept.pop(self.random.randrange(len(self.kept)))
        elif choice == 2:
            self.kept.append(torch.cat([self.kept[-1], self.kept[0]])[: self.random.randrange(1, 500)].clone())
        else:
            self.total += sum(x.double().sum() for x in self.kept).float()
        del self.kept[:-MOST_KEPT]

    def tensors(self) -> Iterable[torch.Tensor]:
        return [self.total]

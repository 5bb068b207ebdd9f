"""Control groups of the tests' own, of either version."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Iterator

import live


def hierarchy(controller: str) -> tuple[Path, bool] | None:
    """Where control groups with that controller are made, and whether they are of version 2."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split()[:3]
        place = Path(head.split()[4])
        if kind == "cgroup" and controller in options.split(","):
            return place, False
        if kind == "cgroup2" and controller in (place / "cgroup.subtree_control").read_text().split():
            return place, True
    return None


class CpuGroup:
    """A group with a quota of CPU time, in another one without."""

    PERIOD_US = 100_000

    def __init__(self, top: Path, is_v2: bool) -> None:
        self.outer = top / f"proftrace-{os.getpid()}-{time.monotonic_ns()}"
        self.folder, self.is_v2 = self.outer / "limited", is_v2
        self.outer.mkdir()
        if is_v2:
            (self.outer / "cgroup.subtree_control").write_text("+cpu")
        self.folder.mkdir()
        self.name = "/" + str(self.folder.relative_to(top))

    def allow(self, cpus: float) -> None:
        quota_us = int(cpus * self.PERIOD_US)
        if self.is_v2:
            (self.folder / "cpu.max").write_text(f"{quota_us} {self.PERIOD_US}")
        else:
            (self.folder / "cpu.cfs_period_us").write_text(str(self.PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(quota_us))

    def take(self, pid: int) -> None:
        (self.folder / "cgroup.procs").write_text(str(pid))

    def throttled_periods(self) -> int:
        words = (self.folder / "cpu.stat").read_text().split()
        return int(words[words.index("nr_throttled") + 1])

    def remove(self) -> None:
        live.wait_until(lambda: not (self.folder / "cgroup.procs").read_text(), 10, "an empty group")
        self.folder.rmdir()
        self.outer.rmdir()


@contextlib.contextmanager
def cpu_group(test: live.LiveTest) -> Iterator[CpuGroup]:
    found = hierarchy("cpu")
    if found is None:
        test.skipTest("no control groups that limit CPU time")
    group = CpuGroup(*found)
    try:
        yield group
    finally:
        group.remove()

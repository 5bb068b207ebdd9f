"""Reads the lines of a child process as they come, so that a test can wait for one of them."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
import time
from typing import IO


class Stopped(Exception):
    """The awaited line did not come: the stream ended, or the time was over."""


class LineReader:
    """Reads `stream` on a thread of its own until it ends, so that the child never blocks on a full pipe."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.seen: list[str] = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self) -> None:
        # A progress line ends in a carriage return.
        buffer = b""
        while chunk := self.stream.read1(65536):  # type: ignore[attr-defined]
            *lines, buffer = re.split(rb"[\r\n]", buffer + chunk)
            for line in lines:
                self.lines.put(line.decode(errors="replace"))
        if buffer:
            self.lines.put(buffer.decode(errors="replace"))
        self.lines.put(None)

    def wait(self, pattern: str, timeout_s: float) -> re.Match[str]:
        """The first line from here on that contains `pattern`."""
        end = time.monotonic() + timeout_s
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                raise Stopped(f"no line like {pattern!r} within {timeout_s:.0f} s; last: {self.tail()}") from None
            if line is None:
                self.lines.put(None)
                raise Stopped(f"the process ended without a line like {pattern!r}; last: {self.tail()}")
            self.seen.append(line)
            match = re.search(pattern, line)
            if match:
                return match

    def has(self, pattern: str) -> bool:
        """Whether a line so far contains `pattern`. Does not wait."""
        self._take()
        return any(re.search(pattern, line) for line in self.seen)

    def tail(self) -> str:
        self._take()
        return " | ".join(line for line in self.seen[-5:] if line) or "(nothing)"

    def _take(self) -> None:
        while True:
            try:
                line = self.lines.get_nowait()
            except queue.Empty:
                return
            if line is None:
                self.lines.put(None)
                return
            self.seen.append(line)

    def close(self) -> None:
        self.thread.join()
        self.stream.close()


ENDS_BY_STACKS = "SKIPPED: torch.profiler with stacks ends this PyTorch's processes by itself"


def ends_by_stacks(python: str) -> bool:
    """Whether torch.profiler with stacks is the end of a process by itself (Debian's 2.6 with Python 3.13: a signal)."""
    program = ("import torch\n"
               "with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True):\n"
               "    torch.nn.Linear(4, 4)(torch.ones(4)).sum().backward()\n")
    return subprocess.run([python, "-c", program], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode < 0

#!/usr/bin/env python3
"""Exceptions that are caught by code with a C++ runtime of its own: no symbol tells of its catches."""

from __future__ import annotations

import collections
import shutil
import subprocess
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer

SCRIPT = Path(__file__).with_name("own_runtime_job.py")
HIDDEN = ("-Wl,--exclude-libs,ALL", "-s")


class CommandJob(Job):
    """One whose script has arguments."""

    def __init__(self, *arguments: str) -> None:
        super().__init__(prefix=("sh", "-c", 'exec "$@" ' + " ".join(arguments), "sh"), script=SCRIPT)


def has_libcxx() -> bool:
    if shutil.which("clang++") is None:
        return False
    done = subprocess.run(["clang++", "-stdlib=libc++", "-static-libstdc++", "-shared", "-fPIC", "-x", "c++", "-", "-o", "/dev/null"],
                          input="#include <new>\n", capture_output=True, text=True)
    return done.returncode == 0


class OwnRuntimeTest(LiveTest):
    tier = "bpf"

    def check(self, *build: str) -> None:
        with CommandJob(*build) as job:
            tracer = Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--tier", self.tier)
            result, (answer,) = self.record_by(tracer, job, "work")
            self.assertEqual(answer["caught"], answer["times"])
            times = int(answer["times"])
            paths: collections.Counter[str] = collections.Counter()
            ends: dict[str, set[str]] = collections.defaultdict(set)
            for row in result.events():
                paths[row["path"]] += 1
                ends[row["path"]].add(row["end"])
            self.assertEqual((paths["throws/aten::mm"], ends["throws/aten::mm"]), (times, {"exception"}))
            self.assertEqual((paths["throws/aten::relu"], ends["throws/aten::relu"]), (times, {"return"}))
            self.assertEqual((paths["throws"], paths["after"], paths["after/aten::exp"]), (1, 1, 1))
            self.assertEqual(job.end(), 0)

    def test_the_process_own(self) -> None:
        self.check("g++")

    def test_a_hidden_runtime(self) -> None:
        self.check("g++", "-static-libstdc++", *HIDDEN)

    def test_a_hidden_runtime_with_a_hidden_unwinder(self) -> None:
        self.check("g++", "-static-libstdc++", "-static-libgcc", *HIDDEN)

    @unittest.skipUnless(has_libcxx(), "clang++ has no libc++ here")
    def test_another_librarys_runtime(self) -> None:
        self.check("clang++", "-stdlib=libc++", "-static-libstdc++", *HIDDEN)


class OwnRuntimeByJumpsTest(OwnRuntimeTest):
    tier = "patch"


if __name__ == "__main__":
    live.run()

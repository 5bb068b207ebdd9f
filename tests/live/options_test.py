#!/usr/bin/env python3
"""What an option costs when it is off: nothing, because its probes are not there; and what the cost line says when on."""

from __future__ import annotations

import collections
import ctypes
import errno
import os
import re
import struct
import sys
import unittest

import live
from live import Job, LiveTest, Result, Tracer

_BPF_OBJ_GET_INFO_BY_FD = 15
_UPROBE_MULTI = 12  # enum bpf_link_type
_INFO = struct.Struct("=IIIxxxxQQQQIIII")  # struct bpf_link_info of such a link, from Linux 6.8 on


def roles_of_header() -> dict[str, int]:
    """enum pt_role."""
    text = (live.HERE.parents[1] / "bpf/abi/records.h").read_text(encoding="utf-8")
    return {name: int(number) for name, number in re.findall(r"^\s+(PT_ROLE_\w+) = (\d+),", text, re.MULTILINE)}


def cookies_of(link_id: int) -> list[int]:
    """The cookies of a uprobe link's probes; none of another link."""
    def bpf(command: int, attributes: bytes) -> int:
        result = live._libc.syscall(live._SYS_BPF, command, ctypes.create_string_buffer(attributes, len(attributes)),
                                    len(attributes))
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    fd = bpf(live._BPF_LINK_GET_FD_BY_ID, struct.pack("=III", link_id, 0, 0))
    try:
        info = ctypes.create_string_buffer(_INFO.size)
        attributes = struct.pack("=IIQ", fd, _INFO.size, ctypes.addressof(info))
        bpf(_BPF_OBJ_GET_INFO_BY_FD, attributes)
        kind, *_, count, _, _ = _INFO.unpack(info.raw)
        if kind != _UPROBE_MULTI:
            return []
        cookies = (ctypes.c_uint64 * count)()
        info.raw = _INFO.pack(0, 0, 0, 0, 0, 0, ctypes.addressof(cookies), 0, count, 0, 0)
        bpf(_BPF_OBJ_GET_INFO_BY_FD, attributes)
        return list(cookies)
    finally:
        os.close(fd)


class OptionsTest(LiveTest):
    roles = roles_of_header()

    def probes(self, job: Job, *options: str) -> collections.Counter[str]:
        """How many probes of each role are in the job while it is recorded."""
        names = {number: name for name, number in self.roles.items()}
        found: collections.Counter[str] = collections.Counter()
        with Tracer("-p", job.pid, "-o", self.directory / f"result{len(options)}{''.join(options)}", "--format", "none",
                    *options) as tracer:
            tracer.wait_until_recording()
            for link in tracer.kernel_ids()[1]:
                try:
                    found.update(names[cookie >> 16 & 0xff] for cookie in cookies_of(link))
                except OSError as error:
                    if error.errno == errno.EINVAL:
                        self.skipTest("this kernel does not tell a link's cookies (6.8 does)")
                    raise
            self.assertEqual(tracer.stop(), 0, tracer.text())
        return found

    def test_what_is_off_has_no_probes(self) -> None:
        with Job() as job:
            default = self.probes(job)
            shapes = self.probes(job, "--record-shapes")
            memory = self.probes(job, "--profile-memory")
        print(f"default {dict(default)}\nshapes {dict(shapes)}\nmemory {dict(memory)}", file=sys.stderr)
        of_shapes = {"PT_ROLE_OPERATOR_CALL", "PT_ROLE_INPUTS_BEGIN", "PT_ROLE_SPILLED_INPUTS"}
        of_memory = {"PT_ROLE_ALLOCATION", "PT_ROLE_FREE", "PT_ROLE_CPU_OUT_OF_MEMORY", "PT_ROLE_DEVICE_MEMORY",
                     "PT_ROLE_DEVICE_OUT_OF_MEMORY"}
        self.assertGreater(default["PT_ROLE_OPERATOR_BEGIN"], 2000)
        self.assertFalse(set(default) & (of_shapes | of_memory))
        self.assertFalse(set(shapes) & of_memory)
        self.assertFalse(set(memory) & of_shapes)
        # Memory: those alone are more. Shapes: the begins read inputs; an operator whose code does not keep its
        # arguments up to there takes a trap more, one to four of a hundred.
        self.assertEqual({name: memory[name] for name in default}, dict(default))
        self.assertLessEqual({"PT_ROLE_ALLOCATION", "PT_ROLE_FREE"}, set(memory))
        self.assertGreater(shapes["PT_ROLE_OPERATOR_CALL"], 2000)
        self.assertLess(shapes["PT_ROLE_INPUTS_BEGIN"], 0.05 * shapes["PT_ROLE_OPERATOR_CALL"])
        more = shapes["PT_ROLE_INPUTS_BEGIN"] + shapes["PT_ROLE_SPILLED_INPUTS"]
        self.assertLessEqual(shapes.total() - default.total(), more)

    def test_the_cost_has_what_reading_inputs_adds(self) -> None:
        costs = {}
        with Job() as job:
            job.tell("loop")
            for name, options in (("default", ()), ("shapes", ("--record-shapes",)), ("memory", ("--profile-memory",))):
                done = self.run_proftrace("-p", job.pid, "-d", "0.5s", "-o", self.directory / name, "--format", "table",
                                          *options)
                self.assertEqual(done.returncode, 0, done.stderr)
                costs[name] = Result(self.directory / name).summary["cost"]
            self.assert_same_results(job.finish_loop())
        print(costs, file=sys.stderr)
        for name in ("default", "memory"):
            self.assertEqual(costs[name]["input_readings"], 0)
            self.assertIsNone(costs[name]["input_ns_per_reading"])
        shapes = costs["shapes"]
        self.assertIn("in the job itself", shapes["basis"])
        self.assertGreater(shapes["input_readings"], 1000)
        self.assertLess(shapes["input_readings"], shapes["probe_hits"])
        self.assertGreater(shapes["input_ns_per_reading"], 20)
        self.assertLess(shapes["input_ns_per_reading"], 100_000)
        table = (self.directory / "shapes" / "key_averages.txt").read_text(encoding="utf-8")
        self.assertRegex(table, r"\nCost: .*\d+ probe hits at \d+ ns, \d+ of them reading inputs at \d+ ns more\)")
        # Allocations and frees are hits like others.
        result = Result(self.directory / "memory")
        self.assertGreater(result.summary["events"]["memory"], 0)
        self.assertGreaterEqual(costs["memory"]["probe_hits"],
                                result.summary["events"]["memory"] + 2 * result.ledger["closed"] * 0.9)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""Damage of kept captures: what is whole is shown, and no export writes over its own input.

    damage_test.py PROFTRACE GOLDEN_FOLDER
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROFTRACE, GOLDEN = sys.argv[1], Path(sys.argv[2])
CAPTURE = GOLDEN / "mlp" / "capture.ptrec"
USAGE, DAMAGED = 2, 8
FILE_HEADER_BYTES, BLOCK_HEADER_BYTES = 24, 40
METADATA = 2


def blocks(data: bytes) -> list[tuple[int, int, int]]:
    """Type, offset and bytes of each payload (userspace/wire/capture_format.h)."""
    found, offset = [], FILE_HEADER_BYTES
    while offset < len(data):
        magic, kind, _, _, stored = struct.unpack_from("<IHHII", data, offset)
        assert magic == 0x4B425450
        found.append((kind, offset + BLOCK_HEADER_BYTES, stored))
        offset += BLOCK_HEADER_BYTES + stored
    return found


class DamageTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.capture = self.folder / "capture.ptrec"
        self.data = CAPTURE.read_bytes()

    def run_command(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([PROFTRACE, *map(str, arguments)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def ledger(self, data: bytes, code: int) -> dict[str, int]:
        self.capture.write_bytes(data)
        out = self.folder / "summary.json"
        salvage = ["--salvage"] if code == DAMAGED else []
        done = self.run_command("export", self.capture, "--format", "summary", "-o", out, *salvage, code=code)
        self.assertNotIn("'proftrace report --salvage'", done.stderr)
        return json.loads(out.read_text(encoding="utf-8"))["ledger"]

    def test_a_damaged_block_of_tables_takes_no_events_along(self) -> None:
        for case in ("mlp", "names", "workers"):
            data = (GOLDEN / case / "capture.ptrec").read_bytes()
            whole = self.ledger(data, 0)
            for kind, offset, size in blocks(data):
                if kind != METADATA:
                    continue
                damaged = bytearray(data)
                damaged[offset + size // 2] ^= 1
                self.assertGreaterEqual(self.ledger(bytes(damaged), DAMAGED)["begins"], whole["begins"], (case, offset))

    def test_a_damaged_header_takes_nothing_along(self) -> None:
        whole = self.ledger(self.data, 0)
        for offset in range(FILE_HEADER_BYTES):
            damaged = bytearray(self.data)
            damaged[offset] ^= 0x41
            self.assertEqual(self.ledger(bytes(damaged), DAMAGED), whole, offset)
            message = self.run_command("report", self.capture, code=DAMAGED).stderr
            self.assertIn("its header is wrong", message)
            self.assertIn("--salvage", message)

    def test_what_lies_behind_the_end_is_named(self) -> None:
        self.capture.write_bytes(self.data + self.data)
        self.assertIn("behind its end", self.run_command("report", self.capture, code=DAMAGED).stderr)
        self.assertEqual(self.ledger(self.data + self.data, DAMAGED), self.ledger(self.data, 0))

    def test_what_is_there_twice_is_shown_once(self) -> None:
        whole = self.ledger(self.data, 0)
        for number, (_, offset, size) in enumerate(blocks(self.data)[:-1], 1):
            self.assertEqual(self.ledger(self.data[:offset + size + 20] + self.data, DAMAGED), whole, number)
            message = self.run_command("report", self.capture, "--salvage", code=DAMAGED).stderr
            self.assertIn(f"blocks that are there twice were taken once: {number};", message)

    def test_what_a_damaged_capture_lacks_is_no_wrong_command_line(self) -> None:
        first, second = (offset - BLOCK_HEADER_BYTES for _, offset, _ in blocks(self.data)[:2])
        lacking = [("report", option) for option in ("--by-file", "--by-syscall", "--waits", "--gpu-idle", "--group-by-input-shape",
                                                     "--group-by-stack-n=2", "--rank=1", "--pid=1")]
        lacking += [("export", "--format", name, "-o", self.folder / "out") for name in (
            "memory-timeline", "memory-viz", "gpu-idle", "data-waits", "modules", "samples-csv", "pfw", "folded-cuda")]
        lacking += [("export", "--format", "folded", "--metric", name, "-o", self.folder / "out") for name in (
            "off_cpu", "sampled_on_cpu", "cpu_memory_usage")]
        lacking += [("export", "--diff", CAPTURE, "--format", "folded", "--metric", "off_cpu", "-o", self.folder / "out")]
        for data, damage in ((self.data[:first] + bytes(99), "no whole block"), (self.data[second:], "its header is wrong")):
            self.capture.write_bytes(data)
            for command, *arguments in lacking:
                with self.subTest(damage=damage, arguments=arguments):
                    message = self.run_command(command, self.capture, "--salvage", *arguments, code=DAMAGED).stderr
                    self.assertIn(f"capture.ptrec is damaged: {damage}", message)
                    self.assertNotIn("; record ", message)
            # The other one that is compared with.
            message = self.run_command("export", CAPTURE, "--diff", self.capture, "--format", "folded", "--metric", "off_cpu", "--salvage",
                                       "-o", self.folder / "out", code=DAMAGED).stderr
            self.assertIn(f"capture.ptrec is damaged: {damage}", message)
        document = json.loads(self.run_command("report", self.capture, "--salvage", "--waits", "--json", code=DAMAGED).stdout)
        self.assertEqual(document["error"]["exit_code"], DAMAGED)
        self.run_command("report", CAPTURE, "--waits", code=USAGE)

    def test_an_output_that_fails_costs_no_other(self) -> None:
        (self.folder / "key_averages.csv").mkdir()
        done = self.run_command("export", CAPTURE, "--format", "csv,summary,modules,folded", "-o", self.folder, code=7)
        self.assertTrue((self.folder / "summary.json").is_file() and (self.folder / "stacks_self_cpu.folded").is_file(), done.stderr)
        told = [line for line in done.stderr.splitlines() if "wrote" not in line]
        self.assertEqual(len(told), 2, done.stderr)
        self.assertIn("key_averages.csv", told[0])
        self.assertIn("modules", told[1])
        # One error, once.
        done = self.run_command("export", CAPTURE, "--format", "modules,summary", "-o", self.folder, code=USAGE)
        self.assertEqual(done.stderr.count("proftrace: "), 2, done.stderr)

    def test_a_pipe_is_said_to_be_one(self) -> None:
        for command, *arguments in (("report",), ("export", "--format", "summary", "-o", self.folder / "out")):
            done = subprocess.run([PROFTRACE, command, "/dev/stdin", *arguments], input=self.data, capture_output=True, check=False)
            self.assertEqual(done.returncode, DAMAGED)
            self.assertIn(b"/dev/stdin is a pipe", done.stderr)
        # A file as standard input is a file.
        with CAPTURE.open("rb") as file:
            self.assertEqual(subprocess.run([PROFTRACE, "report", "/dev/stdin"], stdin=file, capture_output=True, check=False).returncode, 0)

    def test_an_export_does_not_replace_what_it_reads(self) -> None:
        self.capture.write_bytes(self.data)
        link = self.folder / "link"
        link.symlink_to(self.capture)
        for output in (self.capture, link):
            self.run_command("export", self.capture, "--format", "events-csv", "-o", output, code=USAGE)
            self.run_command("export", self.folder, "--format", "events-csv", "-o", output, code=USAGE)
            self.run_command("export", CAPTURE, "--diff", self.capture, "--format", "folded", "-o", output, code=USAGE)
        self.assertEqual(self.capture.read_bytes(), self.data)
        self.assertEqual(sorted(os.listdir(self.folder)), ["capture.ptrec", "link"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

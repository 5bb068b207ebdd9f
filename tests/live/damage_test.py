#!/usr/bin/env python3
"""Captures that are damaged, too new or not there: exit 8, one sentence, and what is whole with --salvage."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import time
import unittest
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer


class DamageTest(LiveTest):
    capture = b""

    @classmethod
    def setUpClass(cls) -> None:
        """One capture of several blocks, for all tests."""
        test = cls()
        test.setUp()
        with Job() as job, Tracer("-p", job.pid, "-o", test.out, "--format", "events-csv") as tracer:
            tracer.wait_until_recording()
            for _ in range(3):
                job.do("steps 60")
            assert tracer.stop() == 0, tracer.text()
        cls.capture = (test.out / "capture.ptrec").read_bytes()
        cls.spans = Result(test.out).ledger["begins"]
        test.doCleanups()

    def report(self, content: bytes, *options: str) -> "subprocess.CompletedProcess[str]":
        path = self.directory / "some.ptrec"
        path.write_bytes(content)
        return self.run_proftrace("report", path, *options)

    def assert_damaged(self, content: bytes, words: str = "proftrace") -> str:
        """8 without --salvage and with it; what --salvage shows."""
        done = self.report(content)
        self.assertEqual((done.returncode, done.stdout), (8, ""), done.stderr)
        self.assert_one_sentence(done.stderr, words)
        salvaged = self.report(content, "--salvage")
        self.assertEqual(salvaged.returncode, 8, salvaged.stderr)
        self.assert_one_sentence(salvaged.stderr)
        return salvaged.stdout

    def test_the_whole_capture_is_0(self) -> None:
        self.assertEqual(self.report(self.capture).returncode, 0)
        self.assertEqual(self.report(self.capture, "--salvage").returncode, 0)

    def test_cut_anywhere_what_is_before_is_shown(self) -> None:
        size = len(self.capture)
        shown = []
        for length in range(0, size, max(1, size // 40)):
            with self.subTest(length=length):
                shown.append("aten::" in self.assert_damaged(self.capture[:length]))
        self.assertFalse(shown[0])
        self.assertTrue(shown[-1])
        self.assertEqual(shown, sorted(shown))  # more of it never shows less

    def test_flipped_bytes_are_found(self) -> None:
        size = len(self.capture)
        for position in [*range(0, 64, 9), *range(100, size, max(1, size // 30)), size - 1]:
            with self.subTest(position=position):
                content = bytearray(self.capture)
                content[position] ^= 0x41
                self.assert_damaged(bytes(content))

    def test_what_is_no_capture_says_so(self) -> None:
        for content in (b"", b"x", b"not a capture at all, but long enough to hold its header"):
            self.assert_damaged(content, "not a proftrace capture")

    def test_a_damaged_header_is_no_newer_version_and_takes_no_rows_along(self) -> None:
        content = self.capture[:8] + struct.pack("<I", 99) + self.capture[12:]
        self.assertIn("aten::", self.assert_damaged(content, "its header is wrong"))

    def test_the_first_block_tells_host_version_and_wall_time(self) -> None:
        stored = struct.unpack_from("<I", self.capture, 24 + 12)[0]
        path = self.directory / "early.ptrec"
        path.write_bytes(self.capture[: 24 + 40 + stored])
        out = self.directory / "summary.json"
        done = self.run_proftrace("export", path, "--salvage", "--format", "summary", "-o", out)
        self.assertEqual(done.returncode, 8, done.stderr)
        summary = json.loads(out.read_text(encoding="utf-8"))
        self.assertEqual(summary["host"]["name"], os.uname().nodename)
        self.assertTrue(summary["proftrace"]["version"])
        self.assertAlmostEqual(summary["window"]["start_unix_ns"] * 1e-9, time.time(), delta=600)
        self.assertNotIn("wall time", [gap["feature"] for gap in summary["unsupported"]])

    def test_places_without_a_capture_are_8(self) -> None:
        empty = self.directory / "empty"
        empty.mkdir()
        os.mkfifo(self.directory / "pipe")
        for path in (empty, self.directory / "missing", self.directory / "pipe", Path("/dev/null")):
            for command in (("report", path), ("export", path, "--format", "csv")):
                self.assert_fails(8, command, re.escape(str(path)))

    def test_salvage_with_json_is_one_document_on_stdout(self) -> None:
        done = self.report(self.capture[: len(self.capture) * 2 // 3], "--salvage", "--json")
        self.assertEqual(done.returncode, 8)
        self.assertTrue(json.loads(done.stdout))
        self.assert_one_sentence(done.stderr)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""The manual pages that scripts/make-manual.py writes: manual_test.py PROFTRACE."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MAKE = Path(__file__).resolve().parents[3] / "scripts/make-manual.py"
PROGRAM = Path()


class ManualTest(unittest.TestCase):
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        subprocess.run([sys.executable, MAKE, PROGRAM, cls.folder], check=True)

    def page(self, name: str) -> str:
        return (self.folder / f"man/man1/{name}.1").read_text(encoding="utf-8")

    @staticmethod
    def commands(*group: str) -> list[str]:
        text = subprocess.run([PROGRAM, *group, "--help"], capture_output=True, text=True, check=True).stdout
        return re.findall(r"^  (\w+)", text.partition("Commands:")[2], re.MULTILINE)

    def test_there_is_a_page_for_each_command(self) -> None:
        commands = self.commands()
        self.assertIn("record", commands)
        # A group has a page of its own, and one for each of its commands.
        of_groups = [f"{command}-{one}" for command in commands for one in self.commands(command)]
        self.assertIn("fleet-ingest", of_groups)
        pages = ["proftrace", *(f"proftrace-{command}" for command in commands + of_groups)]
        self.assertEqual(sorted(path.stem for path in (self.folder / "man/man1").iterdir()), sorted(pages))
        for command in commands:
            self.assertIn(f".BR proftrace\\-{command} (1)", self.page("proftrace"))

    def test_a_page_has_every_option_with_its_text(self) -> None:
        page = self.page("proftrace-record")
        self.assertIn(".B \\-p, \\-\\-pid PID\nrecords this process (may be given again)\n", page)
        text = subprocess.run([PROGRAM, "record", "--help"], capture_output=True, text=True, check=True).stdout
        heads = re.findall(r"^  (-\S.*?)(?:  .*)?$", text, re.MULTILINE)
        self.assertGreater(len(heads), 30)
        for head in heads:
            self.assertIn(".B " + head.replace("-", "\\-") + "\n", page)
        self.assertNotIn("Usage:", page)
        self.assertIn(".SH SYNOPSIS\n.B proftrace record ", page)

    def test_the_formatter_takes_them(self) -> None:
        """No line is a request by chance, and none has a word that the formatter does not know."""
        for path in (self.folder / "man/man1").iterdir():
            for line in path.read_text(encoding="utf-8").splitlines():
                self.assertNotRegex(line, r"^\.(?!TH |SH |TP$|B |BR |nf$|fi$)")
                self.assertNotRegex(line, r"\\(?![e&(-])")
            if shutil.which("man"):
                done = subprocess.run(["man", "--warnings", "-l", "-Tutf8", path], capture_output=True, text=True, check=True)
                self.assertEqual(done.stderr, "", path.name)


if __name__ == "__main__":
    PROGRAM = Path(sys.argv.pop(1)).resolve()
    unittest.main()

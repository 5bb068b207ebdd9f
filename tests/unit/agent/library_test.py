#!/usr/bin/env python3
"""What the GPU agent asks of a process that it is loaded into: libc alone, none newer than glibc 2.17, two functions shown."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest

LIBRARY = ""
NEWEST = (2, 17)


def output(*command: str) -> str:
    return subprocess.run([*command, LIBRARY], check=True, capture_output=True, text=True).stdout


class AgentLibraryTest(unittest.TestCase):
    def setUp(self) -> None:
        symbols = output("readelf", "--dyn-syms", "--wide")
        if re.search("__(asan|tsan|ubsan)_", symbols):
            self.skipTest("a sanitized library needs the sanitizer's")
        self.symbols = [line.split() for line in symbols.splitlines() if re.match(r"\s*\d+:", line)]

    def test_needs_libc_alone(self) -> None:
        self.assertEqual(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "--dynamic")), ["libc.so.6"])

    def test_runs_with_an_old_glibc(self) -> None:
        versions = set()
        for symbol in self.symbols:
            if symbol[6] == "UND" and len(symbol) > 7 and symbol[4] != "WEAK":
                name, _, version = symbol[7].partition("@")
                self.assertTrue(version.startswith("GLIBC_"), f"{name} has no version")
                versions.add(tuple(int(part) for part in version.removeprefix("GLIBC_").split(".")))
        self.assertTrue(versions)
        self.assertLessEqual(max(versions)[:2], NEWEST)

    def test_shows_two_functions(self) -> None:
        shown = {symbol[7] for symbol in self.symbols if symbol[6] != "UND" and symbol[4] == "GLOBAL"}
        self.assertEqual(shown, {"proftrace_agent_start", "InitializeInjection", "InitializeInjectionNvtx", "InitializeInjectionNvtx2"})

    def test_has_no_thread_variables_and_stays_loaded(self) -> None:
        self.assertNotRegex(output("readelf", "--segments", "--wide"), r"\bTLS\b")
        self.assertRegex(output("readelf", "--dynamic"), r"\bNODELETE\b")


if __name__ == "__main__":
    LIBRARY = sys.argv.pop(1)
    unittest.main()

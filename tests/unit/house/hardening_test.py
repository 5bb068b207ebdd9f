#!/usr/bin/env python3
"""The program and the GPU agent are built so that a fault in them is hard to use: hardening_test.py READELF PROGRAM AGENT"""
import subprocess
import sys
import unittest

READELF, PROGRAM, AGENT = sys.argv[1:4]


def readelf(option, path):
    return subprocess.run([READELF, '-W', option, path], check=True, capture_output=True, text=True).stdout


class HardeningTest(unittest.TestCase):
    def test_relocations_are_done_at_the_start_and_then_read_only(self):
        for path in (PROGRAM, AGENT):
            with self.subTest(path):
                self.assertIn('GNU_RELRO', readelf('-l', path))
                self.assertRegex(readelf('-d', path), r'BIND_NOW|Flags:.*\bNOW\b')

    def test_no_memory_is_writable_and_executable(self):
        for path in (PROGRAM, AGENT):
            segments = [line for line in readelf('-l', path).splitlines() if line.strip().startswith(('LOAD', 'GNU_STACK'))]
            self.assertTrue(any('GNU_STACK' in line for line in segments), path)
            for line in segments:
                self.assertNotRegex(line, r'\bRWE\b|\bWE\b', path)

    def test_the_program_lies_anywhere(self):
        self.assertRegex(readelf('-h', PROGRAM), r'Type:\s+DYN')
        self.assertRegex(readelf('-d', PROGRAM), r'FLAGS_1.*\bPIE\b')

    def test_stacks_and_buffers_are_guarded(self):
        symbols = readelf('--dyn-syms', PROGRAM)
        self.assertIn('__stack_chk_fail', symbols)
        # With _FORTIFY_SOURCE copies and reads of known sizes are checked.
        self.assertRegex(symbols, r'__(memcpy|read|pread|pread64|readlink|realpath|snprintf|fprintf)_chk')
        self.assertIn('__glibcxx_assert_fail', symbols)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])

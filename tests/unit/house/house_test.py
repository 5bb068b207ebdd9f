#!/usr/bin/env python3
"""The scripts that guard the source and the tests must find what they are there for."""

from __future__ import annotations

import importlib.util
import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


includes = load("check-includes")
skips = load("check-no-skips")
comments = load("check-comments")

TABLE = """# Architecture
## Who may include whom
| folder | may include | its own headers |
|---|---|---|
| `base` | | |
| `capture` | `base` | `bpf/`, `secret.h` |
| `merge` | `base` | |
| `cli` | everything | |
## After
| `other` | `base` | |
"""
KNOWN = frozenset({"base/a.h", "capture/b.h", "merge/c.h", "cli/d.h"})


class IncludesTest(unittest.TestCase):
    def setUp(self) -> None:
        self.rules = includes.read_table(TABLE)

    def check(self, path: str, text: str) -> list[str]:
        return includes.violations(path, text, self.rules, KNOWN)

    def test_reads_the_table_under_its_heading_only(self) -> None:
        self.assertEqual(sorted(self.rules), ["base", "capture", "cli", "merge"])

    def test_allowed_includes_pass(self) -> None:
        self.assertEqual(self.check("merge/x.cc", '#include "base/a.h"\n#include "merge/c.h"\n#include <vector>\n'), [])
        self.assertEqual(self.check("capture/x.cc", "#include <bpf/libbpf.h>\n"), [])
        self.assertEqual(self.check("cli/x.cc", '#include "capture/b.h"\n#include <bpf/libbpf.h>\n'), [])

    def test_other_folder_is_found_with_its_line(self) -> None:
        self.assertEqual(self.check("merge/x.cc", '\n#  include "capture/b.h"\n'),
                         ["merge/x.cc:2: merge may not include capture (capture/b.h)"])

    def test_header_of_another_folder_is_found(self) -> None:
        self.assertEqual(len(self.check("merge/x.cc", "#include <bpf/bpf.h>\n")), 1)
        self.assertEqual(len(self.check("base/x.cc", '#include "secret.h"\n')), 1)

    def test_folder_without_a_row_is_found(self) -> None:
        self.assertEqual(len(self.check("elsewhere/x.cc", "")), 1)

    def test_table_that_is_missing_or_names_the_unknown_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            includes.read_table("# Architecture\n")
        with self.assertRaises(ValueError):
            includes.read_table(TABLE.replace("| `merge` | `base`", "| `merge` | `bass`"))


LISTING: dict[str, Any] = {"tests": [
    {"name": "fast", "properties": [{"name": "LABELS", "value": ["unit"]}]},
    {"name": "attach", "properties": [{"name": "LABELS", "value": ["live"]}]},
    {"name": "plain", "properties": []}]}


def junit(*cases: str) -> ElementTree.Element:
    return ElementTree.fromstring(f"<testsuite>{''.join(cases)}</testsuite>")


RAN_FAST = '<testcase name="fast" status="run"/>'


class OnePlaceTest(unittest.TestCase):
    """What one class is to do, for the sake of whoever runs proftrace as root, nothing else does beside it."""

    FOLDERS = ("userspace", "exporters", "symbols")

    def lines_of(self, pattern: str, folders: tuple[str, ...], but: set[str]) -> list[str]:
        root = SCRIPTS.parent
        found = []
        for path in sorted(path for folder in folders for path in (root / folder).rglob("*.cc")):
            name = str(path.relative_to(root))
            if name in but or name.startswith("userspace/agent/"):
                continue
            code = (line.split("//")[0] for line in path.read_text().splitlines())
            found += [f"{name}:{number}: {line.strip()}" for number, line in enumerate(code, 1) if re.search(pattern, line)]
        return found

    def test_files_are_made_and_removed_through_guarded_folder_alone(self) -> None:
        # The plan cache keeps root's own files by its descriptor; the types of the kernel lie in a mount of the thread's own.
        but = {"userspace/base/guarded_folder.cc", "symbols/plan/cache_folder.cc", "userspace/capture/kernel/kernel_types.cc"}
        calls = r"\b(mkdir|mkdirat|mkdtemp|mkstemp|mkostemp|rmdir|unlink|unlinkat|rename|renameat|renameat2|symlink|fopen|creat)\("
        self.assertEqual(self.lines_of(calls + r"|\bstd::ofstream\b|\bfilesystem::(remove|rename|create)", self.FOLDERS,
                                       but | {"userspace/base/clock.cc"}), [])
        self.assertEqual(self.lines_of(r"\bopen(at)?\(.*\bO_(CREAT|TMPFILE)\b", self.FOLDERS, but), [])

    def test_what_is_said_goes_through_say_alone(self) -> None:
        calls = r"\b(printf|fprintf|vfprintf|puts|fputs|putchar)\(|\bstd::(cerr|clog)\b|\bstd::cout\s*<<"
        self.assertEqual(self.lines_of(calls, ("userspace/cli",), {"userspace/cli/say.cc"}), [])


class CommentsTest(unittest.TestCase):
    def rules(self, text: str, name: str = "a.cc") -> list[tuple[int, str]]:
        return [(found.line, found.rule) for found in comments.findings_in(name, text)]

    def test_openings_without_a_subject_are_found(self) -> None:
        for sentence, rule in (("Of its cookie.", "Of"), ("Likewise, by process.", "Likewise"), ("The process, likewise.", "Likewise"),
                               ("The same of nodes.", "The same of"), ("Those of a thread.", "Those"), ("And what belongs to them.", "And what"),
                               ("What is read of one file.", "What is"), ("The index; nothing = none.", "nothing =")):
            self.assertEqual(self.rules(f"// {sentence}\nint x;\n"), [(1, rule)], sentence)

    def test_sentences_pass(self) -> None:
        for sentence in ("Of course it may fail.", "Returns the index; nullopt: not found.", "What is lost is counted.", "The same error, marked.",
                         "Where was it read?", "Those rows are merged."):
            self.assertEqual(self.rules(f"// {sentence}\n"), [], sentence)

    def test_each_sentence_of_a_comment_counts_and_is_told_with_its_first_line(self) -> None:
        self.assertEqual(self.rules("int a;\n// Returns\n// one. Of all.\n\n/* Likewise. */\nint b;  // those of a\nint c;  // Those of b\n"),
                         [(2, "Of"), (5, "Likewise"), (7, "Those")])
        self.assertEqual(self.rules("/*\n * Reads it.\n * Of one file.\n */\n", "a.h"), [(1, "Of")])

    def test_code_and_texts_are_no_comments(self) -> None:
        self.assertEqual(self.rules('Say("// Of it");\n'), [])
        self.assertEqual(self.rules("#!/bin/sh\n# Of it.\necho '# Of that'\n", "a.sh"), [(2, "Of")])


class SkipsTest(unittest.TestCase):
    def complaints(self, *cases: str) -> list[str]:
        return skips.complaints(skips.labels_by_test(LISTING), junit(*cases), ["unit", "live"])

    def test_all_ran(self) -> None:
        self.assertEqual(self.complaints(RAN_FAST, '<testcase name="attach" status="run"/>'), [])

    def test_skip_is_found_with_its_reason(self) -> None:
        found = self.complaints(RAN_FAST, '<testcase name="attach" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>'
                                          "<system-out>SKIPPED: needs root\n</system-out></testcase>")
        self.assertEqual(found, ["attach (live) was skipped: SKIPPED: needs root"])

    def test_disabled_and_absent_tests_are_found(self) -> None:
        self.assertEqual(len(self.complaints(RAN_FAST, '<testcase name="attach" status="disabled"/>')), 1)
        self.assertEqual(self.complaints(RAN_FAST), ["attach (live) did not run"])

    def test_label_without_tests_is_found(self) -> None:
        found = skips.complaints(skips.labels_by_test(LISTING), junit(RAN_FAST), ["oracle"])
        self.assertEqual(found, ["there is no test with the label oracle"])

    def test_failed_test_is_not_called_skipped(self) -> None:
        self.assertEqual(self.complaints(RAN_FAST, '<testcase name="attach" status="fail"><failure/></testcase>'), [])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The documents must agree with the code and with each other."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import unittest
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
# Only files that this repository wrote; captures and generated code hold anything.
TEXTS = re.compile(r"\.(md|cc|h|c|py|sh|cmake|txt|bpf)$|(^|/)(demo|test)$")
NOT_OURS = ("vmlinux/", "tests/golden/", "tests/fuzz/corpus/")
DECISION = re.compile(r"\b[Dd]ecisions? (\d+)(?: of\b)?((?:, \d+)*(?: and \d+)?)|docs/decisions/(\d{4})\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
# What documents call a file of the repository. Decisions, the changelog and results tell of other times.
PATH = re.compile(r"`((?:bpf|docs|examples|exporters|scripts|symbols|tests|userspace)/[\w./-]*\w\.(?:cc|c|h|py|md|sh|S|ld|cmake))`")
SYSTEM_HEADERS = {"bpf/libbpf_version.h"}
OF_OTHER_TIMES = ("docs/decisions/", "CHANGELOG.md", "tests/bench/RESULTS.md")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


generator = load("generate-docs")


def tracked() -> list[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*") if path.is_file() and "build" not in path.parts]
    return [name for name in names if (ROOT / name).is_file() and TEXTS.search(name) and not name.startswith(NOT_OURS)]


def named_decisions(text: str) -> set[int]:
    found = set()
    for first, more, number in DECISION.findall(text):
        found |= {int(number)} if number else {int(first), *map(int, re.findall(r"\d+", more))}
    return found


class DecisionsTest(unittest.TestCase):
    def test_names_are_read_in_all_forms(self) -> None:
        text = "(decision 15), decisions 37, 38 and 41; docs/decisions/0001, [decision 9](0009-x.md)"
        self.assertEqual(named_decisions(text), {1, 9, 15, 37, 38, 41})

    def test_each_decision_that_is_named_exists(self) -> None:
        known = {int(path.name[:4]) for path in (ROOT / "docs/decisions").glob("[0-9]*.md")}
        for name in tracked():
            if name != "tests/unit/house/docs_test.py":
                self.assertLessEqual(named_decisions((ROOT / name).read_text(errors="replace")), known, name)


class PagesTest(unittest.TestCase):
    def test_generated_pages_are_up_to_date(self) -> None:
        self.assertEqual(generator.stale(ROOT, generator.pages(ROOT)), [], "run scripts/generate-docs.py")

    def test_the_source_and_what_people_wrote_make_a_table(self) -> None:
        table = generator.Table(("column", "meaning"), [("`id`",), ("`new`",)])
        old = "| column | meaning |\n|---|---|\n| `gone` | x |\n| `id` | The number, a \\| b. |\n"
        self.assertEqual(generator.render(table, old).splitlines()[2:], ["| `id` | The number, a \\| b. |", "| `new` | TODO |"])

    def test_a_meaning_that_nobody_has_written_is_found(self) -> None:
        readme = (ROOT / "README.md").read_text()
        self.assertEqual(generator.stale(ROOT, {"README.md": readme}), [])
        self.assertEqual(generator.stale(ROOT, {"README.md": readme + "| `new` | TODO |\n"}),
                         ["README.md", "README.md has TODO"])

    def test_options_are_read_from_help(self) -> None:
        text = ("What it does.\nUsage: proftrace report CAPTURE [OPTIONS]\n\nArguments:\n  CAPTURE                  a file\n\nOptions:\n"
                "  -h, --help               Print this help message and exit\n"
                "  -p, --pid PID            of this\n"
                "                           one | that one (must be given; may be given again; not with\n"
                "                           --rank, --waits)\n\nOutputs:\n"
                "  --flight-recorder-memory SIZE\n                           of it (with --flight-recorder; default: 32M)\n"
                "  --tier bpf|patch         how (default: bpf)\n  --on, --off              both\n")
        self.assertEqual(generator.options(text, "report").rows, [
            ("`-p`, `--pid`", "`PID`", "", "of this one \\| that one (must be given; may be given again; not with --rank, --waits)"),
            ("`--flight-recorder-memory`", "`SIZE`", "`32M`", "of it (with --flight-recorder)"),
            ("`--tier`", "`bpf\\|patch`", "`bpf`", "how"), ("`--on`, `--off`", "", "", "both")])
        with self.assertRaises(generator.Missing):
            generator.options("Options:\nsomething else\n", "report")

    def test_a_changed_or_missing_page_is_found(self) -> None:
        self.assertEqual(generator.stale(ROOT, {"docs/no-such-page.md": "", "docs/decisions/README.md": "another text"}),
                         ["docs/no-such-page.md", "docs/decisions/README.md"])

    def test_links_between_documents_lead_to_files(self) -> None:
        for name in tracked():
            if not name.endswith(".md"):
                continue
            text = FENCE.sub("", (ROOT / name).read_text())
            for target in LINK.findall(text):
                if "://" not in target:
                    self.assertTrue(((ROOT / name).parent / target).exists(), f"{name} links to {target}")


    def test_files_that_documents_name_are_there(self) -> None:
        for name in tracked():
            if name.endswith(".md") and not name.startswith(OF_OTHER_TIMES):
                for path in PATH.findall((ROOT / name).read_text()):
                    self.assertTrue(path in SYSTEM_HEADERS or (ROOT / path).exists(), f"{name} names {path}")

    def test_where_things_are_is_where_they_are(self) -> None:
        table = re.search(r"^## Where is …\n(.*?)^## ", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE | re.DOTALL)
        rows = [re.findall(r"`([^`]+)`", line) for line in table.group(1).splitlines()[2:] if line.startswith("|")]
        self.assertGreaterEqual(len(rows), 15)
        for names in rows:
            files = [name for name in names if "/" in name]
            text = "".join((ROOT / file).read_text() for file in files)
            for name in set(names) - set(files) - {"record"}:
                self.assertTrue(name in text, f"{name} is not in {files}")

    def test_the_readme_is_one_screen(self) -> None:
        lines = (ROOT / "README.md").read_text().splitlines()
        self.assertLessEqual(len(lines), 100)
        self.assertEqual([line for line in lines if len(line) > 120], [])
        for command in ("    ./demo", "    ./test"):
            self.assertIn(command, lines)


if __name__ == "__main__":
    unittest.main()

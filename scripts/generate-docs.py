#!/usr/bin/env python3
"""Makes the pages of docs/ that list what the code lists, and checks that they are up to date.

    scripts/generate-docs.py            writes the pages that need no built program
    scripts/generate-docs.py --check    writes nothing; fails when a page differs from what it would write
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = "docs/decisions"
DECISION_FILE = re.compile(r"(\d{4})-[a-z0-9.-]+\.md")
STATUS = re.compile(r"holds\b|replaced by \[decision \d+\]\(\d{4}-[a-z0-9.-]+\.md\)")


def head_line(source: str) -> str:
    return f"<!-- Made by scripts/generate-docs.py from {source}:\n     do not edit this page; change that, and run the script. -->\n\n"


def field(text: str, name: str, where: str) -> str:
    match = re.search(rf"^- {name}: (.*)\.$", text, re.MULTILINE)
    if match is None:
        raise ValueError(f"{where}: no line \"- {name}: ….\"")
    return match.group(1)


def decisions_index(root: Path) -> str:
    """The index of the decisions by area, from the heads of their files."""
    rows: dict[str, list[str]] = {}
    for path in sorted((root / DECISIONS).glob("[0-9]*.md")):
        named, where, text = DECISION_FILE.fullmatch(path.name), f"{DECISIONS}/{path.name}", path.read_text()
        title = re.match(r"# (\d+)\. (.+)\n", text)
        if named is None or title is None or int(named.group(1)) != int(title.group(1)):
            raise ValueError(f"{where}: the name and the heading must have the same number: NNNN-words.md, \"# N. Title\"")
        status = field(text, "Status", where)
        if not STATUS.match(status):
            raise ValueError(f"{where}: the status begins with \"holds\" or \"replaced by [decision N](file)\"")
        rows.setdefault(field(text, "Area", where), []).append(
            f"| {title.group(1)} | [{title.group(2)}]({path.name}) | {status} |\n")
    text = head_line("the heads of the files in docs/decisions") + "# Decisions\n\n"
    text += ("Each file tells one choice between ways: the problem, the options with their figures, the choice, and what would change\n"
             "it. Source and documents refer to it by its number (\"decision 15\"). A decision that no longer holds keeps its file, with\n"
             "the number of its successor as its status. A new decision takes the next free number; numbers that are missing were\n"
             "never used.\n")
    for area, lines in rows.items():
        text += f"\n## {area}\n| number | decision | status |\n|---|---|---|\n" + "".join(lines)
    return text


def pages(root: Path) -> dict[str, str]:
    """The generated pages: their paths from the root, and their texts."""
    return {f"{DECISIONS}/README.md": decisions_index(root)}


def stale(root: Path, texts: dict[str, str]) -> list[str]:
    """The pages that are missing or differ from `texts`."""
    return [name for name, text in texts.items() if not (root / name).is_file() or (root / name).read_text() != text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a page is not up to date")
    arguments = parser.parse_args()
    texts = pages(ROOT)
    old = stale(ROOT, texts)
    if arguments.check:
        for name in old:
            print(f"generate-docs: {name} is not up to date: run scripts/generate-docs.py", file=sys.stderr)
        return 1 if old else 0
    for name in old:
        (ROOT / name).write_text(texts[name])
    print(f"generate-docs: {len(texts)} pages, {len(old)} of them written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

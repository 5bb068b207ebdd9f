#!/usr/bin/env python3
"""Checks each #include against the table of docs/internals/includes.md, and fails on a violation.

A row of the table: | `folder` | folders that it may include, or "everything" | headers that only it may include |
Headers in the last column are prefixes as written in the #include; two rows may share one.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

TABLE = "docs/internals/includes.md"
TITLE = "Who may include whom"
SOURCES = (".c", ".cc", ".cpp", ".h")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
CODE = re.compile(r"`([^`]+)`")


@dataclasses.dataclass(frozen=True)
class Rule:
    may_include: frozenset[str]
    everything: bool
    own_headers: tuple[str, ...]


def read_table(text: str) -> dict[str, Rule]:
    """The table under the heading TITLE. Raises ValueError when it is not there or has an unknown folder."""
    section = re.search(rf"^#+ {re.escape(TITLE)}\s*$(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise ValueError(f"no heading {TITLE!r}")
    rules: dict[str, Rule] = {}
    for line in section.group(1).splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or not CODE.search(cells[0]):
            continue
        folder = CODE.findall(cells[0])[0]
        rules[folder] = Rule(frozenset(CODE.findall(cells[1])), "everything" in cells[1], tuple(CODE.findall(cells[2])))
    if not rules:
        raise ValueError(f"no rows under {TITLE!r}")
    for folder, rule in rules.items():
        unknown = rule.may_include - rules.keys()
        if unknown:
            raise ValueError(f"the row of {folder} names {', '.join(sorted(unknown))}, which has no row")
    return rules


def folder_of(path: str, rules: dict[str, Rule]) -> str | None:
    """The longest folder of the table that holds `path`, a path from the root of the repository."""
    holding = [folder for folder in rules if path.startswith(folder + "/")]
    return max(holding, key=len, default=None)


def violations(path: str, text: str, rules: dict[str, Rule], known: frozenset[str]) -> list[str]:
    """What is wrong in one file. `known`: every file of the repository."""
    folder = folder_of(path, rules)
    if folder is None:
        return [f"{path}: its folder has no row in the table"]
    rule = rules[folder]
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match.group(2)
        place = f"{path}:{number}"
        if match.group(1) == '"' and name in known:
            target = folder_of(name, rules)
            if target != folder and target not in rule.may_include and not rule.everything:
                found.append(f"{place}: {folder} may not include {target} ({name})")
            continue
        owners = [other for other, entry in rules.items() if any(name.startswith(prefix) for prefix in entry.own_headers)]
        if owners and folder not in owners and not rule.everything:
            found.append(f"{place}: only {', '.join(owners)} may include {name}")
    return found


def tracked_files(root: Path) -> list[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
    return [name for name in listing.stdout.decode().split("\0") if name]


def main() -> int:
    root = Path(__file__).resolve().parents[1]
    rules = read_table((root / TABLE).read_text(encoding="utf-8"))
    files = tracked_files(root)
    known = frozenset(files)
    sources = [name for name in files if name.endswith(SOURCES) and not name.startswith(("vmlinux/", "examples/"))]
    found = []
    for name in sources:
        if (root / name).is_file():
            found += violations(name, (root / name).read_text(encoding="utf-8"), rules, known)
    for text in found:
        print(f"check-includes: {text}", file=sys.stderr)
    print(f"check-includes: {len(sources)} files, {len(rules)} folders, {len(found)} violations")
    return 1 if found or not sources else 0


if __name__ == "__main__":
    sys.exit(main())

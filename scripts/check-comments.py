#!/usr/bin/env python3
"""Finds comments that open like a riddle: without a subject, as "Of …", "Likewise …", "The same of …", "Those of …".

A comment is a sentence with a subject, for somebody who has never seen the project. Prints how many sentences break that in each
folder; with paths, only in these files and folders.

    scripts/check-comments.py [PATH …]           counts by folder
    scripts/check-comments.py --list [PATH …]    each one: file, line, rule, sentence
    scripts/check-comments.py --check [PATH …]   exit code 1 where there is any
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLASHES = (".c", ".cc", ".cpp", ".h", ".js", ".S", ".proto")
HASHES = (".py", ".sh", ".cmake", ".txt")
NOT_OURS = ("vmlinux/", "tests/golden/", "tests/fuzz/corpus/")
# Verbs by which a sentence that opens with "What is …" says something after all.
VERB = ("(?:is|are|was|were|be|has|have|had|does|do|did|can|cannot|may|might|must|will|would|should|makes|gets|goes|comes|takes|gives|"
        "says|tells|counts|ends|begins|lies|needs|stays|keeps|belongs|stands|costs|means|becomes|follows|leads|holds|"
        "runs|reads|writes|calls|uses|leaves|shows|fails|waits|happens|works|remains|depends|knows|returns|passes|puts|"
        "finds|starts|stops|moves|matters|differs|changes|closes|opens|fits|hits|helps|turns|asks|looks|sees|loses)")

# What a sentence of a comment must not be. The names are what the list of findings shows.
RULES = {
    "Of": re.compile(r"Of (?!course\b)"),
    "Likewise": re.compile(r"(?:.*\b)?[Ll]ikewise\b"),
    "The same of": re.compile(r"The same (?:of|for|in|with|without|by|at|where|when)\b|The same[.:;,]"),
    "Those": re.compile(r"Those (?:of|that|which|who|in|with|without|by|from|for)\b|Those\.$"),
    "These": re.compile(r"These: |That of\b"),
    "And what": re.compile(r"And (?:what|where|who|how|of|those|that|in|for|whether|when)\b"),
    # "What is read of a file." says nothing; "What is lost is counted." does, by its second verb.
    "What is": re.compile(rf"(?:What|Where|Who|How|Whose|When) (?:is|are|was|were|has|have)\b(?!.*\b{VERB}\b)[^?]*$"),
    "nothing =": re.compile(r".*\b(?:nothing|none) = "),
}


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: str
    sentence: str


def blocks(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The comments of a file, each with its first line. Comment lines that follow each other are one comment."""
    marker = "//" if name.endswith(SLASHES) else "#"
    start, words = 0, []
    is_inside = False  # of a /* comment */
    for number, line in enumerate([*text.splitlines(), ""], 1):
        stripped, comment = line.strip(), None
        if is_inside:
            comment = stripped.split("*/")[0].lstrip("* ")
            is_inside = "*/" not in stripped
        elif marker == "//" and (match := re.search(r"/\*(.*)", line)) and not stripped.startswith("//"):
            comment = match.group(1).split("*/")[0].strip("* ")
            is_inside = "*/" not in match.group(1)
        elif stripped.startswith(marker) and not stripped.startswith("#!"):
            comment = stripped.lstrip(marker[0]).strip()
        elif match := re.search(rf"(?:^|\s){re.escape(marker)} (.*)", line):  # behind code: a comment of its own
            if not re.search(r"[\"'][^\"']*" + re.escape(marker), line):
                yield number, match.group(1).strip()
        if comment is None:
            if words:
                yield start, " ".join(words)
            words = []
            continue
        if not words:
            start = number
        words.append(comment)


def sentences(comment: str) -> list[str]:
    return [part.strip() for part in re.split(r"(?<=[.;:!?])\s+(?=[A-Z])|(?<=\.)\s{2,}", comment) if part.strip()]


def findings_in(name: str, text: str) -> list[Finding]:
    found = []
    for line, comment in blocks(name, text):
        for sentence in sentences(comment):
            rule = next((rule for rule, pattern in RULES.items() if pattern.match(sentence)), None)
            if rule is not None:
                found.append(Finding(name, line, rule, sentence))
    return found


def sources(paths: list[str]) -> list[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--", *paths], capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines()
            if name.endswith((*SLASHES, *HASHES)) and not name.startswith(NOT_OURS) and (ROOT / name).is_file()]


def folder_of(name: str) -> str:
    parts = name.split("/")[:-1]
    return "/".join(parts[:2]) if parts and parts[0] in ("userspace", "tests", "bpf") else (parts or ["."])[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show each sentence")
    parser.add_argument("--check", action="store_true", help="exit with 1 where there is any")
    parser.add_argument("paths", nargs="*", help="files or folders of the repository")
    arguments = parser.parse_args()
    names = sources(arguments.paths)
    found = [finding for name in names for finding in findings_in(name, (ROOT / name).read_text(errors="replace"))]
    if arguments.list:
        for one in found:
            print(f"{one.path}:{one.line}: {one.rule}: {one.sentence}")
    folders = collections.Counter(folder_of(one.path) for one in found)
    rules = collections.Counter(one.rule for one in found)
    for folder, count in sorted(folders.items()):
        print(f"{count:5} {folder}")
    print(f"{len(found):5} in {len(names)} files: " + ", ".join(f"{rule} {count}" for rule, count in rules.most_common()))
    return 1 if arguments.check and found else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Fails where a class or a function of the program has grown too large: look for the second idea in it.

Measured are the C++ sources of symbols/, userspace/ and exporters/, formatted as clang-format leaves them:
  function     lines of one function's definition, from its first line to its brace, without comments        at most 60
  methods      lines of all definitions of a class's methods, over all files, without comments               at most 600
  members      data members of a class (`class`; the fields of a plain `struct` are a row, and not counted)  at most 15
  parameters   of a constructor                                                                              at most 5

scripts/size-exceptions.txt names what is larger: kind, name, size, and the reason. An exception that is not needed any more, or
allows more than there is, fails as well: so the list only gets shorter. --write prints the list as it is now.
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

LIMITS = {"function": 60, "methods": 600, "members": 15, "parameters": 5}
FOLDERS = ("symbols/", "userspace/", "exporters/")
EXCEPTIONS = Path("scripts/size-exceptions.txt")
TEXTS = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?:.*?)\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.DOTALL | re.MULTILINE)
CLASS = re.compile(r"^(?:template\s*<.*>\s*)?(class|struct|union)\s+(?:\[\[.*?\]\]\s*|alignas\(.*?\)\s*)*([\w:]+)(?:\s+final)?(?:\s*:[^:].*)?$", re.DOTALL)
NOT_MEMBERS = re.compile(r"^(?:using|typedef|friend|static|enum|class|struct|union|template|explicit|virtual|public|private|protected|constexpr)\b")


@dataclasses.dataclass
class Scope:
    kind: str  # "namespace", "class", "function" or "other"
    name: str
    first_line: int


@dataclasses.dataclass(frozen=True)
class Size:
    kind: str
    name: str
    size: int
    place: str


def without_texts(source: str) -> str:
    """The source without comments, literals and directives; the lines stay where they are."""
    return TEXTS.sub(lambda match: "\n" * match.group().count("\n") if match.group()[0] in "/#" or not match.group().strip("\"'") else
                     '""' + "\n" * match.group().count("\n"), source)


def without_nested(text: str, pairs: str) -> str:
    """The text without what stands between the brackets, which stay."""
    depth, kept = 0, []
    for at, character in enumerate(text):
        if character == pairs[1] and not (character == ">" and text[at - 1:at] == "-"):
            depth = max(0, depth - 1)
        if depth == 0:
            kept.append(character)
        if character == pairs[0]:
            depth += 1
    return "".join(kept)


def function_name(head: str) -> str | None:
    """The name of the function that this begins, with its class; None: it begins none."""
    bare = without_nested(without_nested(re.sub(r"operator\s*[^\w\s(]+|operator\s*\(\)", "operator", head), "<>"), "()")
    if "(" not in bare or "=" in bare.split("(")[0]:
        return None
    found = re.search(r"([~\w:<>]+)\s*\($", bare[:bare.index("(") + 1])
    return re.sub(r"<>", "", found.group(1)) if found else None


def parameters(head: str, name: str) -> int:
    """How many parameters stand behind the name."""
    begin = re.search(rf"\b{name}\s*\(", head)
    if begin is None:
        return 0
    depth, commas, any_text = 1, 0, False
    for at in range(begin.end(), len(head)):
        character = head[at]
        if character in "(<{[":
            depth += 1
        elif character in ")>}]" and head[at - 1:at] != "-":
            depth -= 1
            if depth == 0:
                break
        commas += character == "," and depth == 1
        any_text |= not character.isspace()
    return commas + 1 if any_text else 0


class File:
    """Walks over one file, and tells what it finds."""

    def __init__(self, path: str, source: str) -> None:
        self.path = path
        self.sizes: list[Size] = []
        self.methods: dict[str, int] = {}
        self.members: dict[str, int] = {}
        self.scopes: list[Scope] = []
        self.head, self.head_line = "", 1
        line = 1
        bare = without_texts(source)
        self.has_code = [bool(text.strip()) for text in bare.split("\n")]
        for character in bare:
            if character == "{":
                self.open(line)
            elif character == "}":
                self.close(line)
            elif character == ";" and self.is_declaring():
                self.declare(line)
            else:
                if not self.head.strip():
                    self.head, self.head_line = "", line
                self.head += character
            line += character == "\n"
        for name, count in self.members.items():
            self.sizes.append(Size("members", name, count, path))

    def is_declaring(self) -> bool:
        return not self.scopes or self.scopes[-1].kind in ("namespace", "class")

    def open(self, line: int) -> None:
        head = self.head.strip()
        if self.is_declaring():
            head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head)
            is_body = self.head[-1:].isspace() and head.count("(") == head.count(")")
            kind, name = "other", ""
            if head.startswith("namespace") or head.startswith("extern"):
                kind = "namespace"
            elif (found := CLASS.match(head)) and is_body:
                kind, name = "class", found.group(2).split("::")[-1]
                if found.group(1) == "class":
                    self.members.setdefault(name, 0)
            elif is_body and (name := function_name(head) or ""):
                kind = "function"
                self.begin_function(head, name, line)
            self.scopes.append(Scope(kind, name, self.head_line))
            if kind == "other":
                return
        else:
            self.scopes.append(Scope("other", "", line))
        self.head = ""

    def close(self, line: int) -> None:
        if not self.scopes:
            return
        scope = self.scopes.pop()
        if scope.kind == "function":
            length = sum(self.has_code[scope.first_line - 1:line])
            owner = scope.name.split("::")[-2] if "::" in scope.name else ""
            if not owner and self.scopes and self.scopes[-1].kind == "class":
                owner = self.scopes[-1].name
            name = f"{owner}::{scope.name.split('::')[-1]}" if owner else scope.name
            self.sizes.append(Size("function", name, length, f"{self.path}:{scope.first_line}"))
            if owner:
                self.methods[owner] = self.methods.get(owner, 0) + length
        if scope.kind != "other":
            self.head = ""

    def begin_function(self, head: str, name: str, line: int) -> None:
        short = name.split("::")[-1]
        owner = name.split("::")[-2] if "::" in name else self.scopes[-1].name if self.scopes else ""
        if short == owner:
            self.sizes.append(Size("parameters", owner, parameters(head, short), f"{self.path}:{line}"))

    def declare(self, line: int) -> None:
        head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", self.head.strip())
        self.head = ""
        if not self.scopes or self.scopes[-1].kind != "class":
            return
        owner = self.scopes[-1].name
        bare = without_nested(head, "<>")
        declared = bare.split("=")[0]
        if "(" in declared:
            if re.match(rf"^(?:explicit\s+|constexpr\s+)*{owner}\s*\(", bare):
                self.sizes.append(Size("parameters", owner, parameters(head, owner), f"{self.path}:{line}"))
        elif owner in self.members and head and not NOT_MEMBERS.match(head):
            self.members[owner] += 1 + declared.count(",")


def measure(paths: list[str]) -> list[Size]:
    """Returns the largest size of each kind and name."""
    largest: dict[tuple[str, str], Size] = {}
    methods: dict[str, tuple[int, str]] = {}
    for path in paths:
        file = File(path, Path(path).read_text(encoding="utf-8"))
        for size in file.sizes:
            key = (size.kind, size.name)
            if key not in largest or size.size > largest[key].size:
                largest[key] = size
        for name, lines in file.methods.items():
            methods[name] = (methods.get(name, (0, path))[0] + lines, path)
    return [*largest.values(), *(Size("methods", name, lines, path) for name, (lines, path) in methods.items())]


def read_exceptions(text: str) -> dict[tuple[str, str], tuple[int, str]]:
    """Size and reason by kind and name. Raises ValueError for a line that is none."""
    exceptions = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split(None, 3)
        if len(fields) != 4 or fields[0] not in LIMITS or not fields[2].isdigit():
            raise ValueError(f"line {number}: kind, name, size and reason are wanted, not {line!r}")
        exceptions[fields[0], fields[1]] = (int(fields[2]), fields[3])
    return exceptions


def findings(sizes: list[Size], exceptions: dict[tuple[str, str], tuple[int, str]]) -> list[str]:
    """Returns a sentence for each thing that is wrong."""
    found = []
    by_name = {(size.kind, size.name): size for size in sizes}
    for size in sizes:
        limit = LIMITS[size.kind]
        allowed = exceptions.get((size.kind, size.name), (limit, ""))[0]
        if size.size > max(limit, allowed):
            found.append(f"{size.place}: {size.kind} of {size.name}: {size.size}, at most {max(limit, allowed)}")
    for (kind, name), (allowed, _) in exceptions.items():
        size = by_name.get((kind, name))
        now = size.size if size else 0
        if now <= LIMITS[kind]:
            found.append(f"{EXCEPTIONS}: {kind} of {name} needs no exception any more ({now}): take the line out")
        elif now < allowed:
            found.append(f"{EXCEPTIONS}: {kind} of {name} is {now} now: write that")
    return found


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "--", "*.cc", "*.h"], capture_output=True, text=True, check=True).stdout.splitlines()
    paths = [path for path in listed if path.startswith(FOLDERS) and Path(path).exists()]
    sizes = measure(paths)
    if "--write" in sys.argv:
        known = read_exceptions(EXCEPTIONS.read_text(encoding="utf-8")) if EXCEPTIONS.exists() else {}
        for size in sorted(sizes, key=lambda one: (one.kind, -one.size, one.name)):
            if size.size > LIMITS[size.kind]:
                reason = known.get((size.kind, size.name), (0, "?"))[1]
                print(f"{size.kind:<10} {size.name:<44} {size.size:>4}  {reason}")
        return 0
    found = findings(sizes, read_exceptions(EXCEPTIONS.read_text(encoding="utf-8")))
    for text in found:
        print(f"check-sizes: {text}", file=sys.stderr)
    print(f"check-sizes: {len(sizes)} sizes of {len(paths)} files, {len(found)} too large or out of date")
    return 1 if found or not paths else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Writes the manual pages, and what shells complete, from what the program says of itself: make-manual.py PROFTRACE OUT.

OUT gets man/man1/proftrace.1, a page for each command (proftrace-record.1), and the completions for bash, zsh and fish under the names
by which these shells look for them, all below OUT as below /usr/share."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PLACES = {"bash": "bash-completion/completions/proftrace", "zsh": "zsh/vendor-completions/_proftrace",
          "fish": "fish/vendor_completions.d/proftrace.fish"}
OPTION = re.compile(r"  (?P<head>\S.*?)(?:\s{2,}(?P<text>.*))?$")


def ask(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def roff(text: str) -> str:
    """Text that means nothing to the formatter: a dot at the begin of a line is a request, a dash is no hyphen."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + text if text.startswith((".", "\\(aq")) else text


def sections(help_text: str) -> tuple[list[str], str, list[tuple[str, list[tuple[str, str]]]]]:
    """The description's lines, how to call it, and the named lists of a help text."""
    about, _, rest = help_text.partition("Usage: ")
    usage, _, lists = rest.partition("\n\n")
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in lists.splitlines():
        match = OPTION.match(line)
        if line.endswith(":") and not line.startswith(" "):
            found.append((line[:-1], []))
        elif line.startswith(" " * 20) and found:
            head, text = found[-1][1][-1]
            found[-1][1][-1] = (head, f"{text} {line.strip()}".strip())
        elif match and found:
            found[-1][1].append((match["head"], match["text"] or ""))
    return about.strip().splitlines(), " ".join(usage.split()), found


def page(name: str, help_text: str, version: str, others: list[str]) -> str:
    about, usage, lists = sections(help_text)
    examples = [line.removeprefix("Example: ") for line in about if line.startswith("Example: ")]
    prose = " ".join(line for line in about if not line.startswith("Example: "))
    lines = [f'.TH {name.upper()} 1 "" "{version}" "User Commands"', ".SH NAME", f"{roff(name)} \\- {roff(re.split(r'[.:;]', prose)[0])}",
             ".SH SYNOPSIS", f".B {roff(usage)}", ".SH DESCRIPTION", roff(prose)]
    for heading, rows in lists:
        lines.append(f'.SH "{heading.upper()}"')
        for head, text in rows:
            lines += [".TP", f".B {roff(head)}", roff(text)]
    if examples:
        lines += [".SH EXAMPLES", ".nf", *map(roff, examples), ".fi"]
    lines += [".SH SEE ALSO", *(f".BR {roff(other)} (1)" for other in others if other != name)]
    return "\n".join(lines) + "\n"


def commands_of(program: str, group: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The words of each command, those of a group behind the group itself."""
    found: list[tuple[str, ...]] = []
    for heading, rows in sections(ask(program, *group, "--help"))[2]:
        for head, _ in rows if heading == "Commands" else ():
            found += [(*group, head), *commands_of(program, (*group, head))]
    return found


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    program, out = sys.argv[1], Path(sys.argv[2])
    version = ask(program, "--version").strip()
    commands = commands_of(program, ())
    pages = ["proftrace", *("-".join(("proftrace", *words)) for words in commands)]
    folder = out / "man/man1"
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in zip(pages, [(), *commands], strict=True):
        text = ask(program, *words, "--help")
        (folder / f"{name}.1").write_text(page(name, text, version, pages), encoding="utf-8")
    for shell, place in PLACES.items():
        path = out / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ask(program, "completion", shell), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

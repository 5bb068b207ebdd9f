"""Finds and runs the program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from proftrace._errors import ProftraceError

# What an option's value makes of it on the command line: True is the option alone, False and None leave it out.
Option = "str | int | float | bool | os.PathLike[str] | None"


def find_program() -> str:
    """The path of the program: PROFTRACE_PROGRAM, else the one that was installed with this package, else the one of PATH."""
    asked = os.environ.get("PROFTRACE_PROGRAM")
    if asked:
        named = shutil.which(asked)
        if named is None:
            raise ProftraceError(f"PROFTRACE_PROGRAM names {asked}, which is no program that this user may run")
        return named
    for folder in (sysconfig.get_path("scripts"), os.path.dirname(sys.executable)):
        beside = Path(folder) / "proftrace"
        if os.access(beside, os.X_OK):
            return str(beside)
    found = shutil.which("proftrace")
    if found is None:
        raise ProftraceError("the program proftrace is not installed beside this Python, nor in PATH; PROFTRACE_PROGRAM may name it")
    return found


def words_of(options: dict[str, Option]) -> list[str]:
    """with_stack=True, sample="99Hz" as --with-stack --sample 99Hz; a list is given again for each item."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if item is None or item is False:
                continue
            words += [option] if item is True else [option, os.fspath(item) if isinstance(item, os.PathLike) else str(item)]
    return words


def sentence_of(text: str) -> str:
    """The last line that the program wrote, without its name."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("proftrace: ") if lines else "it said nothing"


def run(arguments: list[str]) -> str:
    """Runs it to its end; its standard output."""
    done = subprocess.run([find_program(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    if done.returncode != 0:
        raise ProftraceError(sentence_of(done.stderr), done.returncode)
    return done.stdout

#!/usr/bin/env python3
"""The completion scripts, in the shells that are here: completion_test.py PROFTRACE. bash is everywhere; zsh and fish where they are installed."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

PROGRAM = Path()
LISTED = """     PID  NAME             TORCH          PYTHON  THREADS  COMMAND
   12345  python3          2.11.0         3.11          3  python3 $(touch hacked).py
   23456  python3          2.11.0         3.11          3  train.py
"""
IN_BASH = """source "$1"
COMP_WORDS=("${@:2}")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { :; }
_proftrace
printf '%s\\n' "${COMPREPLY[@]}"
"""


class CompletionTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        # Completes as the program, and lists processes that are not there.
        self.program = self.folder / "proftrace"
        self.program.write_text(f"#!/bin/sh\nif [ \"$1\" = list ]; then cat <<'END'\n{LISTED}END\nelse exec '{PROGRAM}' \"$@\"; fi\n", encoding="ascii")
        self.program.chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", HOME=str(self.folder))

    def script(self, shell: str) -> Path:
        path = self.folder / f"completion.{shell}"
        path.write_text(subprocess.run([PROGRAM, "completion", shell], capture_output=True, text=True, check=True).stdout, encoding="utf-8")
        return path

    def in_bash(self, *words: str) -> list[str]:
        """What bash proposes for the last word. bash takes `=` for a word of its own."""
        done = subprocess.run(["bash", "--norc", "-c", IN_BASH, "bash", self.script("bash"), "proftrace", *words], capture_output=True, text=True,
                              check=True, env=self.environment, cwd=self.folder)
        self.assertEqual(done.stderr, "")
        return [line for line in done.stdout.splitlines() if line]

    def test_bash_completes_commands_and_options(self) -> None:
        self.assertEqual(self.in_bash("re"), ["record", "report"])
        self.assertIn("export", self.in_bash(""))
        self.assertEqual(self.in_bash("record", "--with-m"), ["--with-modules"])
        self.assertEqual(self.in_bash("--with-m"), ["--with-modules"])  # `record` may be left out
        self.assertEqual(self.in_bash("report", "--with-m"), [])
        self.assertEqual(self.in_bash("merge", "--lan"), ["--lanes"])
        self.assertEqual(self.in_bash("completion", ""), ["bash", "zsh", "fish"])
        self.assertEqual(self.in_bash("help", "ex"), ["export"])
        self.assertEqual(self.in_bash("fleet", "qu"), ["query"])
        self.assertEqual(self.in_bash("fleet", "query", "--eng"), ["--engine"])
        self.assertEqual(self.in_bash("fleet", "report", "--engine", "sp"), ["spark"])

    def test_bash_completes_what_options_take(self) -> None:
        self.assertEqual(self.in_bash("--tier", ""), ["auto", "bpf", "patch"])
        self.assertEqual(self.in_bash("record", "--tier", "=", "p"), ["patch"])
        self.assertEqual(self.in_bash("record", "--tier", "="), ["auto", "bpf", "patch"])
        self.assertEqual(self.in_bash("record", "--activities", "cpu,s"), ["cpu,syscalls", "cpu,sched"])
        self.assertEqual(self.in_bash("export", "x", "--format", "flame"), ["flamegraph"])
        self.assertIn("self_cpu_time_total", self.in_bash("report", "x", "--sort-by", "self_cpu"))
        self.assertIn("off_cpu", self.in_bash("export", "x", "--metric", "off"))
        self.assertEqual(self.in_bash("record", "-d", ""), [])

    def test_bash_completes_processes(self) -> None:
        for words in (("-p", ""), ("record", "--pid", ""), ("dump", "-p", ""), ("doctor", "--pid", "=")):
            self.assertEqual(self.in_bash(*words), ["12345", "23456"])
        self.assertEqual(self.in_bash("-p", "2"), ["23456"])
        self.assertFalse((self.folder / "hacked").exists())

    def test_bash_completes_files_and_commands(self) -> None:
        (self.folder / "a result").mkdir()
        self.assertEqual(self.in_bash("report", "a"), ["a result"])
        self.assertIn("bash", self.in_bash("-o", "x", "--", "bas"))
        self.assertEqual(self.in_bash("--", "bash", "a"), ["a result"])

    def test_every_option_of_the_help_is_proposed(self) -> None:
        for command in ("record", "report", "export", "merge", "dump", "clean", "list", "doctor"):
            text = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True, check=True).stdout
            listed = {word.strip(",") for line in text.splitlines() if line.startswith("  -") for word in line.split() if word.startswith("-")
                      and line.index(word) < 27}
            proposed = set(self.in_bash(command, "-"))
            self.assertLessEqual({word for word in listed if word.startswith("--") and word != "--"}, proposed, command)

    def test_fish(self) -> None:
        if not shutil.which("fish"):
            return

        def proposed(line: str) -> list[str]:
            done = subprocess.run(["fish", "--no-config", "-c", f"source {self.script('fish')}; complete -C '{line}'"], capture_output=True, text=True,
                                  check=True, env=self.environment, cwd=self.folder)
            self.assertEqual(done.stderr, "")
            return [found.split("\t")[0] for found in done.stdout.splitlines()]

        self.assertEqual(proposed("proftrace re"), ["record", "report"])
        self.assertEqual(proposed("proftrace -p "), ["12345", "23456"])
        self.assertEqual(proposed("proftrace record --tier "), ["auto", "bpf", "patch"])
        self.assertEqual(proposed("proftrace record --activities cpu,f"), ["cpu,faults"])
        self.assertEqual(proposed("proftrace report --gpu-i"), ["--gpu-idle"])
        self.assertEqual(proposed("proftrace fleet qu"), ["query"])
        self.assertEqual(proposed("proftrace fleet query --eng"), ["--engine"])
        self.assertEqual(proposed("proftrace fleet report --gpu-i"), [])

    def test_zsh(self) -> None:
        if not shutil.which("zsh"):
            return
        self.assertEqual(self.in_zsh("proftrace repo\t"), "proftrace report")
        self.assertEqual(self.in_zsh("proftrace record --with-mo\t"), "proftrace record --with-modules")
        self.assertEqual(self.in_zsh("proftrace --tier pa\t"), "proftrace --tier patch")
        self.assertEqual(self.in_zsh("proftrace dump -p 2\t"), "proftrace dump -p 23456")
        self.assertEqual(self.in_zsh("proftrace -p 2\t"), "proftrace -p 23456")
        self.assertEqual(self.in_zsh("proftrace fleet que\t"), "proftrace fleet query")
        self.assertEqual(self.in_zsh("proftrace fleet query --eng\t"), "proftrace fleet query --engine")

    def in_zsh(self, keys: str) -> str:
        """What stands on the command line of a real zsh after these keys."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**self.environment, "TERM": "dumb", "PS1": "> "})
        try:
            self.say(terminal, f"autoload -U compinit; compinit -u -D; source {self.script('zsh')}; unsetopt prompt_cr prompt_sp\n")
            self.say(terminal, "show() { print -r -- \"[[$BUFFER]]\"; BUFFER= }; zle -N show; bindkey '^X' show; print rea''dy\n", until="ready\r\n")
            text = self.say(terminal, keys + "\x18", until="]]")
            return text.rsplit("[[", 1)[1].split("]]")[0].rstrip()
        finally:
            os.close(terminal)
            os.waitpid(pid, 0)

    def say(self, terminal: int, keys: str, until: str = "\n") -> str:
        os.write(terminal, keys.encode())
        text, deadline = "", time.monotonic() + 20
        while until not in text and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                text += os.read(terminal, 4096).decode(errors="replace")
        self.assertIn(until, text)
        return text


if __name__ == "__main__":
    PROGRAM = Path(sys.argv.pop(1)).resolve()
    unittest.main()

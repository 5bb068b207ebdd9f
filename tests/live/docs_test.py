#!/usr/bin/env python3
"""Every command that README.md, docs/getting-started.md and docs/tasks show is run on a real job, and does what the page says."""

from __future__ import annotations

import re
import shlex
import subprocess
import unittest
from pathlib import Path

import live
from live import Job, LiveTest

ROOT = Path(__file__).resolve().parents[2]
COMMAND = re.compile(r"^    (?:sudo )?proftrace (.+?)(?: {2,}#.*)?$", re.MULTILINE)
# Shorter windows than a reader would take: the job has steps of some milliseconds.
SHORT = "0.2s"
SCRIPT = "import torch\nfor _ in range(50): torch.ones(8, 8) @ torch.ones(8, 8)\n"
# What this machine may lack: a command that says so has done what it should.
NO_GPU = "--gpu-idle"


def commands_of(page: str) -> list[str]:
    return COMMAND.findall(page)


def shortened(command: str, pids: dict[str, str], script: Path) -> list[str]:
    """The words of a command as the test runs it: real PIDs, a short window, a script that exists."""
    words = [pids.get(word, word) for word in shlex.split(command)]
    for option, value in (("-d", SHORT), ("--start-at", "/1s"), ("--flight-recorder", "1s")):
        if option in words:
            words[words.index(option) + 1] = value
    if words[0] == "top":
        words += ["--window", "1s"]
    if "--flight-recorder" in words and "-d" not in words:
        words += ["-d", SHORT]
    if "--" in words:
        at = words.index("--")
        words = [*words[:at], "--as-root", "--", LiveTest.python, str(script)]
    return words


class CommandsTest(unittest.TestCase):
    """What is taken for a command."""

    def test_comments_and_sudo_are_left_out(self) -> None:
        text = "    sudo proftrace -p 4711 -d 10s   # a comment\ntext\n    proftrace list\n```\nproftrace: no command\n```\n"
        self.assertEqual(commands_of(text), ["-p 4711 -d 10s", "list"])


class DocsTest(LiveTest):
    done: set[str] = set()  # commands that another page shows as well

    def run_pages(self, *pages: str) -> None:
        script = self.directory / "train.py"
        script.write_text(SCRIPT)
        with Job(environment={"RANK": "1", "WORLD_SIZE": "2"}, fresh=True) as job, Job() as second:
            for one in (job, second):
                one.tell("loop 5")  # which leaves the processors to proftrace
            for page in pages:
                commands = commands_of((ROOT / page).read_text(encoding="utf-8"))
                self.assertNotEqual(commands, [], page)
                for command in commands:
                    with self.subTest(page=page, command=command):
                        if " -o " in command or not command.startswith("-") or command not in self.done:
                            self.run_command(command, {"4711": str(job.pid), "4712": str(second.pid)}, script)
                        self.done.add(command)

    def run_command(self, command: str, pids: dict[str, str], script: Path) -> None:
        words = shortened(command, pids, script)
        if ">" in words:  # what the shell would do
            with (self.directory / words[-1]).open("wb") as file:
                made = subprocess.run([str(live.BINARY), *map(str, words[:words.index(">")])], stdout=file, stderr=subprocess.PIPE, text=True,
                                      cwd=self.directory, check=False, timeout=live.WORK_S)
        else:
            made = self.run_proftrace(*words)
        if NO_GPU in command and made.returncode == 2:
            self.assertIn("record with --gpu agent", made.stderr)
        else:
            self.assertEqual(made.returncode, 0, made.stderr)

    def test_readme_and_getting_started(self) -> None:
        self.run_pages("README.md", "docs/getting-started.md")

    def test_tasks(self) -> None:
        pages = sorted(path for path in (ROOT / "docs/tasks").glob("*.md") if path.name != "README.md")
        self.assertGreater(len(pages), 10)
        self.run_pages(*(str(page.relative_to(ROOT)) for page in pages))


if __name__ == "__main__":
    live.run(own_host=True)

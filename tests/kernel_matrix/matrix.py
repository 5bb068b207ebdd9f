"""MATRIX.md: a section for each kernel, of which those that were run are renewed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
from pathlib import Path

HEAD = """# proftrace in other kernels

Written by `tests/kernel_matrix/run`: real kernels of the distribution under qemu, this repository's release build, a job of
PyTorch {torch} that is recorded by PID with each set of options (`checks.py` says what is asked of each). Times are those of
an emulated machine (TCG: many times as slow as a real one), to be compared with each other only.
"""


@dataclasses.dataclass
class Run:
    release: str
    origin: str
    accelerator: str
    up_s: float
    wall_s: float
    quick: bool
    status: int | None
    results: Path

    def checks(self) -> list[dict[str, object]]:
        if not self.results.exists():
            return []
        return [json.loads(line) for line in self.results.read_text(encoding="utf-8").splitlines()]

    def section(self) -> str:
        checks = self.checks()
        passed = sum(bool(check["ok"]) for check in checks)
        today = datetime.date.today().isoformat()
        extent = "the quick ones" if self.quick else "all"
        lines = [f"## {self.release}", "",
                 f"{self.origin}, {today}, {self.accelerator}: up after {self.up_s:.0f} s, {self.wall_s:.0f} s in all; checks: {extent}; "
                 f"{passed} of {len(checks)} passed" + ("" if self.status is not None else "; **it did not come to its end**"), "",
                 "| check | result | seen | s |", "|---|---|---|---|"]
        for check in checks:
            seen = re.sub(r"\s+", " ", str(check["seen"])).replace("|", "\\|")[:400]
            lines.append(f"| {check['check']} | {'ok' if check['ok'] else '**failed**'} | {seen} | {check['seconds']} |")
        return "\n".join(lines) + "\n"


def order(release: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", release)[:3]]


def write(path: Path, runs: list[Run], torch: str) -> None:
    sections = {}
    if path.exists():
        for text in path.read_text(encoding="utf-8").split("\n## ")[1:]:
            sections[text.split("\n", 1)[0]] = f"## {text.rstrip()}\n"
    for run in runs:
        sections[run.release] = run.section()
    ordered = [sections[release] for release in sorted(sections, key=order)]
    path.write_text(HEAD.format(torch=torch) + "\n" + "\n".join(ordered), encoding="utf-8")

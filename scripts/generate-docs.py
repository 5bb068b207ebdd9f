#!/usr/bin/env python3
"""Makes what docs/ lists of the code: tables of options, columns, counters and kinds, and the index of the decisions.

    scripts/generate-docs.py [--program PROFTRACE]           writes the pages
    scripts/generate-docs.py [--program PROFTRACE] --check   writes nothing; fails when a page is not what would be written

A page says where a table belongs and what it lists:

    <!-- scripts/generate-docs.py: columns exporters/tables/event_row.h -->
    | column | meaning |
    <!-- end -->

The script writes the lines in between. Cells under the heading "meaning" are written by people, in the page: the script keeps
them, by the first cell of their row. A new row has "TODO" there, and the check fails until somebody has written a sentence.
Columns of tables have their meanings in the source, beside the columns. The tables of options come from
`PROFTRACE COMMAND --help`; without --program they stay as they are.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = "docs/decisions"
DECISION_FILE = re.compile(r"(\d{4})-[a-z0-9.-]+\.md")
STATUS = re.compile(r"holds\b|replaced by \[decision \d+\]\(\d{4}-[a-z0-9.-]+\.md\)")
MARK = re.compile(r"(<!-- scripts/generate-docs\.py: ([^\n]+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
MEANING, TODO = "meaning", "TODO"
STRINGS = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of cells, each row without the cell of MEANING, which is the last one if `has_meaning`."""

    heads: tuple[str, ...]
    rows: list[tuple[str, ...]]
    has_meaning: bool = True


class Missing(ValueError):
    """The source does not have what a page wants to list."""


# --- The decisions ---------------------------------------------------------------------------------------------------------


def field(text: str, name: str, where: str) -> str:
    match = re.search(rf"^- {name}: (.*)\.$", text, re.MULTILINE)
    if match is None:
        raise Missing(f"{where}: no line \"- {name}: ….\"")
    return match.group(1)


def decisions_index(root: Path) -> str:
    """The index of the decisions by area, from the heads of their files."""
    rows: dict[str, list[str]] = {}
    for path in sorted((root / DECISIONS).glob("[0-9]*.md")):
        named, where, text = DECISION_FILE.fullmatch(path.name), f"{DECISIONS}/{path.name}", path.read_text()
        title = re.match(r"# (\d+)\. (.+)\n", text)
        if named is None or title is None or int(named.group(1)) != int(title.group(1)):
            raise Missing(f"{where}: the name and the heading must have the same number: NNNN-words.md, \"# N. Title\"")
        status = field(text, "Status", where)
        if not STATUS.match(status):
            raise Missing(f"{where}: the status begins with \"holds\" or \"replaced by [decision N](file)\"")
        rows.setdefault(field(text, "Area", where), []).append(
            f"| {title.group(1)} | [{title.group(2)}]({path.name}) | {status} |\n")
    text = ("<!-- Made by scripts/generate-docs.py from the heads of the files beside it: change those, and run the script. -->\n\n"
            "# Decisions\n\n"
            "Each file tells one choice between ways: the problem, the options with their figures, the choice, and what would change\n"
            "it. Source and documents refer to it by its number (\"decision 15\"). A decision that no longer holds keeps its file, with\n"
            "the number of its successor as its status. A new decision takes the next free number; numbers that are missing were\n"
            "never used.\n")
    for area, lines in rows.items():
        text += f"\n## {area}\n| number | decision | status |\n|---|---|---|\n" + "".join(lines)
    return text


# --- Reading the source ----------------------------------------------------------------------------------------------------


def read(root: Path, name: str) -> str:
    path = root / name
    if not path.is_file():
        raise Missing(f"{name}: a page of docs/ lists what is in this file, and it is not there")
    return path.read_text()


def find(pattern: str, text: str, where: str) -> str:
    match = re.search(pattern, text, re.DOTALL | re.MULTILINE)
    if match is None:
        raise Missing(f"{where}: nothing matches {pattern!r}")
    return match.group(1)


def body_of(function: str, text: str, where: str) -> str:
    """The lines of a function of a source file, up to the brace in the first column."""
    return find(rf"^[\w:<>*& ]*\b{function}\([^;{{]*\{{\n(.*?)^\}}", text, where)


def joined(text: str) -> str:
    return "".join(STRINGS.findall(text))


def code(text: str) -> str:
    return f"`{text}`"


def columns(root: Path, name: str) -> Table:
    """The columns of a table and their meanings, from the list beside its rows: Column{"name", "meaning"}."""
    found = re.findall(r"\bColumn\{\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+),\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)", read(root, name))
    if not found:
        raise Missing(f"{name}: no Column{{\"name\", \"meaning\"}}")
    rows = [(code(joined(column)), joined(meaning).replace('\\"', '"').replace("|", "\\|")) for column, meaning in found]
    return Table(("column", MEANING), rows, has_meaning=False)


def formats(root: Path, _: str) -> Table:
    """Formats() with the names of the files; what it says to users is the meaning."""
    source, command = "exporters/formats.cc", "userspace/cli/record_arguments.h"
    rows = []
    defaults = set(find(r"kDefaultFormats\[\] = \"([\w,-]+)\"", read(root, command), command).split(","))
    for entry in re.findall(r"^\s+\{(\".*?)\},$", body_of("Formats", read(root, source), source), re.DOTALL | re.MULTILINE):
        name, file_name = STRINGS.findall(entry)[:2]
        needs = re.search(r"FormatNeeds::k(\w+)", entry)
        file_name += "/" if "nullptr" in entry else ""  # a folder, and no function that writes one file
        wants = {"Memory": "`--profile-memory`", "Device": "a GPU agent", "Modules": "`--with-stack` or `--with-modules`",
                 "Samples": "`--sample`", "DataWaits": "`--activities cpu,syscalls,sched`",
                 "SystemCalls": "`--activities syscalls` or `io`"}
        rows.append((code(name), code(file_name) if file_name else "`HOST_PID.TIME_NS.pt.trace.json.gz`",
                     "yes" if name in defaults else "always" if name == "summary" else "",
                     wants.get(needs.group(1), "") if needs else ""))
    return Table(("format", "file", "by default", "needs", MEANING), rows)


def counters(root: Path, name: str) -> Table:
    """The counters of a ledger, and which of them are losses to --strict; the comment before each is its meaning."""
    rows = [(code(counter), "yes" if severity == "kLoss" else "", re.sub(r"\s*\n// ", " ", comment))
            for comment, counter, severity in re.findall(r"((?:// .*\n)+)PROFTRACE_COUNTER\((\w+), (\w+)\)", read(root, name))]
    return Table(("counter", "a loss", MEANING), [(*row, text.removeprefix("// ").strip()) for *row, text in rows], has_meaning=False)


def exit_codes(root: Path, name: str) -> Table:
    body = find(r"enum class ExitCode : int \{(.*?)\};", read(root, name), name)
    return Table(("code", MEANING), [(number,) for number in re.findall(r"= (\d+),", body)])


def record_kinds(root: Path, name: str) -> Table:
    """The kinds of record_kinds.def by number; the comment before each is its meaning."""
    rows = []
    for comment, kind, number, struct in re.findall(
            r"/\* ((?:(?!\*/).)*?) \*/\s*PT_RECORD_KIND\((PT_\w+), (\d+), (\w+),", read(root, name), re.DOTALL):
        rows.append((int(number), code(kind), code(struct), re.sub(r"\s*\n \* ", " ", comment)))
    return Table(("number", "kind", "struct", MEANING), [(str(number), *rest) for number, *rest in sorted(rows)], has_meaning=False)


def block_types(root: Path, name: str) -> Table:
    body = find(r"enum class BlockType : uint16_t \{(.*?)\};", read(root, name), name)
    return Table(("type", "name", MEANING), [(number, code(kind)) for kind, number in re.findall(r"(k\w+) = (\d+)", body)])


def names(root: Path, argument: str) -> Table:
    """The texts that a function returns, or that an array in it holds: `names FILE FUNCTION [FUNCTION …]`."""
    source, *functions = argument.split()
    text = read(root, source)
    found = [name for function in functions for name in STRINGS.findall(
        find(rf"\b{function}\[\] = \{{(.*?)\}};", text, source) if function.startswith("k") else body_of(function, text, source))]
    return Table(("name", MEANING), [(code(name),) for name in dict.fromkeys(found) if name not in ("", "unknown", "UNKNOWN")])


def weights(root: Path, name: str) -> Table:
    """The weights of stacks: what --metric takes."""
    rows = []
    for entry in re.split(r"\{StackWeight::k\w+,", read(root, name))[1:]:
        others = STRINGS.findall(find(r"\{(.*?)\}", entry, name))
        rows.append((code(STRINGS.findall(entry)[0]), ", ".join(map(code, others)), code(find(r"\"(stacks_\w+\.folded)\"", entry, name))))
    return Table(("`--metric`", "also called", "file of `folded`", MEANING), rows)


SUMMARY_PARTS = (
    ("", "exporters/text/summary_json.cc", "SummaryJson"), ("proftrace.tier_choice.", "exporters/text/summary_json.cc", "TierChoiceJson"),
    ("target[].", "exporters/text/summary_json.cc", "TargetJson"),
    ("target[].cpu_quotas[].", "exporters/text/summary_json.cc", "QuotasJson"),
    ("target[].process_groups[].", "exporters/text/summary_json.cc", "GroupsJson"),
    ("target[].job.", "userspace/model/job_identity.h", "ForEachJobField"),
    ("clocks.first.", "exporters/text/summary_json.cc", "ClocksJson"),
    ("events.", "exporters/text/summary_json.cc", "AddDeviceCounts"), ("events.", "exporters/text/summary_json.cc", "AddSystemCounts"),
    ("gpu.", "exporters/args/recording_json.cc", "GpuJson"), ("gpu.idle[].", "exporters/text/summary_json.cc", "IdleJson"),
    ("cost.", "exporters/args/recording_json.cc", "CostJson"), ("cost.", "exporters/args/recording_json.cc", "AddBudget"),
    ("memory.", "exporters/text/summary_json.cc", "MemoryJson"), ("samples.", "exporters/text/summary_json.cc", "SamplesJson"),
    ("steps.", "exporters/args/recording_json.cc", "StepsJson"), ("time.", "exporters/text/summary_json.cc", "TimeJson"),
    ("unsupported[].", "exporters/args/recording_json.cc", "UnsupportedJson"))


def summary_keys(root: Path, _: str) -> Table:
    """The keys of summary.json. Keys of a nested object literal belong to the key that it is assigned to."""
    rows: dict[str, None] = {}
    for prefix, source, function in SUMMARY_PARTS:
        part, lists = "", {"AddBudget": ("demoted.push_back", "demoted[]."), "GpuJson": ("", "")}.get(function)
        for line in body_of(function, read(root, source), source).splitlines():
            if lists and lists[0] and lists[0] in line:
                part = lists[1]
            moved = re.search(r"(agents|devices|clocks|threads)\.push_back\(", line)
            if moved:
                part = f"{moved.group(1)}[]."
            if re.match(r"\s*(return|OrderedJson json =)\b", line):
                part = ""
            assigned = re.search(r"(?:json|\(\*\w+\))((?:\[\"\w+\"\])+)", line)
            if assigned:
                path = ".".join(STRINGS.findall(assigned.group(1)))
                rows[prefix + path] = None
                part = path + "." if "= {{" in line else ""
            counts = re.findall(r"\"(\w+)\"", line) if re.match(r"\s+(\"\w+\",\s*)+\"\w+\"[,}]", line) else []
            for key in re.findall(r"\{\"(\w+)\",", line) + counts:
                rows[prefix + part + key] = None
    return Table(("key", MEANING), [(code(key),) for key in rows])


# --- Options ---------------------------------------------------------------------------------------------------------------

# "  -d, --duration TIME      how long: 10s, 250ms, 2m"; the text may begin on the next line.
OPTION = re.compile(r"  (?P<names>-[^\s,]+(?:, -[^\s,]+)*)(?: (?P<value>\S+))?(?:\s{2,}(?P<text>.*))?$")
NOTES = re.compile(r"\s*\((?P<notes>(?:(?:must be given|may be given again|with --|not with --|default: )[^()]*(?:; )?)+)\)$")


def options(help_text: str, command: str) -> Table:
    """The options of one command's --help, in its order. Hidden ones are not in it."""
    rows: list[list[str]] = []
    for line in help_text.splitlines():
        match = OPTION.match(line)
        if match:
            rows.append([match["names"], match["value"] or "", match["text"] or ""])
        elif rows and line.startswith(" " * 20):
            rows[-1][2] = f"{rows[-1][2]} {line.strip()}".strip()
    if not rows:
        raise Missing(f"proftrace {command} --help lists no options")
    cells = []
    for names_, value, text in rows:
        if names_.startswith("-h,"):
            continue
        default = ""
        notes = NOTES.search(text)
        for note in notes["notes"].split("; ") if notes else []:
            if note.startswith("default: "):
                default = code(note.removeprefix("default: "))
                text = text.replace("; " + note, "").replace(f" ({note})", "")
        row = (", ".join(code(name) for name in names_.split(", ")), code(value) if value else "", default, text)
        cells.append(tuple(cell.replace("|", "\\|") for cell in row))
    return Table(("option", "value", "default", "what it does"), cells, has_meaning=False)


def ask(program: str, *arguments: str) -> str:
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


# --- Pages -----------------------------------------------------------------------------------------------------------------

LISTS: dict[str, Callable[[Path, str], Table]] = {
    "columns": columns, "formats": formats, "counters": counters, "exit-codes": exit_codes, "record-kinds": record_kinds,
    "block-types": block_types, "names": names, "weights": weights, "summary-keys": summary_keys}


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]


def kept_meanings(text: str) -> dict[str, str]:
    return {row[0]: row[-1] for row in map(cells, text.splitlines()[2:]) if len(row) > 1}


def render(table: Table, old: str) -> str:
    meanings = kept_meanings(old)
    text = "| " + " | ".join(table.heads) + " |\n" + "|---" * len(table.heads) + "|\n"
    for row in table.rows:
        whole = (*row, meanings.get(row[0], TODO)) if table.has_meaning else row
        text += "| " + " | ".join(whole) + " |\n"
    return text.replace("|  |", "| |").replace("|  |", "| |")


def page(root: Path, name: str, program: str | None) -> str:
    """A page with its tables as they have to be."""
    def table(match: re.Match[str]) -> str:
        kind, _, argument = match.group(2).partition(" ")
        if kind == "options":
            if program is None:
                return match.group(0)
            return match.group(1) + render(options(ask(program, *argument.split(), "--help"), argument), match.group(3)) + match.group(4)
        if kind not in LISTS:
            raise Missing(f"{name}: nobody knows how to list {kind!r}")
        return match.group(1) + render(LISTS[kind](root, argument), match.group(3)) + match.group(4)

    return MARK.sub(table, (root / name).read_text())


def pages(root: Path, program: str | None = None) -> dict[str, str]:
    """All pages that have something generated: their paths from the root, and their texts as they have to be."""
    texts = {f"{DECISIONS}/README.md": decisions_index(root)}
    for path in sorted((root / "docs").rglob("*.md")):
        name = str(path.relative_to(root))
        if name not in texts and MARK.search(path.read_text()):
            texts[name] = page(root, name, program)
    return texts


def stale(root: Path, texts: dict[str, str]) -> list[str]:
    """What is wrong with the pages: those that are not as in `texts`, and those with a meaning that nobody has written."""
    old = [name for name, text in texts.items() if not (root / name).is_file() or (root / name).read_text() != text]
    return old + [f"{name} has {TODO}" for name, text in texts.items() if f"| {TODO} |" in text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a page is not up to date")
    parser.add_argument("--program", help="a built proftrace, for the tables of options")
    arguments = parser.parse_args()
    texts = pages(ROOT, arguments.program)
    wrong = stale(ROOT, texts)
    if not arguments.check:
        for name, text in texts.items():
            (ROOT / name).write_text(text)
        wrong = stale(ROOT, texts)
    for name in wrong:
        print(f"generate-docs: not up to date: {name}; run scripts/generate-docs.py, and write what is {TODO}", file=sys.stderr)
    print(f"generate-docs: {len(texts)} pages")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""`--format pfw` against DFTracer itself: the same program runs with its library preloaded, and recorded by us.

    dftracer_test.py PROFTRACE PYTHON     with an interpreter that has dftracer (PyPI)

Each of DFTracer's rows about the program's files must be among ours, in its order and with its values; and DFTracer's own
tools must count our rows. Exit code: 0, 1 (something differs), 77 (cannot run here).
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIP = 77
# DFTracer knows files by absolute paths only.
PROGRAM = """
import os
def at(name): return os.path.join("{folder}", name)
fd = os.open(at("data"), os.O_RDWR | os.O_CREAT, 0o640)
for i in range(5): os.pwrite(fd, b"x" * 1000, i * 1000)
os.fsync(fd)
for i in range(7): os.pread(fd, 128, i * 10)
os.lseek(fd, 30, os.SEEK_SET)
os.read(fd, 64)
os.write(fd, b"abc")
os.readv(fd, [bytearray(3), bytearray(4)])
os.close(fd)
with open(at("data"), "rb") as file: file.read()
os.rename(at("data"), at("data2"))
os.unlink(at("data2"))
os.mkdir(at("folder"))
os.listdir(at("folder"))
os.rmdir(at("folder"))
try: os.open(at("missing"), os.O_RDONLY)
except OSError: pass
os.access("{folder}", os.R_OK)
"""
VALUES = ("ret", "count", "offset", "whence", "flags", "mode", "iovcnt")


def rows_of(path: Path, folder: str) -> list[tuple]:
    """Of its I/O in the folder: name, file, values; None for what a row does not tell."""
    names, rows = {}, []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            args = row.get("args", {})
            if row["name"] == "FH":
                names[args["value"]] = args["name"]
            elif row["cat"] == "POSIX":
                file = names.get(args.get("fhash"), "")
                if Path(folder) in (Path(file), *Path(file).parents):
                    rows.append((row["name"], file, *(args.get(value) for value in VALUES)))
    return rows


def is_same(theirs: tuple, ours: tuple) -> bool:
    return all(value is None or value == our for value, our in zip(theirs, ours))


def main() -> int:
    proftrace, python = sys.argv[1:]
    found = subprocess.run([python, "-c", "import dftracer; print(dftracer.__path__[0])"], capture_output=True, text=True)
    preload = Path(found.stdout.strip() or ".") / "lib64/libdftracer_preload.so"
    if not preload.is_file() or os.geteuid() != 0:
        print("SKIPPED: needs root, and an interpreter with dftracer (pip install dftracer)")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="proftrace-dftracer-") as name:
        work = Path(name)
        folder = work / "work"
        folder.mkdir()
        program = work / "program.py"
        program.write_text(PROGRAM.format(folder=folder), encoding="utf-8")
        variables = {"DFTRACER_ENABLE": "1", "DFTRACER_INIT": "PRELOAD", "DFTRACER_INC_METADATA": "1",
                     "DFTRACER_DATA_DIR": str(folder), "DFTRACER_LOG_FILE": str(work / "theirs"), "LD_PRELOAD": str(preload)}
        subprocess.run([python, program], env={**os.environ, **variables}, check=True)
        subprocess.run([proftrace, "record", "--activities", "io", "--format", "pfw", "-o", work / "ours", "--", python, program],
                       check=True, capture_output=True)
        ours_path = work / "ours/trace.pfw.gz"
        theirs, ours = rows_of(next(work.glob("theirs*.pfw.gz")), str(folder)), rows_of(ours_path, str(folder))
        problems = 0
        rest = iter(ours)
        for row in theirs:
            if not any(is_same(row, our) for our in rest):
                print(f"not among ours, or not in this order: {row}")
                problems += 1
                rest = iter(ours)
        print(f"{len(theirs) - problems} of DFTracer's {len(theirs)} rows are among our {len(ours)}")
        with gzip.open(ours_path, "rt", encoding="utf-8") as lines:
            events = sum(json.loads(line)["ph"] == 1 for line in lines)
        alone = work / "alone"
        alone.mkdir()
        ours_path.rename(alone / "trace.pfw.gz")
        counted = subprocess.run([Path(python).parent / "dftracer_event_count", "--log-level", "error", "-d", alone,
                                  "--index-dir", work / "index"], capture_output=True, text=True, check=True).stdout.split()
        print(f"dftracer_event_count counts {counted[-1]} of our {events}")
        return 0 if not problems and len(theirs) > 20 and counted[-1] == str(events) else 1


if __name__ == "__main__":
    sys.exit(main())

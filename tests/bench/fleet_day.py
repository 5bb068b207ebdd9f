#!/usr/bin/env python3
"""What a flight recorder's summaries of one process take on the disk, before and after `fleet compact`.

    fleet_day.py BUILD_BIN_FOLDER CAPTURE PID HOURS

CAPTURE is a recording of one flight recorder's window (a dump's capture.ptrec), PID a process in it. Each minute is this capture
with its clock moved, so that rows repeat and compress better than real ones: compare with a directory of real windows.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MINUTE_NS = 60_000_000_000


def sizes(fleet: Path) -> str:
    files = [path.stat() for path in fleet.rglob("*") if path.is_file()]
    return f"{len(files)} files, {sum(file.st_size for file in files) / 1e6:.2f} MB, {sum(file.st_blocks for file in files) * 512 / 1e6:.2f} MB on the disk"


def main() -> None:
    programs, capture, pid, hours = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    with tempfile.TemporaryDirectory() as scratch:
        fleet = Path(scratch) / "fleet"
        subprocess.run([programs / "proftrace", "fleet", "ingest", capture, "-o", fleet], check=True)  # makes the directory
        folder = os.open(fleet, os.O_RDONLY | os.O_DIRECTORY)
        for minute in range(hours * 60):
            moved = Path(scratch) / f"{minute}.ptrec"
            offset_ns = (minute - hours * 60 - 120) * MINUTE_NS
            subprocess.run([programs / "shift_capture", capture, moved, pid, "host-1", str(offset_ns), "0", "0", "0"], check=True,
                           stdout=subprocess.DEVNULL)
            opened = os.open(moved, os.O_RDONLY)
            subprocess.run([programs / "proftrace", "fleet", "ingest", "-", "-o", fleet, "--as-summary", f"{opened},{folder}"],
                           pass_fds=(opened, folder), check=True)
            os.close(opened)
            moved.unlink()
        print("before:", sizes(fleet))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([programs / "proftrace", "fleet", "compact", fleet, "--older-than", "1s"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        print("after:", sizes(fleet))
        print(f"processor time: {after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:.2f} s")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Exports a kept capture and compares every output with the files beside it, byte for byte; and two exports with each
other.

    golden_test.py PROFTRACE CASE_FOLDER [--renew]     --renew writes the expected files instead
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path

# Kept and compared byte for byte. The trace is compared uncompressed: what gzip makes of it depends on its library.
EXPECTED = ["key_averages.txt", "key_averages.csv", "events.csv", "trace.json", "stacks_self_cpu.folded", "summary.json"]
# Only compared between two exports.
REPEATED = ["flamegraph.html", "report.html", "trace.json.gz"]
USAGE, DAMAGED = 2, 8
DIFFERENCES_SHOWN = 20
HOST_ROWS = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")
DEVICE_ROWS = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "cuda_event", "overhead", "gpu_user_annotation")


def run(proftrace: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([proftrace, *arguments], capture_output=True, check=False)


def expect_code(done: subprocess.CompletedProcess[bytes], code: int) -> None:
    if done.returncode != code:
        raise SystemExit(f"{' '.join(map(str, done.args))}: exit code {done.returncode}, not {code}\n{done.stderr.decode()}")


def export(proftrace: str, capture: Path, folder: Path) -> None:
    """All outputs of `capture` into `folder`. A damaged capture is refused first, then salvaged."""
    strict = run(proftrace, "report", str(capture))
    salvage = ["--salvage"] if strict.returncode == DAMAGED else []
    code = DAMAGED if salvage else 0
    if salvage and strict.stdout:
        raise SystemExit("a damaged capture was shown without --salvage")
    formats = "table,csv,events-csv,folded,summary,flamegraph,report,chrome"
    traces = ["--cuda-sync-events", *salvage]
    expect_code(run(proftrace, "export", str(capture), "--format", formats, "-o", str(folder), *traces), code)
    trace = str(folder / "trace.json")
    expect_code(run(proftrace, "export", str(capture), "--format", "chrome", "-o", trace, *traces), code)
    report = run(proftrace, "report", str(capture), *salvage)
    expect_code(report, code)
    if report.stdout != (folder / "key_averages.txt").read_bytes():
        raise SystemExit("report prints another table than export writes")
    if json.loads((folder / "trace.json").read_text(encoding="utf-8"))["with_stack"] == 0:
        refused = run(proftrace, "report", str(capture), "--group-by-stack-n", "2", *salvage)
        # Of a damaged one it is not known what it was recorded with.
        expect_code(refused, DAMAGED if salvage else USAGE)
        assert b"no Python stacks are in this recording" in refused.stderr, refused.stderr
        assert (b"record with --with-stack" in refused.stderr) != bool(salvage), refused.stderr


def check_meaning(folder: Path) -> None:
    """What holds of every recording: the files are read back, and agree with each other."""
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    ledger = summary["ledger"]
    assert ledger["records"] == ledger["decoded"] + ledger["unknown"] + ledger["malformed"], ledger
    ends = ("closed", "end_by_exception", "end_lost", "truncated")
    assert ledger["begins"] == sum(ledger[name] for name in ends), ledger
    rows = list(csv.DictReader(io.StringIO((folder / "events.csv").read_text(encoding="utf-8"), newline="")))
    assert len(rows) == sum(summary["events"].values()), len(rows)
    spans = [row for row in rows if row["category"] in HOST_ROWS]
    assert len(spans) == ledger["begins"], len(spans)
    if "gpu" in summary:
        device = summary["gpu"]["ledger"]
        parts = ("merged", "unlinked", "outside_window", "unfinished", "unknown", "malformed")
        assert device["records"] == sum(device[name] for name in parts), device
    by_id = {}
    assert [int(row["id"]) for row in rows] == list(range(len(rows)))
    starts = [int(row["start_ns"]) for row in rows]
    assert starts == sorted(starts)
    for row in rows:
        by_id[row["id"]] = row
        if row["duration_ns"]:  # an instant on a device has none
            assert int(row["duration_ns"]) >= int(row["self_ns"]) >= 0, row
        if row["parent_id"]:
            parent = by_id[row["parent_id"]]  # a parent comes first
            assert int(parent["depth"]) + 1 == int(row["depth"]), row
            assert int(parent["start_ns"]) <= int(row["start_ns"]), row
    trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
    for categories in (HOST_ROWS, DEVICE_ROWS):
        drawn = sum(event.get("ph") == "X" and event.get("cat") in categories for event in trace["traceEvents"])
        assert drawn == sum(row["category"] in categories for row in rows), (categories, drawn)
    arrows = {phase: sorted(event["id"] for event in trace["traceEvents"] if event.get("cat") == "ac2g" and event["ph"] == phase)
              for phase in "sf"}
    assert arrows["s"] == arrows["f"], "an arrow has one end only"
    assert len(set(arrows["s"])) == len(arrows["s"]), "two arrows have one id"


def difference(name: str, expected: bytes, actual: bytes) -> str:
    lines = difflib.unified_diff(expected.decode("utf-8", "replace").splitlines(), actual.decode("utf-8", "replace").splitlines(),
                                 f"expected/{name}", f"actual/{name}", lineterm="", n=1)
    return "\n".join(line[:200] for _, line in zip(range(DIFFERENCES_SHOWN), lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proftrace")
    parser.add_argument("case", type=Path)
    parser.add_argument("--renew", action="store_true")
    arguments = parser.parse_args()
    capture = arguments.case / "capture.ptrec"
    with tempfile.TemporaryDirectory() as first_name, tempfile.TemporaryDirectory() as second_name:
        first, second = Path(first_name), Path(second_name)
        for folder in (first, second):
            export(arguments.proftrace, capture, folder)
        check_meaning(first)
        wrong = []
        for name in EXPECTED + REPEATED:
            if (first / name).read_bytes() != (second / name).read_bytes():
                wrong.append(f"{name}: two exports of one capture differ")
        for name in EXPECTED:
            kept = arguments.case / name
            actual = (first / name).read_bytes()
            if arguments.renew:
                kept.write_bytes(actual)
            elif kept.read_bytes() != actual:
                wrong.append(difference(name, kept.read_bytes(), actual))
    for text in wrong:
        print(text, file=sys.stderr)
    if wrong:
        print("If the change is meant: tests/golden/renew.sh outputs", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

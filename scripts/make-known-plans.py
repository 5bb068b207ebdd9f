#!/usr/bin/env python3
"""Makes symbols/plan/known/*.plan: what the analysis finds in the libtorch_cpu.so of versions of PyTorch, so that nobody's first attach waits for it.

    scripts/make-known-plans.py --plan-dump build/release/bin/plan_dump 2.10.0 2.11.0     wheels, by pip (some 0.9 GB each, one at a time)
    scripts/make-known-plans.py --plan-dump build/release/bin/plan_dump --again           those that are there, after a change of the analysis
    scripts/make-known-plans.py --plan-dump build/release/bin/plan_dump --library debian-1.13.1 /usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13

A wheel's libtorch_cpu.so has the same code and build-id for each Python. --again leaves plans of `--library` alone: they have to be made anew where the
library is. A plan is used where build-id, size and code of a mapped file are those of the library (symbols/plan/known_plans.h).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "symbols/plan/known"
LIBRARY = "torch/lib/libtorch_cpu.so"
# The newest that a version has comes first: any will do.
PYTHONS = ("3.14", "3.13", "3.12", "3.11", "3.10")


def fetch_library(version: str, folder: Path) -> Path:
    for python in PYTHONS:
        done = subprocess.run([sys.executable, "-m", "pip", "download", f"torch=={version}", "--no-deps", "--only-binary=:all:", "--quiet",
                               "--python-version", python, "--implementation", "cp", "--dest", str(folder)], check=False)
        wheels = list(folder.glob("torch-*.whl"))
        if done.returncode == 0 and wheels:
            with zipfile.ZipFile(wheels[0]) as wheel:
                library = Path(wheel.extract(LIBRARY, folder))
            wheels[0].unlink()
            return library
    raise SystemExit(f"make-known-plans: no wheel of torch {version} was found")


def write_plan(plan_dump: Path, name: str, library: Path) -> None:
    done = subprocess.run([plan_dump, "--known", library], stdout=subprocess.PIPE, check=True)
    path = FOLDER / f"{name}.plan"
    path.write_bytes(done.stdout)
    print(f"{path}: {len(done.stdout)} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan-dump", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--again", action="store_true", help="the versions whose plans are there")
    parser.add_argument("--library", nargs=2, action="append", default=[], metavar=("NAME", "FILE"))
    parser.add_argument("versions", nargs="*")
    options = parser.parse_args()
    versions = list(options.versions)
    if options.again:
        versions += sorted(path.stem.split("-")[1] for path in FOLDER.glob("torch-*.plan"))
    for name, library in options.library:
        write_plan(options.plan_dump.resolve(), name, Path(library))
    for version in versions:
        with tempfile.TemporaryDirectory(prefix="proftrace-known-") as folder:
            write_plan(options.plan_dump.resolve(), f"torch-{version}-libtorch_cpu", fetch_library(version, Path(folder)))


if __name__ == "__main__":
    main()

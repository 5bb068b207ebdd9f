#!/usr/bin/env python3
"""Makes symbols/plan/known/*.plan: what the analysis finds in the libraries of released versions of PyTorch, so that nobody's first attach waits for it.

    scripts/make-known-plans.py --plan-dump build/release/bin/plan_dump --index URL 2.10.0 2.11.0     wheels; URL: a package index
    scripts/make-known-plans.py --plan-dump build/release/bin/plan_dump --index URL --again           those that are there, after a change of the analysis
    scripts/make-known-plans.py --plan-dump build/release/bin/plan_dump --library debian12-torch-1.13.1 /usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13

Of each wheel only the libraries are fetched (some 0.5 GB a version). libtorch_cpu.so and libtorch_cuda.so have the same code for each Python, as a rule;
libtorch_python.so has not, so its file has a plan for each. libnvJitLink.so is a package of its own, which has to be looked at because it has an unwinder
in it. `--only NAME` makes the plans of one library. --again leaves plans of `--library` alone: they have to be made anew where the library is.
symbols/plan/known_plans.h says for which files a plan is used.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

from wheel_index import Wheel, fetch_member, pinned, size_of_member, wheels_of

FOLDER = Path(__file__).resolve().parents[1] / "symbols/plan/known"
OF_TORCH = ("libtorch_cpu", "libtorch_cuda", "libtorch_python")
JIT_LINK = "libnvJitLink"
JIT_LINK_PROJECTS = r"nvidia-nvjitlink(?:-cu\d+)?"
TOOLKIT_PROJECT = "cuda-toolkit"


def plan_of(plan_dump: Path, library: Path) -> bytes:
    return subprocess.run([plan_dump, "--known", library], stdout=subprocess.PIPE, check=True).stdout


def write(name: str, plan: bytes) -> None:
    path = FOLDER / f"{name}.plan"
    path.write_bytes(plan)
    print(f"{path}: {len(plan)} bytes", flush=True)


def plans_of(plan_dump: Path, wheels: list[Wheel], ending: str) -> bytes:
    """Returns the plans of that member of each wheel, one behind the other."""
    plans = b""
    for wheel in wheels:
        with tempfile.TemporaryDirectory(prefix="proftrace-known-") as folder:
            library = fetch_member(wheel, ending, Path(folder))
            if library is not None:
                plans += plan_of(plan_dump, library)
    return plans


def one_of_each_size(wheels: list[Wheel], ending: str) -> list[Wheel]:
    """Any Python's wheel will do for code that is the same in all. Some have a library of another size."""
    sizes = {size_of_member(wheel, ending): wheel for wheel in wheels}
    return list(sizes.values())


def make_version(plan_dump: Path, index: str, version: str, of_torch: list[Wheel], only: str | None) -> None:
    wheels = sorted({wheel.abi: wheel for wheel in of_torch if wheel.version == version}.values(), key=lambda wheel: wheel.abi)
    if not wheels:
        raise SystemExit(f"make-known-plans: the index has no wheel of torch {version}")
    for library in OF_TORCH:
        if only in (None, library):
            ending = f"torch/lib/{library}.so"
            some = wheels if library == "libtorch_python" else one_of_each_size(wheels, ending)
            write(f"torch-{version}-{library}", plans_of(plan_dump, some, ending))
    if only in (None, JIT_LINK):
        make_jit_link(plan_dump, index, wheels[-1])


def make_jit_link(plan_dump: Path, index: str, of_torch: Wheel) -> None:
    asked = pinned(of_torch, JIT_LINK_PROJECTS)
    toolkit = pinned(of_torch, TOOLKIT_PROJECT)  # asks for it in torch's place, since CUDA 13
    if asked is None and toolkit is not None:
        toolkits = [wheel for wheel in wheels_of(index, toolkit[0]) if wheel.version == toolkit[1]]
        asked = pinned(toolkits[0], JIT_LINK_PROJECTS) if toolkits else None
    if asked is None or (FOLDER / f"{asked[0]}-{asked[1]}.plan").exists():
        return
    libraries = [wheel for wheel in wheels_of(index, asked[0]) if wheel.version == asked[1]]
    write(f"{asked[0]}-{asked[1]}", plans_of(plan_dump, libraries[:1], f"{JIT_LINK}.so.{asked[1].split('.')[0]}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plan-dump", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--index", metavar="URL", help="a package index with the wheels, as pip's --index-url")
    parser.add_argument("--again", action="store_true", help="the versions whose plans are there")
    parser.add_argument("--only", choices=(*OF_TORCH, JIT_LINK))
    parser.add_argument("--library", nargs=2, action="append", default=[], metavar=("NAME", "FILE"))
    parser.add_argument("versions", nargs="*")
    options = parser.parse_args()
    plan_dump = options.plan_dump.resolve()
    for name, library in options.library:
        write(name, plan_of(plan_dump, Path(library)))
    versions = set(options.versions)
    if options.again:
        versions |= {path.stem.split("-")[1] for path in FOLDER.glob("torch-*.plan")}
        if options.only in (None, JIT_LINK):
            for path in FOLDER.glob("nvidia-*.plan"):
                path.unlink()
    if not versions:
        return
    if options.index is None:
        parser.error("wheels are looked up in a package index: give it by --index")
    of_torch = wheels_of(options.index, "torch")
    for version in sorted(versions):
        make_version(plan_dump, options.index, version, of_torch, options.only)


if __name__ == "__main__":
    main()

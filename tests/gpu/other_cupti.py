#!/usr/bin/env python3
"""Makes other versions of CUPTI loadable in the place of the one that a PyTorch was linked with, for check_edges.py --cupti.

    python3 tests/gpu/other_cupti.py FOLDER TORCH 11.8.87 12.1.105 12.8.90      TORCH: an interpreter that has that PyTorch

FOLDER/VERSION/ gets NVIDIA's library from its wheel, with the name and the symbol version that libtorch_cpu.so asks for; FOLDER/libmissing.so has the
functions that one of them lacks, each of which says CUPTI_ERROR_NOT_SUPPORTED. Both are to be preloaded. Needs pip and a C compiler.
"""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

NOT_SUPPORTED = 27  # CUPTI_ERROR_NOT_SUPPORTED
GNU_VERDEF = 0x6FFFFFFD
FIND_TORCH = "import importlib.util; print(importlib.util.find_spec('torch').submodule_search_locations[0])"


def elf_hash(name: bytes) -> int:
    """System V ABI, "Hash Table"."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ high >> 24) & ~high & 0xFFFFFFFF
    return value


def rename(library: bytes, name: bytes) -> bytes:
    """The library with `name` as its own name and as that of its symbols' version."""
    data = bytearray(library)
    start, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    versions = next(section for section in sections if section[1] == GNU_VERDEF)
    strings = sections[versions[6]][4]
    at = versions[4]
    while True:
        auxiliary, following = struct.unpack_from("<II", data, at + 12)
        begin = strings + struct.unpack_from("<I", data, at + auxiliary)[0]
        end = data.index(0, begin)
        if bytes(data[begin:end]).startswith(b"libcupti.so."):
            data[begin:end] = name.ljust(end - begin, b"\0")
            struct.pack_into("<I", data, at + 8, elf_hash(name))
        if not following:
            return bytes(data)
        at += following


def wheel_of(version: str, folder: Path) -> Path:
    package = f"nvidia-cuda-cupti-cu{version.split('.')[0]}=={version}"
    platforms = [word for name in ("manylinux2014_x86_64", "manylinux1_x86_64") for word in ("--platform", name)]
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *platforms, "-d", str(folder), package], check=True)
    return next(folder.glob("*.whl"))


def symbols(library: Path, kind: str) -> set[str]:
    listed = subprocess.run(["nm", "-D", f"--{kind}-only", library], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\b(cupti\w+)(?:@|$)", listed, re.M))


def main() -> None:
    out, python, *versions = sys.argv[1:]
    folder = Path(out)
    torch = subprocess.run([python, "-c", FIND_TORCH], check=True, capture_output=True, text=True).stdout.strip()
    asker = Path(torch) / "lib/libtorch_cpu.so"
    needed = subprocess.run(["readelf", "-d", asker], check=True, capture_output=True, text=True).stdout
    name = re.search(r"\[(libcupti\.so\.\d+)\]", needed)[1]
    missing: set[str] = set()
    for version in versions:
        library = folder / version / name
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch, zipfile.ZipFile(wheel_of(version, Path(scratch))) as wheel:
            member = next(path for path in wheel.namelist() if re.search(r"/libcupti\.so\.[\d.]+$", path))
            library.write_bytes(rename(wheel.read(member), name.encode()))
        missing |= symbols(asker, "undefined") - symbols(library, "defined")
    source = "".join(f"int {function}(void) {{ return {NOT_SUPPORTED}; }}\n" for function in sorted(missing))
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", folder / "libmissing.so"], input=source, check=True, text=True)


if __name__ == "__main__":
    main()

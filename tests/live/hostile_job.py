"""A process that is made to cost its recorder much. The kind is the first argument, a directory for its files the second:

sections    a library of 30 000 relocation sections over the same 64 MB
names       a library whose symbols' names have no end
mappings    tens of thousands of mappings of a library's code
threads     threads that come and go as fast as they can
lease       a library on which it has a lease: who opens it waits until it is given back, which never happens"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path

NAME = b"_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"
CODE = bytes.fromhex("534889fb4889f04801d85bc3")
CODE_AT, NAMES_AT, TABLES_AT = 0x1100, 0x3000, 0x10000
SECTION_NAMES = b"\0.text\0.dynsym\0.dynstr\0.shstrtab\0.rela\0"
TEXT, STRINGS, RELOCATIONS, SYMBOLS = 1, 3, 4, 11
SYMBOL_BYTES, HEAD_BYTES = 24, 64
MOST_MAPPINGS = 20_000


def section(name: bytes, kind: int, offset: int, size: int, link: int = 0, entry: int = 0) -> bytes:
    address = offset if kind == TEXT else 0
    return struct.pack("<IIQQQQIIQQ", SECTION_NAMES.index(name + b"\0"), kind, 6 if kind == TEXT else 2, address, offset, size, link, 0, 8, entry)


def write_library(path: Path, table_bytes: int, relocations: int, name: bytes) -> None:
    """One function of PyTorch's, and tables of that size, which are holes but for its symbol."""
    strings_at = TABLES_AT + table_bytes
    sections = [bytes(HEAD_BYTES), section(b".text", TEXT, 0x1000, 0x1000), section(b".dynsym", SYMBOLS, TABLES_AT, table_bytes, 3, SYMBOL_BYTES),
                section(b".dynstr", STRINGS, strings_at, max(table_bytes, len(name) + 2)), section(b".shstrtab", STRINGS, NAMES_AT, len(SECTION_NAMES))]
    sections += [section(b".rela", RELOCATIONS, TABLES_AT, table_bytes, 2, SYMBOL_BYTES)] * relocations
    sections_at = strings_at + max(table_bytes, len(name) + 2)
    with path.open("wb") as file:
        file.write(b"\x7fELF\2\1\1".ljust(16, b"\0") + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, sections_at, 0, 64, 56, 1, 64, len(sections), 4))
        file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 0x2000, 0x2000, 0x1000))
        for at, what in ((CODE_AT, CODE), (NAMES_AT, SECTION_NAMES), (TABLES_AT + SYMBOL_BYTES, struct.pack("<IBBHQQ", 1, 0x12, 0, 1, CODE_AT, len(CODE))),
                         (strings_at + 1, name + b"\0"), (sections_at, b"".join(sections))):
            file.seek(at)
            file.write(what)


def map_code(file: int, length: int = 0x2000, times: int = 1) -> None:
    """They last as long as the process does, without a descriptor each."""
    mmap64 = ctypes.CDLL(None, use_errno=True).mmap64
    mmap64.restype = ctypes.c_ssize_t
    mmap64.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64]
    for _ in range(times):
        if mmap64(None, length, mmap.PROT_READ | mmap.PROT_EXEC, mmap.MAP_PRIVATE, file, 0) == -1:
            raise OSError(ctypes.get_errno(), "mmap")


def main() -> None:
    kind, path = sys.argv[1], Path(sys.argv[2]) / "libtorch_cpu.so"
    write_library(path, 64 << 20 if kind == "sections" else 1 << 20, 30_000 if kind == "sections" else 0,
                  b"_ZN2at4_ops" + b"x" * (200 << 20) if kind == "names" else NAME)
    # All begin with the file: the kernel makes one only of neighbours that continue each other.
    file = os.open(path, os.O_RDWR)
    map_code(file, 0x1000, MOST_MAPPINGS if kind == "mappings" else 1)
    if kind == "lease":
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    print(f"READY {os.getpid()}", flush=True)
    while kind == "threads":
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()

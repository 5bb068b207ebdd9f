"""A job that fills the ring which proftrace shares with it with records of its own making: each of another thread.

flooding_job.py HEADER: bpf/abi/patch_memory.h. Prints "READY PID" when it computes. Until its end it floods a ring as soon as there is one.
"""
import os
import re
import struct
import sys
import threading
import time

import torch

THREADS = 200
SLOTS = 16  # the last ones, which no thread of the job has
RECORDS = 500  # at once in a slot, which holds more
RECORD_WORDS, BEGIN = 3, 1
MOST_THREAD = 1 << 30

with open(sys.argv[1], encoding="utf-8") as header:
    C = {name: int(number) for name, number in re.findall(r"#define (PATCH_\w+) (\d+)\b", header.read())}


def compute() -> None:
    ones = torch.ones(4)
    while True:
        torch.add(ones, 1)
        time.sleep(0.001)


def ring() -> int:
    """The largest of what proftrace has mapped."""
    while True:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            ranges = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps if "memfd:proftrace_patch" in line]
        if ranges:
            return max(ranges, key=lambda ends: ends[1] - ends[0])[0]
        time.sleep(0.02)


# An error, not a fault, where the ring has gone meanwhile.
memory = os.open("/proc/self/mem", os.O_RDWR)


def read(address: int, format: str) -> int:
    return struct.unpack(format, os.pread(memory, struct.calcsize(format), address))[0]


def write(address: int, data: bytes) -> None:
    os.pwrite(memory, data, address)


def flood(base: int) -> None:
    salt = read(base + C["PATCH_RING_SALT"], "<I")
    mask = read(base + C["PATCH_RING_MASK"], "<Q")
    tid = 1000
    while True:
        for slot in range((1 << C["PATCH_SLOT_BITS"]) - SLOTS, 1 << C["PATCH_SLOT_BITS"]):
            at = base + C["PATCH_RING_HEADER_BYTES"] + (slot << C["PATCH_SLOT_SHIFT"])
            if read(at, "<Q") == 0:
                write(at, struct.pack("<Q", 0x7F0000001000 + slot * 4096))
            tail, head = (read(at + C[f"PATCH_SLOT_{name}"], "<Q") for name in ("TAIL", "HEAD"))
            count = min(RECORDS, (mask + 1 - (tail & mask)) // RECORD_WORDS)
            if tail - head > RECORDS * RECORD_WORDS or count == 0:
                continue
            records = bytearray()
            for number in range(count):
                tid = tid % MOST_THREAD + 1
                position = tail + number * RECORD_WORDS
                records += struct.pack("<QIIIHBB", 1000, position + salt & 0xFFFFFFFF, tid, 8, 1, BEGIN, RECORD_WORDS)
            write(read(at + C["PATCH_SLOT_WORDS"], "<Q") + (tail & mask) * 8, bytes(records))
            write(at + C["PATCH_SLOT_TAIL"], struct.pack("<Q", tail + count * RECORD_WORDS))


torch.set_num_threads(1)
threading.stack_size(1 << 16)
for _ in range(THREADS):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
threading.Thread(target=compute, daemon=True).start()
print("READY", os.getpid(), flush=True)
while True:
    try:
        flood(ring())
    except OSError:
        time.sleep(0.1)

#!/usr/bin/env python3
"""What one hit of a uprobe costs, by the instruction that it stands on, and where PyTorch has the cheapest of them.

    sudo uprobe_instructions.py [--rounds 5] [--calls 20000]
    uprobe_instructions.py --library libtorch_cpu.so

Functions of three instructions, alike but for the first one, are called in a loop; a program of bpftrace, which counts, is on all of
them. Printed: the median CPU time of a call, with and without. With --library: how many operators have a nop of 5 bytes, which Linux
6.17 and later replaces by a call, in their first 24 bytes. Needs gcc and bpftrace; --library needs binutils.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

INSTRUCTIONS = {
    "nop5": ".byte 0x0f,0x1f,0x44,0x00,0x00",
    "nop": "nop",
    "push": "push %rbp\\n\\tpop %rbp",
    "mov": "mov %rdi,%rsi",
    "endbr64": "endbr64",
}
NOP5 = bytes.fromhex("0f1f440000")
MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
%s
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e9 + t.tv_nsec; }
int main(int count, char** words) {
  struct { const char* name; long (*call)(long); } all[] = {%s};
  long calls = atol(words[2]);
  volatile long sum = 0;
  getchar();
  for (int round = 0; round < atoi(words[1]); ++round)
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
      double begin = now();
      for (long k = 0; k < calls; ++k) sum += all[i].call(k);
      printf("%%s %%f\\n", all[i].name, (now() - begin) / calls);
    }
}
"""


def program(folder: Path) -> Path:
    functions = "\n".join(
        f'__attribute__((noinline, naked)) long f_{name}(long x) {{ __asm__ volatile("{text}\\n\\tlea 1(%rdi),%rax\\n\\tret"); }}'
        for name, text in INSTRUCTIONS.items())
    (folder / "calls.c").write_text(MAIN % (functions, ", ".join(f'{{"{name}", f_{name}}}' for name in INSTRUCTIONS)))
    subprocess.run(["gcc", "-O2", "-w", "-fcf-protection=none", folder / "calls.c", "-o", folder / "calls"], check=True)
    return folder / "calls"


def ns_a_call(path: Path, options: argparse.Namespace, probed: bool) -> dict[str, float]:
    with subprocess.Popen([path, str(options.rounds), str(options.calls)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as job:
        tracer = None
        if probed:
            script = " ".join(f"uprobe:{path}:f_{name} {{ @hits = count(); }}" for name in INSTRUCTIONS)
            tracer = subprocess.Popen(["bpftrace", "-e", script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(5)
        found = collections.defaultdict(list)
        for line in job.communicate("\n")[0].splitlines():
            name, ns = line.split()
            found[name].append(float(ns))
        if tracer is not None:
            tracer.terminate()
            tracer.wait()
    return {name: statistics.median(values) for name, values in found.items()}


def count_in(library: str) -> None:
    loads = []
    for line in subprocess.run(["readelf", "-lW", library], capture_output=True, text=True, check=True).stdout.splitlines():
        cells = line.split()
        if cells[:1] == ["LOAD"]:
            loads.append((int(cells[2], 16), int(cells[1], 16), int(cells[4], 16)))
    operators = in_entry = somewhere = 0
    with open(library, "rb") as file:
        for line in subprocess.run(["nm", "-D", "--defined-only", "-S", library], capture_output=True, text=True, check=True).stdout.splitlines():
            cells = line.split()
            if len(cells) < 4 or "at4_ops" not in cells[3] or "4callE" not in cells[3]:
                continue
            address, size = int(cells[0], 16), int(cells[1], 16)
            offset = next(offset + address - begin for begin, offset, length in loads if begin <= address < begin + length)
            file.seek(offset)
            code = file.read(size)
            operators += 1
            in_entry += NOP5 in code[:24]
            somewhere += NOP5 in code
    print(f"{operators} operators: {in_entry} with a nop of 5 bytes in the first 24 bytes, {somewhere} with one anywhere")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--library")
    options = parser.parse_args()
    if options.library:
        count_in(options.library)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = program(Path(folder))
        alone, probed = ns_a_call(path, options, False), ns_a_call(path, options, True)
    print("| first instruction | ns a call | with a probe |\n|---|---|---|")
    for name in INSTRUCTIONS:
        print(f"| {name} | {alone[name]:.1f} | {probed[name]:.0f} |")


if __name__ == "__main__":
    main()

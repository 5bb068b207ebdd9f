#!/usr/bin/env python3
"""Reads the operators' schemas out of a live process (plan_dump --schemas) and lays them beside torch's own str(schema)
in that process: all of its Dispatcher's operators, among them some that the job registers itself.

    sudo schemas_test.py --python /usr/bin/python3 --plan-dump build/release/bin/plan_dump

Exit code: 0 all the same, 1 something differs, 77 it cannot run here (the reason is printed).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from process import LineReader, Stopped

SKIP = 77
LEAST_OPERATORS = 3000  # 1.13 has 3383
# Every form that a schema's text can take: aliases, sizes, defaults of each kind, nested types.
OWN = [
    r'''one(Tensor(a!) self, int[2] k=[1,2], *, str s="a'b\n", float? f=None, Scalar x=1.5) -> (Tensor(a!), int[])''',
    "two(Tensor?[] xs, bool[3] m=[True,False,True], float g=1e-05, float h=-0.0, Device? d=None, SymInt[]? y=None) -> ()",
    "three(Dict(str, Tensor) d, (Tensor, int)[] t, Any a, Generator? g=None, str[]? n=None, float[] z=[1.5, 2], "
    "bool k=False) -> Tensor[]",
    "four(Tensor(a -> *) self, Tensor(b)[] xs, ScalarType? t=None, *, Layout? l=None, int[3] same=2, int i=-7) "
    "-> (Tensor(a), Tensor(b)[])",
    "five(...) -> ...",
    "six((int, (float, str))? t, int[][] n, Stream s, float x=1e300, float y=123456789.25) -> (int, str)",
]
JOB = """
import sys, torch
library = torch.library.Library("proftrace_schemas", "DEF")
for schema in eval(sys.argv[2]):
    library.define(schema)
with open(sys.argv[1], "w") as out:
    for schema in torch._C._jit_get_all_schemas():
        out.write(repr(str(schema)) + "\\n")
with open(sys.argv[1] + ".none", "w") as out:
    # Names that have implementations, and no schema.
    for text in torch._C._dispatch_find_dangling_impls():
        out.write(text.split()[1] + "\\n")
print("ready", torch.__version__, flush=True)
sys.stdin.read()
"""


def compare(python: str, plan_dump: str, folder: Path) -> int:
    reference = folder / "reference"
    job = subprocess.Popen([python, "-c", JOB, str(reference), repr(OWN)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        try:
            version = LineReader(job.stdout).wait(r"ready (\S+)", 120.0).group(1)
        except Stopped as error:
            print(f"skipped: {python} has no usable torch ({error})")
            return SKIP
        dump = subprocess.run([plan_dump, "--schemas", str(job.pid)], capture_output=True, text=True)
    finally:
        job.kill()
        job.wait()
    if dump.returncode != 0:
        print(f"FAIL torch {version}: {dump.stderr}")
        return 1
    got = set(dump.stdout.splitlines())
    known = {eval(line) for line in reference.read_text().splitlines()}
    # torch's list also holds TorchScript's own operators, which the Dispatcher does not know.
    missing = {text for text in known - got if text.startswith("proftrace_schemas::")}
    wrong = sorted(got - known)
    for text in sorted(missing):
        print(f"missing: {text}")
    own = sum(text.startswith("proftrace_schemas::") for text in got)
    without = {".".join(line.split()[1:3]) for line in dump.stderr.splitlines() if line.startswith("none: ")}
    wrong += sorted(without - set(Path(f"{reference}.none").read_text().split()))
    is_ok = not missing and not wrong and len(got) >= LEAST_OPERATORS and own == len(OWN)
    for text in wrong:
        print(f"wrong:   {text}")
    print(f"{'ok  ' if is_ok else 'FAIL'} torch {version}: {len(got)} schemas, {len(wrong)} differ, {own} of the job's own; "
          f"{dump.stderr.splitlines()[0]}")
    return 0 if is_ok else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--plan-dump", required=True)
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: needs root, to read another process's memory")
        return SKIP
    with tempfile.TemporaryDirectory(prefix="proftrace-schemas-") as folder:
        return compare(arguments.python, arguments.plan_dump, Path(folder))


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The plan of libtorch_cpu that is shipped is what the analysis finds in the library now.

    known_plan_test.py --plan-dump PROGRAM --python PYTHON

Exit code 77: none is shipped for this library.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

WHERE = ("import torch\n"
         "print(next(line.split(maxsplit=5)[5] for line in open('/proc/self/maps') if '/libtorch_cpu.so' in line), end='')\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan-dump", required=True)
    parser.add_argument("--python", required=True)
    options = parser.parse_args()
    library = subprocess.run([options.python, "-c", WHERE], check=True, capture_output=True, text=True).stdout.strip()
    return subprocess.run([options.plan_dump, "--check-known", library], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

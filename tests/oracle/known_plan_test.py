#!/usr/bin/env python3
"""The plans of libraries that are shipped are what the analysis finds in them now.

    known_plan_test.py --plan-dump PROGRAM --python PYTHON

Exit code 77: none is shipped for any library of this PyTorch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

# Prints the libraries of PyTorch for which plans are shipped, one a line.
WHERE = """
import torch
names = ("/libtorch_cpu.so", "/libtorch_cuda.so", "/libtorch_python.so", "/libnvJitLink.so")
paths = {line.split(maxsplit=5)[5].strip() for line in open("/proc/self/maps") if any(name in line for name in names)}
print("\\n".join(sorted(paths)))
"""
NOT_SHIPPED = 77


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan-dump", required=True)
    parser.add_argument("--python", required=True)
    options = parser.parse_args()
    libraries = subprocess.run([options.python, "-c", WHERE], check=True, capture_output=True, text=True).stdout.split()
    codes = {library: subprocess.run([options.plan_dump, "--check-known", library], check=False).returncode for library in libraries}
    print({library: code for library, code in codes.items() if code != 0})
    if any(code not in (0, NOT_SHIPPED) for code in codes.values()):
        return 1
    return 0 if 0 in codes.values() else NOT_SHIPPED


if __name__ == "__main__":
    sys.exit(main())

"""How proftrace records, as an option of all that record against torch.profiler: `--tier patch [--no-bpf]`."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path

import model

# What jumps alone cannot have, by what `unsupported` calls it: rows of a scope.
ABSENT = {"frames of TorchScript": "TORCHSCRIPT_FUNCTION", "rows of function .*THPFunction_apply": model.CUSTOM_FUNCTION}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tier", choices=("bpf", "patch"), default="bpf", help="how proftrace records")
    parser.add_argument("--no-bpf", action="store_true", help="with --tier patch: by jumps alone, as every user can")


def flags(options: argparse.Namespace) -> list[str]:
    """For `proftrace record`."""
    return ["--tier", options.tier] + ["--no-bpf"] * options.no_bpf


def is_refused(options: argparse.Namespace) -> bool:
    """Whether the kernel lets this user not record so."""
    return os.geteuid() != 0 and options.tier != "patch"


def absent_scopes(options: argparse.Namespace, summary: Path) -> frozenset[str]:
    """Scopes of which the recording, made by jumps alone, says that it has no rows."""
    if not options.no_bpf:
        return frozenset()
    named = {gap["feature"] for gap in json.loads(summary.read_text(encoding="utf-8"))["unsupported"]}
    return frozenset(scope for feature, scope in ABSENT.items() if any(re.match(feature, name) for name in named))

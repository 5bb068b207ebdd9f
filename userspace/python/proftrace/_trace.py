"""Traces with what the job itself adds to them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile

from proftrace._errors import ProftraceError
from proftrace._result import Result


def write_trace(result: Result, path: str, metadata: dict[str, str]) -> None:
    """Writes a trace of `export --format chrome`. `metadata`: JSON values by key, which come first in the file's object."""
    path = os.path.abspath(path)
    if not metadata:
        result.export("chrome", path)
        return
    # It is made beside its place, so that it is there whole or not at all.
    with tempfile.TemporaryDirectory(prefix=".proftrace-", dir=os.path.dirname(path)) as folder:
        plain, whole = os.path.join(folder, "trace.json"), os.path.join(folder, "whole.json")
        result.export("chrome", plain)
        with open(plain, "rb") as source, (gzip.open if path.endswith(".gz") else open)(whole, "wb") as target:
            if source.read(1) != b"{":
                raise ProftraceError(f"the trace {plain} is no JSON object")
            target.write(b"{\n" + b"".join(f"{json.dumps(key)}: {value},\n".encode() for key, value in metadata.items()))
            shutil.copyfileobj(source, target)
        os.replace(whole, path)

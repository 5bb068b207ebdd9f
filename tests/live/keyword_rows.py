"""Rows of a chrome trace with the items of their args that are keyword values: torch's own trace, or ours."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Callable

# Items that rows have of their own.
OWN = {"External id", "Record function id", "Ev Idx", "Input Dims", "Input type", "Input Strides", "Concrete Inputs"}


def keyword_rows(trace: Path, is_wanted: Callable[[str], bool]) -> list[dict[str, object]]:
    """In the order of their begins, those whose names are wanted."""
    content = gzip.decompress(trace.read_bytes()) if trace.suffix == ".gz" else trace.read_bytes()
    events = [event for event in json.loads(content)["traceEvents"]
              if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "user_annotation") and is_wanted(event["name"])]
    return [{"name": event["name"], "category": event["cat"], "inputs": "Input Dims" in event["args"],
             "keywords": {key: value for key, value in event["args"].items() if key not in OWN}}
            for event in sorted(events, key=lambda event: event["ts"])]

"""Rows of a recording with the names that torch's own have."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import tempfile
from typing import Any

from proftrace._program import Option, run, words_of
from proftrace._result import Result
from proftrace._trace import write_trace

_MOST_CELL_BYTES = 1 << 30


class _Times:
    """What follows from the sums of a row, and torch's older names of them. Times are in microseconds."""

    count: int
    cpu_time_total: float
    device_time_total: float
    self_cpu_time_total: float
    self_device_time_total: float
    device_memory_usage: int
    self_device_memory_usage: int

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> Any:
        """cuda_time_total is device_time_total; cpu_time_str is cpu_time as a table shows it."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name.endswith("_str"):
            return time_text(getattr(self, name[:-len("_str")]))
        if "cuda" in name:
            return getattr(self, name.replace("cuda", "device"))
        raise AttributeError(f"{type(self).__name__} has no {name}")


class FunctionEventAvg(_Times):
    """A row of key_averages()."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.key: str = row["name"]
        self.overload_name: str = row.get("overload_name", "")
        self.count: int = row["count"]
        self.cpu_time_total: float = row["cpu_time_total_us"]
        self.self_cpu_time_total: float = row["self_cpu_time_total_us"]
        self.device_time_total: float = row.get("device_time_total_us", 0.0)
        self.self_device_time_total: float = row.get("self_device_time_total_us", 0.0)
        self.cpu_memory_usage: int = row.get("cpu_memory_bytes", 0)
        self.self_cpu_memory_usage: int = row.get("self_cpu_memory_bytes", 0)
        self.device_memory_usage: int = row.get("device_memory_bytes", 0)
        self.self_device_memory_usage: int = row.get("self_device_memory_bytes", 0)
        self.flops: int = row.get("flops", 0)
        self.input_shapes: Any = _json_or_text(row.get("input_shapes", ""))
        self.stack: list[str] = row.get("stack", [])
        self.is_async: bool = row["is_async"]
        self.is_remote = self.is_legacy = False
        self.node_id = -1
        self.device_type = device_type(row.get("device_type", "CPU"))
        self.use_device = "cuda" if "device_type" in row else None

    def __repr__(self) -> str:
        return (f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={self.self_cpu_time_total_str} "
                f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>")


class KeyAverages(list["FunctionEventAvg"]):
    """Rows by name: a list, and torch's table of it."""

    def __init__(self, result: Result, grouping: dict[str, Option]) -> None:
        self._result = result
        self._grouping = grouping
        self._document = json.loads(self._report({"json": True, "row_limit": -1, "sort_by": ""}))
        super().__init__(FunctionEventAvg(row) for row in self._document["rows"])

    @property
    def self_cpu_time_total(self) -> float:
        return float(self._document["self_cpu_time_total_us"])

    def total_average(self) -> FunctionEventAvg:
        """The sum of all rows."""
        return FunctionEventAvg(self._document["total_average"])

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int | None = 75, max_name_column_width: int | None = 55,
              max_shapes_column_width: int | None = 80, header: str | None = None, top_level_events_only: bool = False,
              time_unit: str | None = None) -> str:
        """`proftrace report`, to the end of the table: what was lost and what the recording cost stands below it there."""
        widths = {"max_src_column_width": max_src_column_width, "max_name_column_width": max_name_column_width,
                  "max_shapes_column_width": max_shapes_column_width}
        text = self._report({"sort_by": sort_by or "", "row_limit": row_limit, "header": header or None, "time_unit": time_unit,
                             "top_level_events_only": top_level_events_only,
                             **{name: -1 if width is None else width for name, width in widths.items()}})
        last = text.rfind("\nSelf CPU time total: ")
        end = text.find("\n\n", last)
        return text if last < 0 or end < 0 else text[:end + 1]

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        write_trace(self._result, os.fspath(path), {})

    def __str__(self) -> str:
        return self.table()

    def _report(self, options: dict[str, Option]) -> str:
        return run(["report", self._result.path, *words_of({**self._grouping, **options})])


class Interval:
    """Microseconds since the recording began."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FunctionEvent(_Times):
    """A row of events(). `thread` is the operating system's number of the thread."""

    count = 1
    is_remote = is_legacy = False
    node_id = -1

    def __init__(self, row: dict[str, str], origin_ns: int) -> None:
        start, self._duration_ns = int(row["start_ns"]) - origin_ns, int(row["duration_ns"] or 0)
        self._self_ns = int(row["self_ns"] or 0)
        self.id = int(row["id"])
        self.trace_name = row["name"]
        # torch gives all steps one name in tables.
        self.name = self.key = re.sub(r"\AProfilerStep#\d+\Z", "ProfilerStep*", row["name"])
        self.overload_name = row["overload_name"]
        self.time_range = Interval(start / 1e3, (start + self._duration_ns) / 1e3)
        self.thread = int(row["tid"] or 0)
        self.fwd_thread = int(row["fwd_tid"]) if row["fwd_tid"] else None
        self.sequence_nr = int(row["sequence_nr"]) if row["sequence_nr"] else -1
        self.is_async = row["is_async"] == "1"
        self.category = row["category"]
        self.is_user_annotation = row["category"] in ("user_annotation", "gpu_user_annotation")
        self.scope = scope_number(row["scope"])
        self.input_shapes: Any = _json_or_text(row["input_shapes"])
        self.concrete_inputs: Any = _json_or_text(row["concrete_inputs"])
        self.stack = row["stack"].split(";")[::-1] if row["stack"] else []
        self.cpu_memory_usage = int(row["cpu_memory_bytes"] or 0)
        self.self_cpu_memory_usage = int(row["self_cpu_memory_bytes"] or 0)
        self.device_memory_usage = int(row["device_memory_bytes"] or 0)
        self.self_device_memory_usage = int(row["self_device_memory_bytes"] or 0)
        self.flops = int(row["flops"]) if row["flops"] else None
        self.device_type = device_type(row["device_type"] or "CPU")
        self.device_index = int(row["device_index"] or 0)
        self.is_device = (row["device_type"] or "CPU") != "CPU"
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        return 0.0 if self.is_device else self._duration_ns / 1e3

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        return 0.0 if self.is_device else self._self_ns / 1e3

    def take_over(self, child: FunctionEvent) -> None:
        """Becomes one row with its only child, which has its name: torch shows these once."""
        self._self_ns += child._self_ns
        self.self_cpu_memory_usage += child.self_cpu_memory_usage
        self.self_device_memory_usage += child.self_device_memory_usage
        self.cpu_children = child.cpu_children
        for grandchild in self.cpu_children:
            grandchild.cpu_parent = self

    def __repr__(self) -> str:
        return f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} cpu_time={self.cpu_time_str} input_shapes={self.input_shapes}>"


class EventList(list["FunctionEvent"]):
    """Every row, in the order of their begins."""

    def __init__(self, result: Result, events: list[FunctionEvent]) -> None:
        super().__init__(events)
        self._result = result

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False) -> KeyAverages:
        """Of the last cycle."""
        return KeyAverages(self._result, {"group_by_input_shape": group_by_input_shapes, "group_by_stack_n": group_by_stack_n or None,
                                          "group_by_overload_name": group_by_overload_name})

    def total_average(self) -> FunctionEventAvg:
        return self.key_averages().total_average()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        write_trace(self._result, os.fspath(path), {})


def events_of(result: Result) -> list[FunctionEvent]:
    """The rows of events.csv that torch's events() has: an only child of its parent's name is one with it, and what is allocated
    inside a row is in that row's sums alone."""
    origin_ns = int(result.summary()["window"]["start_unix_ns"])
    with tempfile.TemporaryDirectory(prefix="proftrace-") as folder:
        path = os.path.join(folder, "events.csv")
        result.export("events-csv", path, csv_exact=True)
        before = csv.field_size_limit(_MOST_CELL_BYTES)
        try:
            with open(path, newline="", encoding="utf-8") as stream:
                rows = [(row["parent_id"], FunctionEvent(row, origin_ns)) for row in csv.DictReader(stream)]
        finally:
            csv.field_size_limit(before)
    by_id = {event.id: event for _, event in rows}
    gone: set[int] = set()
    for parent_id, event in rows:
        parent = by_id.get(int(parent_id)) if parent_id else None
        if parent is not None and event.category == "cpu_instant_event":
            gone.add(event.id)
        elif parent is not None and not event.is_device:
            event.cpu_parent = parent
            parent.cpu_children.append(event)
    for _, event in reversed(rows):
        # From the innermost one on, so that a chain of one name ends as its outermost row.
        while len(event.cpu_children) == 1 and event.cpu_children[0].name == event.name:
            gone.add(event.cpu_children[0].id)
            event.take_over(event.cpu_children[0])
    return [event for _, event in rows if event.id not in gone]


def time_text(us: float) -> str:
    """As a table of torch shows it."""
    unit, name = next((pair for pair in ((1e6, "s"), (1e3, "ms")) if us >= pair[0]), (1.0, "us"))
    return f"{us / unit:.3f}{name}"


def device_type(name: str) -> Any:
    """torch's own DeviceType where torch is loaded, as it is in every process that was recorded; else the name."""
    torch = sys.modules.get("torch")
    return getattr(torch.autograd.DeviceType, name, name) if torch is not None else name


def scope_number(name: str) -> int | str:
    """The number of torch's RecordScope; the name, where this torch has none of it."""
    torch = sys.modules.get("torch")
    scopes = getattr(torch._C._profiler, "RecordScope", None) if torch is not None else None
    return int(getattr(scopes, name).value) if scopes is not None and hasattr(scopes, name) else name


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text

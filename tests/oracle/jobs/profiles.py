"""torch.profiler's own answer for a window, written to files that compare.py reads.

oracle-PID.jsonl: the first line is a header {pid, torch, source, deduplicated, tensors_only, functions}; each further line is one row of the
profiler's event tree, nested as in events(), in the order of the starts:
{"name", "tid", "start_ns", "end_ns", "cat", "is_async", "parent", "seq", "fwd", "fwd_tid", "arrow",
"scope"}; `tid` is the
kernel's, `parent` the line's index (0 = the first row) or -1; autograd.py says what the last four are. key_averages-PID.json: [{name, count, self_cpu_us, cpu_us}]. trace-PID.json: the chrome trace, where this build
of torch has Kineto. events-PID.jsonl: prof.events(). With PROFTRACE_ORACLE_MEMORY in the environment, memory is profiled
too: memory-PID.json is {"tid", "memory": [[ns, bytes, address, total]] of the CPU between the markers, "rows": [[name, start_us, end_us, total bytes, self
bytes, the same two of devices]]} of the profiling thread; the rows are those of prof.events().
"""

from __future__ import annotations

import contextlib
import decimal
import gc
import inspect
import json
import os
import re
import threading
from typing import Any, Iterator

import torch
from torch.autograd.profiler_util import MemRecordsAcc

import autograd

# With PROFTRACE_ORACLE_SHAPES in the environment, record_shapes is on, and rows have "inputs": {"dims", "types", and by the
# chrome trace "strides", "concrete"} where torch has any.
RECORDS_SHAPES = "PROFTRACE_ORACLE_SHAPES" in os.environ
# With PROFTRACE_ORACLE_STACKS, with_stack is on, and rows have "stack": the frames of Python that events() gives, outermost
# first, without functions of C.
RECORDS_STACKS = "PROFTRACE_ORACLE_STACKS" in os.environ
BEGIN = "proftrace.window.begin"
END = "proftrace.window.end"
MEMORY_NAMES = ("[memory]", "[OutOfMemory]")
CUDA_CALL = re.compile(r"cu(da)?[A-Z]")
PYTHON_TAGS = ("PyCall", "PyCCall")


@contextlib.contextmanager
def markers() -> Iterator[None]:
    """The window of the calling thread: only what is between the two annotations is compared."""
    with torch.autograd.profiler.record_function(BEGIN):
        pass
    yield
    with torch.autograd.profiler.record_function(END):
        pass


def has_kineto() -> bool:
    return bool(torch.profiler.kineto_available())


def experimental_config(**more: bool) -> Any:
    """Records all threads where this version can (from 2.7 on)."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True, **more)
    except TypeError:
        return None


def stacks_config() -> Any:
    """Without `verbose`, events() have no stacks."""
    return torch._C._profiler._ExperimentalConfig(verbose=True)


def can_profile_all_threads() -> bool:
    return experimental_config() is not None


class Profile:
    """torch.profiler over the calling thread (or all of them), writing its files at stop()."""

    def __init__(self, out: str, all_threads: bool) -> None:
        self.out = out
        more = {"verbose": True} if RECORDS_STACKS else {}
        config = experimental_config(**more) if all_threads else None
        self.all_threads = config is not None
        if RECORDS_STACKS and config is None:
            config = stacks_config()
        self.memory = "PROFTRACE_ORACLE_MEMORY" in os.environ
        self.profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], experimental_config=config, profile_memory=self.memory,
            record_shapes=RECORDS_SHAPES, with_stack=RECORDS_STACKS)

    def tensors_only(self) -> list[str]:
        """Rows of which torch leaves out what are no tensors: where it profiles all threads, it does not see that custom
        Functions' other arguments are asked for (python_function.cpp, unpack_input: the thread's own profiler)."""
        return sorted(function_names(torch.autograd.Function)) if self.all_threads else []

    def start(self) -> None:
        self.profiler.__enter__()

    def stop(self) -> None:
        self.profiler.__exit__(None, None, None)
        gc.disable()  # what is made now is large, and has no cycles
        pid = os.getpid()
        roots = self.profiler.profiler.kineto_results.experimental_event_tree()
        rows = tree_rows(roots)
        nest_as_events(rows, self.profiler.profiler.kineto_results.events())
        if RECORDS_STACKS:
            add_stacks(rows, self.profiler.events())
        autograd.add_sequences(rows, self.profiler.profiler.kineto_results.events())
        if self.memory:
            write_memory(self.out, roots, self.profiler.events())
        trace = os.path.join(self.out, f"trace-{pid}.json")
        if has_kineto():
            self.profiler.export_chrome_trace(trace)
            use_kernel_tids(rows, trace)
        else:
            require_one_thread(rows)
        write_rows(self.out, "torch.profiler event tree", False, rows, tensors_only=self.tensors_only())
        write_key_averages(self.out, self.profiler.key_averages())
        write_events(self.out, self.profiler.events())
        gc.enable()


def function_names(base: type) -> set[str]:
    names: set[str] = set()
    for function in base.__subclasses__():
        names |= {function.__name__} | function_names(function)
    return names


def tree_rows(roots: list[Any]) -> list[dict[str, Any]]:
    """The tree in pre-order. `tid` is still the profiler's own small number."""
    rows: list[dict[str, Any]] = []
    stack = [(event, -1) for event in reversed(roots)]
    while stack:
        event, parent = stack.pop()
        # Calls of CUDA are torch's rows, too, where there is a GPU: tests/gpu compares them.
        if str(event.tag).endswith("Kineto") or (RECORDS_STACKS and str(event.tag).endswith(PYTHON_TAGS)):
            stack.extend((child, parent) for child in reversed(event.children))
            continue
        if event.name in MEMORY_NAMES:
            continue
        fields = event.extra_fields
        if not hasattr(fields, "scope"):
            raise SystemExit(f"the profiler's tree has a row that is no operator: {event.name!r}")
        scope = str(fields.scope).rpartition(".")[2]
        index = len(rows)
        rows.append({
            "name": event.name, "tid": event.start_tid, "start_ns": event.start_time_ns, "end_ns": event.end_time_ns,
            "cat": "user_annotation" if scope == "USER_SCOPE" else "cpu_op", "scope": scope, "is_async": False, "parent": parent,
            "correlation": event.correlation_id})
        if RECORDS_SHAPES and not has_kineto():
            rows[-1]["inputs"] = tree_inputs(fields)
        stack.extend((child, index) for child in reversed(event.children))
    return rows


def nest_as_events(rows: list[dict[str, Any]], events: list[Any]) -> None:
    """Parents as events() has them, by the rows' times (torch/autograd/profiler_util.py, _populate_cpu_children: before 2.2
    it has microseconds alone). The profiler's own tree differs where rows overlap; asynchronous rows are in neither's."""
    asynchronous = {event.correlation_id() for event in events
                    if event.is_async() or event.start_thread_id() != event.end_thread_id()}
    rows.sort(key=lambda row: (row["tid"], row["start_ns"], -row["end_ns"]))
    around: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        row["parent"] = -1
        row["is_async"] = row["correlation"] in asynchronous
        if row["is_async"]:
            continue
        stack = around.setdefault(row["tid"], [])
        while stack and not (row["start_ns"] < rows[stack[-1]]["end_ns"] and row["end_ns"] <= rows[stack[-1]]["end_ns"]):
            stack.pop()
        if stack:
            row["parent"] = stack[-1]
        stack.append(index)


def add_stacks(rows: list[dict[str, Any]], events: list[Any]) -> None:
    """Rows that events() leaves out (_remove_dup_nodes) have none to compare."""
    stacks = {event.id: event.stack for event in events if event.id}
    for row in rows:
        if row["correlation"] in stacks:
            frames = reversed(stacks[row["correlation"]])
            row["stack"] = [frame for frame in frames if not frame.startswith("<built-in")]


def tree_inputs(fields: Any) -> dict[str, Any] | None:
    shapes = [list(shape) for shape in fields.inputs.shapes]
    return {"dims": shapes, "types": list(fields.inputs.dtypes)} if shapes else None


def trace_inputs(args: dict[str, Any]) -> dict[str, Any] | None:
    names = {"dims": "Input Dims", "types": "Input type", "strides": "Input Strides", "concrete": "Concrete Inputs"}
    inputs = {key: args[name] for key, name in names.items() if name in args}
    return inputs or None


def use_kernel_tids(rows: list[dict[str, Any]], trace: str) -> None:
    """Replaces the profiler's thread numbers by the kernel's, which only the chrome trace has. Checks both against
    each other: each row must be in both, with the same name and start."""
    with open(trace, encoding="utf-8", errors="replace") as file:  # torch writes frames whose text is no UTF-8
        text = file.read()
    if torch.__version__.startswith(("2.1.", "2.5.", "2.6.")):  # these do not escape names
        text = re.sub(r'"name": "(.*)", "pid"', lambda m: f'"name": {json.dumps(m[1])}, "pid"', text)
    document = json.loads(text, parse_float=decimal.Decimal)  # a double is 1 ns off at times
    # Before 2.2 the trace has whole microseconds since 1970 and no base.
    base = int(document.get("baseTimeNanoseconds", 0))
    unit_ns = 1 if "baseTimeNanoseconds" in document else 1000
    drawn: dict[tuple[str, int], list[int]] = {}
    inputs: dict[int, Any] = {}
    count = 0
    for event in document["traceEvents"]:
        if event.get("cat") in ("cpu_op", "user_annotation"):
            inputs[event["args"].get("External id", -1)] = trace_inputs(event["args"])
            key = (event["name"], (base + int(event["ts"] * 1000)) // unit_ns)
            drawn.setdefault(key, []).append(event["tid"])
            count += 1
    arrows = [event for event in document["traceEvents"] if event.get("cat") == "fwdbwd"]
    if count != len(rows):
        raise SystemExit(f"torch.profiler's trace has {count} rows, its tree {len(rows)}")
    kernel_tid: dict[int, int] = {}
    for row in rows:
        tids = drawn.get((row["name"], row["start_ns"] // unit_ns), [])
        if len(set(tids)) == 1 and kernel_tid.setdefault(row["tid"], tids[0]) != tids[0]:
            raise SystemExit(f"thread {row['tid']} of the tree is {kernel_tid[row['tid']]} and {tids[0]} in the trace")
    unknown = {row["tid"] for row in rows} - kernel_tid.keys()
    if unknown:
        raise SystemExit(f"threads {sorted(unknown)} of the tree are not found in the trace")
    autograd.use_kernel_tids(rows, kernel_tid)
    autograd.add_arrows(rows, [(event["ph"], event["id"], event["tid"], (base + int(event["ts"] * 1000)) // unit_ns)
                               for event in arrows], unit_ns)
    for row in rows:
        if RECORDS_SHAPES:
            row["inputs"] = inputs[row["correlation"]]


def require_one_thread(rows: list[dict[str, Any]]) -> None:
    threads = {row["tid"] for row in rows}
    if len(threads) > 1:
        raise SystemExit(f"without Kineto the kernel's ids of {len(threads)} threads are not known")
    autograd.use_kernel_tids(rows, dict.fromkeys(threads, threading.get_native_id()))
    autograd.add_arrows_by_rule(rows)


class LegacyProfile:
    """The autograd profiler of torch 1.x without Kineto, whose state belongs to one thread: the only oracle there for
    several threads. Its list lacks an only child with its parent's name, which the header tells compare.py."""

    def __init__(self, out: str) -> None:
        self.out = out
        from torch.autograd import profiler_legacy
        self.profiler = profiler_legacy.profile()

    def start(self) -> None:
        self.profiler.__enter__()

    def stop(self) -> None:
        self.profiler.__exit__(None, None, None)
        events = list(self.profiler.function_events)
        tid = threading.get_native_id()
        events.sort(key=lambda event: event.id)
        index = {event.id: number for number, event in enumerate(events)}
        rows = []
        for event in events:
            parent = event.cpu_parent
            start = round(event.time_range.start * 1000)
            rows.append({
                "name": event.name, "tid": tid, "start_ns": start, "end_ns": round(event.time_range.end * 1000),
                "cat": "cpu_op", "is_async": event.is_async, "parent": -1 if parent is None else index[parent.id],
                "seq": event.sequence_nr, "fwd": event.fwd_thread or 0, "fwd_tid": tid if event.fwd_thread else 0})
        autograd.add_engine_numbers(rows)
        write_rows(self.out, "torch.autograd.profiler_legacy", True, rows, suffix=f"-{tid}")
        write_key_averages(self.out, self.profiler.key_averages(), suffix=f"-{tid}")


def write_rows(out: str, source: str, deduplicated: bool, rows: list[dict[str, Any]], suffix: str = "",
               tensors_only: list[str] | None = None) -> None:
    header = {"pid": os.getpid(), "torch": torch.__version__, "source": source, "deduplicated": deduplicated,
              "tensors_only": tensors_only or [], "functions": sorted(function_names(torch.autograd.Function))}
    path = os.path.join(out, f"oracle-{os.getpid()}{suffix}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for record in [header, *rows]:
            file.write(json.dumps(record) + "\n")


def write_key_averages(out: str, averages: Any, suffix: str = "") -> None:
    rows = [{"name": row.key, "count": row.count, "self_cpu_us": row.self_cpu_time_total, "cpu_us": row.cpu_time_total}
            for row in averages if row.key not in MEMORY_NAMES]
    with open(os.path.join(out, f"key_averages-{os.getpid()}{suffix}.json"), "w", encoding="utf-8") as file:
        json.dump(rows, file)


def write_events(out: str, events: Any) -> None:
    with open(os.path.join(out, f"events-{os.getpid()}.jsonl"), "w", encoding="utf-8") as file:
        for event in events:
            parent = event.cpu_parent
            file.write(json.dumps({
                "name": event.name, "thread": event.thread, "start_us": event.time_range.start,
                "end_us": event.time_range.end, "parent": None if parent is None else parent.name,
                "is_async": event.is_async, "sequence_nr": event.sequence_nr, "scope": event.scope}) + "\n")


def bytes_of(event: Any) -> list[int]:
    """Of the CPU and of devices, of an allocation."""
    fields = event.extra_fields
    device = str(getattr(fields, "device", "")) or str(fields.device_type)
    return [fields.alloc_size, 0] if "cpu" in device.lower() else [0, fields.alloc_size]


def tree_memory(roots: list[Any]) -> list[tuple[Any, ...]]:
    """Rows of the markers' thread by the event tree. Where events() works in microseconds it gives an operator the
    memory of its neighbours, or none."""
    rows: list[list[Any]] = []
    marker_tid = None

    def visit(event: Any) -> list[int]:
        nonlocal marker_tid
        if event.name == MEMORY_NAMES[0]:
            sizes = bytes_of(event)
            if event.parent is None:
                rows.append([event.name, event.start_time_ns, event.start_time_ns, sizes[0], 0, sizes[1], 0, event.start_tid])
            return sizes
        if event.name == BEGIN:
            marker_tid = event.start_tid
        elif CUDA_CALL.match(event.name) and not event.children:
            return [0, 0]
        row = [event.name, event.start_time_ns, event.end_time_ns, 0, 0, 0, 0, event.start_tid]
        rows.append(row)
        for child in event.children:
            sizes = visit(child)
            for place, size in zip((3, 5), sizes if child.start_tid == event.start_tid else (0, 0)):
                row[place] += size
                row[place + 1] += size if child.name == MEMORY_NAMES[0] else 0
        return [row[3], row[5]]

    for root in roots:
        visit(root)
    rows.sort(key=lambda row: row[1])
    return [(name, start / 1e3, end / 1e3, *sizes) for name, start, end, *sizes, tid in rows
            if tid == marker_tid and (name != MEMORY_NAMES[1] or not any(sizes))]


def timed_memory(roots: list[Any]) -> list[tuple[Any, ...]]:
    """The same by time alone: with stacks, the tree ends an annotation with the Python function in which it began."""
    rows: list[list[Any]] = []
    memory: list[Any] = []
    stack = list(roots)
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        if event.name == MEMORY_NAMES[0]:
            memory.append(event)
        elif not str(event.tag).endswith(PYTHON_TAGS) and not CUDA_CALL.match(event.name):
            rows.append([event.name, event.start_time_ns, event.end_time_ns, 0, 0, 0, 0, event.start_tid])
    marker_tid = next(row[-1] for row in rows if row[0] == BEGIN)
    rows = sorted((row for row in rows if row[-1] == marker_tid), key=lambda row: (row[1], -row[2]))
    memory = sorted((event for event in memory if event.start_tid == marker_tid), key=lambda event: event.start_time_ns)
    outside: list[list[Any]] = []
    around: list[list[Any]] = []
    coming = iter(rows)
    following = next(coming, None)
    for event in memory:
        at = event.start_time_ns
        while following is not None and following[1] <= at:
            around.append(following)
            following = next(coming, None)
        around = [row for row in around if row[2] > at]
        sizes = bytes_of(event)
        for place, size in zip((3, 5), sizes):
            for row in around:
                row[place] += size
            if around:
                around[-1][place + 1] += size
        if not around:
            outside.append([event.name, at, at, sizes[0], 0, sizes[1], 0, marker_tid])
    rows = sorted(rows + outside, key=lambda row: row[1])
    return [(name, start / 1e3, end / 1e3, *sizes) for name, start, end, *sizes, _ in rows
            if name != MEMORY_NAMES[1] or not any(sizes)]


def outside_on_devices(rows: list[tuple[Any, ...]], events: Any, device: str) -> list[tuple[Any, ...]]:
    """What events() has of devices' memory outside of any row, and the tree, up to 2.10, has not. Their times are microseconds."""
    marker = next(event for event in events if event.name == BEGIN)
    offset = next(row[1] for row in rows if row[0] == BEGIN) - marker.time_range.start
    more = []
    for event in events:
        size = getattr(event, f"{device}_memory_usage")
        if event.name not in MEMORY_NAMES or event.thread != marker.thread or (event.name == MEMORY_NAMES[0] and not size):
            continue
        start = event.time_range.start + offset
        if not any(row[0] == event.name and abs(row[1] - start) < 2 and row[5] == size for row in rows):
            more.append((event.name, start, start, 0, 0, size, 0))
    return more


def write_memory(out: str, roots: list[Any], events: Any) -> None:
    """The memory events of the tree, and what torch makes of them for each row."""
    memory = []
    begin_ns = end_ns = marker_tid = 0
    stack = list(roots)
    while stack:
        event = stack.pop()
        stack.extend(event.children)
        if event.name == BEGIN:
            begin_ns, marker_tid = event.end_time_ns, event.start_tid
        elif event.name == END:
            end_ns = event.start_time_ns
        if event.name != MEMORY_NAMES[0] or bytes_of(event)[1]:
            continue
        fields = event.extra_fields
        memory.append((event.start_time_ns, fields.alloc_size, fields.ptr, fields.total_allocated, event.start_tid))
    memory = sorted((record[:-1] for record in memory if record[-1] == marker_tid), key=lambda record: record[0])
    marker = next(event for event in events if event.name == BEGIN)
    device = "device" if hasattr(marker, "device_memory_usage") else "cuda"  # the name before 2.4
    rows = [(event.name, event.time_range.start, event.time_range.end, event.cpu_memory_usage, event.self_cpu_memory_usage,
             getattr(event, f"{device}_memory_usage"), getattr(event, f"self_{device}_memory_usage"))
            for event in events if event.thread == marker.thread]
    # Where intervals are microseconds, as floats from 2.3 on: nanoseconds since 1970 are 256 apart then.
    coarse = "start_us" in inspect.signature(MemRecordsAcc.in_interval).parameters
    # Where a GPU is in use calls of CUDA are rows as well, and these are in the way of events()' folding.
    is_folded = not coarse and not any(CUDA_CALL.match(row[0]) for row in rows)
    if not is_folded:
        rows = timed_memory(roots) if RECORDS_STACKS else tree_memory(roots)
        rows = sorted(rows + outside_on_devices(rows, events, device), key=lambda row: row[1])
    with open(os.path.join(out, f"memory-{os.getpid()}.json"), "w", encoding="utf-8") as file:
        json.dump({"tid": threading.get_native_id(), "rows": rows, "folded": is_folded,
                   "memory": [record for record in memory if begin_ns <= record[0] < end_ns]}, file)

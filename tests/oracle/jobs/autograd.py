"""What torch.profiler says of autograd, for its rows: `seq`, the sequence number or -1; `fwd`, torch's own number of the
forward's thread, 0 in forward rows; `fwd_tid`, the kernel's id of that thread, 0 where it has no rows; `arrow`, in backward
rows: the index of the row that a flow arrow comes from, or -1."""

from __future__ import annotations

from typing import Any

Arrow = tuple[str, int, int, int]  # phase, id, kernel tid, start in the trace's unit


def start_ns(event: Any) -> int:
    return event.start_ns() if hasattr(event, "start_ns") else event.start_us() * 1000


def add_sequences(rows: list[dict[str, Any]], events: list[Any]) -> None:
    """Sequence numbers of Kineto's events, each of which is a row with the same name, thread and start. `tid` is still
    the profiler's own number."""
    unit_ns = 1 if events and hasattr(events[0], "start_ns") else 1000
    found: dict[tuple[str, int, int], list[Any]] = {}
    for event in events:
        found.setdefault((event.name(), event.start_thread_id(), start_ns(event) // unit_ns), []).append(event)
    for row in sorted(rows, key=lambda row: (row["start_ns"], -row["end_ns"])):
        same = found.get((row["name"], row["tid"], row["start_ns"] // unit_ns))
        if not same:
            raise SystemExit(f"torch.profiler's events() lack {row['name']!r} at {row['start_ns']}")
        event = same.pop(0)
        row["seq"], row["fwd"] = event.sequence_nr(), event.fwd_thread_id()


def add_engine_numbers(rows: list[dict[str, Any]]) -> None:
    """As Kineto's profiler does, and the legacy one does not: the engine's row gets the number of its node's, if that is
    the row after it."""
    for row, after in zip(rows, rows[1:]):
        if row["name"].startswith("autograd::engine::evaluate_function: ") and after["fwd"] > 0 and row["seq"] < 0:
            row.update({name: after[name] for name in ("seq", "fwd", "fwd_tid")})


def use_kernel_tids(rows: list[dict[str, Any]], kernel_tid: dict[int, int]) -> None:
    for row in rows:
        row["tid"] = kernel_tid[row["tid"]]
        row["fwd_tid"] = kernel_tid.get(row["fwd"], 0)


def add_arrows(rows: list[dict[str, Any]], arrows: list[Arrow], unit_ns: int) -> None:
    """The trace's flows: each end is the row of its thread that starts there; of an engine's row and its node's, the
    node's."""
    at: dict[tuple[int, int], list[int]] = {}
    for index, row in enumerate(rows):
        row["arrow"] = -1
        if row["seq"] >= 0:
            at.setdefault((row["tid"], row["start_ns"] // unit_ns), []).append(index)
    ends: dict[int, dict[str, list[int]]] = {}
    for phase, number, tid, start in arrows:
        backward = phase == "f"
        ends.setdefault(number, {})[phase] = [
            index for index in at.get((tid, start), []) if (rows[index]["fwd"] > 0) == backward]
    for number, both in ends.items():
        pairs = [(forward, backward) for forward in both.get("s", []) for backward in both.get("f", [])
                 if rows[forward]["seq"] == rows[backward]["seq"]]
        if not pairs:
            raise SystemExit(f"torch.profiler's arrow {number} has no two rows")
        forward, backward = pairs[-1]
        rows[backward]["arrow"] = forward


def add_arrows_by_rule(rows: list[dict[str, Any]]) -> None:
    """For a torch without traces: the rule that makes the arrows in the others."""
    waiting: dict[tuple[int, int], int] = {}
    for index in sorted(range(len(rows)), key=lambda index: rows[index]["end_ns"]):
        row = rows[index]
        row["arrow"] = -1
        if row["seq"] < 0:
            continue
        if row["fwd"] > 0:
            row["arrow"] = waiting.pop((row["fwd_tid"], row["seq"]), -1)
            continue
        known = waiting.get((row["tid"], row["seq"]), -1)
        if known < 0 or row["start_ns"] >= rows[known]["start_ns"]:
            waiting[(row["tid"], row["seq"])] = index

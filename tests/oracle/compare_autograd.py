"""Lays what proftrace says of autograd beside torch.profiler's answer, row by row: sequence numbers and forward threads
(events.csv), and in the trace the same under Kineto's names and the flow arrows from forward to backward."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import model
from compare import window_or_span
from model import Row

SHOWN = 5
NONE = {"seq": -1, "fwd": 0, "fwd_tid": 0, "arrow": -1}


@dataclasses.dataclass
class Outcome:
    rows: int = 0      # compared
    numbered: int = 0  # of them with a sequence number in torch.profiler
    backward: int = 0
    arrows: int = 0
    without_arrows: int = 0  # processes whose torch.profiler wrote no arrow for all its backward rows
    problems: list[str] = dataclasses.field(default_factory=list)

    def line(self) -> str:
        arrows = "no arrows of torch.profiler's to compare" if self.without_arrows else f"{self.arrows} arrows"
        return (f"autograd: {self.rows} rows, {self.numbered} with a sequence number, {self.backward} of them backward, "
                f"{arrows}, {len(self.problems)} differences")


def read_ours(result: Path) -> dict[int, dict[str, Any]]:
    """By the row's number in events.csv."""
    with (result / "events.csv").open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file, strict=True))
    ours: dict[int, dict[str, Any]] = {}
    by_external_id: dict[int, int] = {}
    at: dict[tuple[int, Decimal], list[int]] = {}
    for number, record in enumerate(records):
        ours[number] = dict(NONE, seq=int(record["sequence_nr"] or -1), fwd_tid=int(record["fwd_tid"] or 0),
                            forward_id=json.loads(record["args"] or "{}").get("forward_id", -1))
        if record["category"] in model.COMPARED:
            by_external_id[int(record["external_id"])] = number
    with gzip.open(result / "trace.json.gz", "rt", encoding="utf-8") as file:
        events = json.load(file, parse_float=Decimal)["traceEvents"]
    for event in events:
        if event.get("cat") in model.COMPARED and event["ph"] in "Xb":
            row = ours[by_external_id[event["args"]["External id"]]]
            row["fwd"] = event["args"].get("Fwd thread id", 0)
            row["trace_seq"] = event["args"].get("Sequence number", -1)
            at.setdefault((event["tid"], event["ts"]), []).append(by_external_id[event["args"]["External id"]])
    add_our_arrows(ours, at, [event for event in events if event.get("cat") == "fwdbwd"])
    return ours


def add_our_arrows(ours: dict[int, dict[str, Any]], at: dict[tuple[int, Decimal], list[int]],
                   flows: list[dict[str, Any]]) -> None:
    ends: dict[int, dict[str, int]] = {}
    for flow in flows:
        rows = [number for number in at.get((flow["tid"], flow["ts"]), [])
                if ours[number]["seq"] >= 0 and (ours[number]["fwd"] > 0) == (flow["ph"] == "f")]
        if not rows or flow["ph"] in ends.setdefault(flow["id"], {}):
            raise ValueError(f"our arrow {flow['id']} has an end {flow['ph']} with {len(rows)} rows")
        ends[flow["id"]][flow["ph"]] = rows[-1]
    for number, both in ends.items():
        if both.keys() != {"s", "f"}:
            raise ValueError(f"our arrow {number} has only {', '.join(both)}")
        ours[both["f"]]["arrow"] = both["s"]


def pairs_of(oracle: model.Oracle, ours: model.Threads) -> list[tuple[Row, Row]]:
    """Rows that are one, of all threads. Where the rows themselves differ, compare.py has said so."""
    pairs: list[tuple[Row, Row]] = []
    for key, rows in oracle.threads.items():
        theirs = window_or_span(rows, oracle.threads.values(), "torch.profiler")
        same_process = [other for where, other in ours.items() if where[0] == key[0]]
        mine = window_or_span(ours.get(key, []), same_process, "proftrace")
        if theirs is None or mine is None:
            continue
        if oracle.deduplicated:
            mine = model.without_only_children(mine)
        if [row.name for row in theirs] == [row.name for row in mine]:
            pairs += zip(theirs, mine)
    return pairs


def compare_rows(oracle: model.Oracle, facts: list[dict[str, Any]], ours: model.Threads,
                 our_facts: dict[int, dict[str, Any]], outcome: Outcome) -> None:
    pairs = pairs_of(oracle, ours)
    partner = {mine.number: theirs.number for theirs, mine in pairs}
    inside = {theirs.number for theirs, _ in pairs}
    # The Kineto of 2.0 writes none.
    has_arrows = any(facts[theirs.number].get("arrow", -1) >= 0 for theirs, _ in pairs)
    has_backward = any(facts[theirs.number]["seq"] >= 0 and facts[theirs.number]["fwd"] > 0 for theirs, _ in pairs)
    if has_backward and not has_arrows:
        outcome.without_arrows += 1
    for theirs, mine in pairs:
        expected, got = facts[theirs.number], our_facts[mine.number]
        outcome.rows += 1
        outcome.numbered += expected["seq"] >= 0
        outcome.backward += expected["seq"] >= 0 and expected["fwd"] > 0
        wrong = [f"{what} {got[ours_name]}, not {expected[what]}"
                 for what, ours_name in (("seq", "seq"), ("seq", "trace_seq"), ("fwd", "fwd"), ("fwd_tid", "fwd_tid"))
                 if got[ours_name] != (expected[what] if expected["seq"] >= 0 or what == "seq" else 0)
                 and not (what == "fwd_tid" and expected["fwd"] and not expected["fwd_tid"])]
        if "arrow" in expected and (has_arrows or not has_backward):
            arrow = expected["arrow"] if expected["arrow"] in inside else -1
            outcome.arrows += arrow >= 0
            if partner.get(got["arrow"], -1) != arrow:
                wrong.append(f"an arrow from {partner.get(got['arrow'], -1)}, not {arrow}")
        if wrong:
            outcome.problems.append(f"autograd: {theirs.name!r} ({mine.number}): {'; '.join(wrong)}")


def compare_autograd(out: Path, result: Path, without_scopes: frozenset[str] = frozenset()) -> Outcome:
    outcome = Outcome()
    ours, our_facts = model.read_events(result / "events.csv"), read_ours(result)
    for path in sorted(out.glob("oracle-*.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        compare_rows(model.read_oracle(path, without_scopes), [json.loads(line) for line in lines[1:]], ours, our_facts, outcome)
    return outcome

#!/usr/bin/env python3
"""The numbers, groups and members of gloo's collectives: as PyTorch's own flight recorder has them in the same run, and alike in
all ranks where this version of torch has no flight recorder."""

from __future__ import annotations

import collections
import gzip
import json
import os
import subprocess
from pathlib import Path

import live
from live import HERE, LiveTest, Tracer

RANKS = 3
STEPS = 3
GROUPS = {(0, 1, 2), (0, 2), (0, 1)}


def gloo_rows(trace: "dict | list") -> list[dict]:
    """Rows of works, by when they began; those that are drawn as a pair of events too. torch 1.13 writes the list alone."""
    events = trace if isinstance(trace, list) else trace["traceEvents"]
    rows = [event for event in events if event["name"].startswith("gloo:") and event["ph"] in "Xb"]
    return sorted(rows, key=lambda row: row["ts"])


def ranks_of(row: dict) -> tuple[int, ...]:
    return tuple(json.loads(row["args"]["Process Group Ranks"]))


class GlooTest(LiveTest):
    def record(self, tier: str) -> tuple[list[dict], list[dict], list[dict]]:
        """Each rank's trace, what torch says of its collectives, and torch.profiler's trace."""
        made = self.directory / tier
        made.mkdir()
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", TORCH_FR_BUFFER_SIZE="1000")
        job = [subprocess.Popen([LiveTest.python, str(HERE / "gloo_job.py"), str(made), str(rank), str(RANKS)], env=environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for rank in range(RANKS)]
        try:
            live.wait_until(lambda: len(list(made.glob("ready?.*"))) == RANKS, 90, "ready ranks")
            pids = [path.suffix[1:] for path in sorted(made.glob("ready?.*"))]
            targets = [argument for pid in pids for argument in ("-p", pid)]
            out = self.directory / f"out_{tier}"
            with Tracer(*targets, "-o", out, "--tier", tier, "--record-shapes", "--format", "chrome") as tracer:
                tracer.wait_until_recording()
                (made / "go").touch()
                live.wait_until(lambda: len(list(made.glob("facts?.json"))) == RANKS, 90, "finished ranks")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            (made / "end").touch()
            for process in job:
                self.assertEqual(process.wait(60), 0)
        finally:
            for process in job:
                process.kill()
                process.wait()
        traces = []
        for rank in range(RANKS):
            with gzip.open(out / f"trace_rank{rank}.json.gz", "rt", encoding="utf-8") as stream:
                traces.append(json.load(stream))
        return (traces, [json.loads((made / f"facts{rank}.json").read_text()) for rank in range(RANKS)],
                [json.loads((made / f"torch{rank}.json").read_text()) for rank in range(RANKS)])

    def check_flight(self, trace: dict, entries: list[dict]) -> None:
        """What PyTorch's flight recorder has of the same works."""
        rows = collections.Counter((row["name"], row["args"]["Process Group Name"], row["args"]["Seq"]) for row in gloo_rows(trace)
                                   if "Seq" in row["args"])
        theirs = collections.Counter((entry["profiling_name"], entry["process_group"][0], entry["collective_seq_id"])
                                     for entry in entries if not entry["is_p2p"])
        self.assertGreater(len(theirs), 10)
        self.assertEqual(rows, theirs)
        sizes = {(entry["process_group"][0], entry["collective_seq_id"]): entry["input_sizes"] for entry in entries}
        descriptions = {entry["process_group"][0]: entry["process_group"][1] for entry in entries}
        for row in gloo_rows(trace):
            args = row["args"]
            if "Seq" not in args:
                continue
            self.assertEqual(args.get("Process Group Description"), descriptions[args["Process Group Name"]])
            dims = args.get("Input Dims", [])
            flat = [size for item in dims for size in (item if item and isinstance(item[0], list) else [item])]
            if sizes[args["Process Group Name"], args["Seq"]] and flat:
                self.assertEqual(flat, sizes[args["Process Group Name"], args["Seq"]], row)

    def check_ranks(self, traces: list[dict]) -> None:
        """Members of a group have the same numbers for the same works."""
        of_group: dict[tuple, dict[int, list]] = collections.defaultdict(dict)
        for rank, trace in enumerate(traces):
            works = collections.defaultdict(list)
            for row in gloo_rows(trace):
                args = row["args"]
                if row["name"] in ("gloo:send", "gloo:recv"):
                    self.assertNotIn("Seq", args)
                    continue
                self.assertIn("Seq", args, row)
                self.assertIs(args["Is P2P"], False)
                self.assertEqual(args["Group size"], len(ranks_of(row)))
                self.assertIn(rank, ranks_of(row))
                works[ranks_of(row), args["Process Group Name"]].append((args["Seq"], row["name"]))
            for key, numbers in works.items():
                self.assertEqual(len(numbers), len(set(numbers)), "a number stands twice")
                of_group[key][rank] = sorted(numbers)
        self.assertEqual({key[0] for key in of_group}, GROUPS)
        for key, by_rank in of_group.items():
            self.assertEqual(set(by_rank), set(key[0]), key)
            for numbers in by_rank.values():
                self.assertEqual(numbers, by_rank[key[0][0]], key)
                self.assertEqual([number for number, _ in numbers], list(range(numbers[0][0], numbers[0][0] + len(numbers))), key)

    def check_tier(self, tier: str) -> None:
        traces, facts, theirs = self.record(tier)
        self.check_ranks(traces)
        for rank in range(RANKS):
            if facts[rank]["entries"] is not None:
                self.check_flight(traces[rank], facts[rank]["entries"])
            # torch.profiler in the same run: the same works, and its description of the groups where it has one.
            names = collections.Counter(row["name"] for row in gloo_rows(theirs[rank]))
            self.assertEqual(collections.Counter(row["name"] for row in gloo_rows(traces[rank])), names)
            info = theirs[rank].get("distributedInfo", {}).get("pg_config") if isinstance(theirs[rank], dict) else None
            if info:
                known = {group["pg_name"]: group["ranks"] for group in info}
                for row in gloo_rows(traces[rank]):
                    if "Seq" in row["args"]:
                        self.assertEqual(list(ranks_of(row)), known[row["args"]["Process Group Name"]])

    def test_works_have_torchs_numbers_with_bpf(self) -> None:
        self.check_tier("bpf")

    def test_works_have_torchs_numbers_with_jumps(self) -> None:
        self.check_tier("patch")


if __name__ == "__main__":
    live.run()

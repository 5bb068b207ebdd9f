#!/usr/bin/env python3
"""Captures of real gloo ranks whose clocks are made to differ, put back on one clock by `proftrace merge`: the captures of one host
are rewritten as t + t * rate + offset, one with a step of 50 ms in the middle, and the true times are those of the host."""

from __future__ import annotations

import collections
import gzip
import json
import os
import re
import subprocess
from decimal import Decimal
from pathlib import Path

import live
from live import HERE, LiveTest, Tracer

HOUR_NS = 3_600_000_000_000
STEP_NS = 50_000_000
STEPPED_RANK = 5
LATE_RANK = 3  # of shifted_job.py
# Offset and rate (ppb) of each rank's clock.
SHIFTS = ((0, 0), (3 * HOUR_NS + 123_457, 40_000), (90 * HOUR_NS, -90_000), (17, 100_000), (7 * HOUR_NS, -100_000), (HOUR_NS, 13_000),
          (250_000_000, 5_000), (1_000_003, -31_000))
SHIFT_CAPTURE = Path(live.BINARY).parent / "shift_capture"


def read(path: Path) -> dict:
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as stream:
        return json.load(stream, parse_float=Decimal)


def begins(trace: dict, label: str, name: str) -> list[int]:
    """When the rows of a name begin in the processes whose name has `label`, in ns since 1970."""
    pids = {event["pid"] for event in trace["traceEvents"] if event["name"] == "process_name" and event["args"]["name"].startswith(label)}
    return sorted(trace["baseTimeNanoseconds"] + int(Decimal(event["ts"]) * 1000) for event in trace["traceEvents"]
                  if event["name"] == name and event["ph"] == "X" and event["pid"] in pids)


class ShiftedTest(LiveTest):
    STEPS = 60

    def record(self, ranks: int, *options: object) -> tuple[Path, list[int]]:
        """One capture of all ranks, and their PIDs."""
        made = self.directory / "made"
        made.mkdir()
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo")
        job = [subprocess.Popen([LiveTest.python, str(HERE / "shifted_job.py"), str(made), str(rank), str(ranks), str(self.STEPS)],
                                env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for rank in range(ranks)]
        try:
            live.wait_until(lambda: len(list(made.glob("ready*"))) == ranks, 120, "ready ranks")
            pids = [int(path.suffix[1:]) for path in sorted(made.glob("ready*"))]
            targets = [argument for pid in pids for argument in ("-p", pid)]
            with Tracer(*targets, *options, "--format", "none", "-o", self.directory / "capture") as tracer:
                tracer.wait_until_recording()
                (made / "go").touch()
                live.wait_until(lambda: len(list(made.glob("done*"))) == ranks, 120, "finished ranks")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            (made / "end").touch()
            for process in job:
                self.assertEqual(process.wait(60), 0)
        finally:
            for process in job:
                process.kill()
                process.wait()
        return self.directory / "capture", pids

    def merge(self, *arguments: object) -> dict:
        made = subprocess.run([live.BINARY, "merge", *map(str, arguments), "--json"], capture_output=True, text=True, timeout=180)
        self.assertEqual(made.returncode, 0, made.stderr + made.stdout)
        return json.loads(made.stdout)

    def shift(self, capture: Path, pids: list[int], step_at_ns: int) -> list[Path]:
        shifted = []
        for rank, pid in enumerate(pids):
            shifted.append(self.directory / f"rank{rank}.ptrec")
            offset_ns, ppb = SHIFTS[rank]
            subprocess.run([SHIFT_CAPTURE, capture / "capture.ptrec", shifted[-1], str(pid), f"node{rank}", str(offset_ns), str(ppb),
                            str(step_at_ns), str(STEP_NS if rank == STEPPED_RANK and step_at_ns else 0)], check=True, timeout=60)
        return shifted

    def check_clocks(self, ranks: int, with_step: bool) -> None:
        capture, pids = self.record(ranks)
        truth_path = self.directory / "truth.json"
        # One clock: what the host's own rows say.
        self.assertEqual(self.merge(capture, "-o", truth_path)["clock"]["statement"], "Clocks: 1 host, one clock: exact")
        truth = read(truth_path)
        rows = {rank: begins(truth, f"rank {rank} ", "aten::mm") for rank in range(ranks)}
        self.assertTrue(all(len(of) == self.STEPS for of in rows.values()), {rank: len(of) for rank, of in rows.items()})
        start_ns = json.loads((capture / "summary.json").read_text())["window"]["start_unix_ns"]
        # Between two steps.
        step_at_ns = (rows[STEPPED_RANK][self.STEPS // 2] + rows[STEPPED_RANK][self.STEPS // 2 - 1]) // 2 - start_ns if with_step else 0
        files = self.shift(capture, pids, step_at_ns)
        output = self.directory / "job.json"
        summary = self.merge(*files, "-o", output, "--reference", "node0")
        clock = summary["clock"]
        self.assertEqual(clock["not_aligned"], [])
        self.assertEqual(clock["matched_by_order"], 0, "gloo's numbers were not used")
        merged = read(output)
        bounds = {host["host"]: host["bound_ns"] for host in clock["hosts"]}
        likely = {host["host"]: host["likely_error_ns"] for host in clock["hosts"]}
        errors = {}
        for rank in range(ranks):
            got = begins(merged, f"rank {rank} ", "aten::mm")
            right = rows[rank]
            if with_step and rank == STEPPED_RANK:
                # Rows around the step have no place on the common clock.
                self.assertGreaterEqual(len(got), self.STEPS - 4)
                right = [min(right, key=lambda ns: abs(ns - one)) for one in got]
            self.assertEqual(len(got), len(right), rank)
            errors[rank] = max(abs(a - b) for a, b in zip(got, right, strict=True))
            self.assertLessEqual(errors[rank], bounds[f"node{rank}"] + 2000, (rank, errors, bounds))
        print(f"{LiveTest.python} {ranks} ranks{' with a step' if with_step else ''}: {clock['statement']}; off by at most "
              f"{max(errors.values()) / 1000:.0f} us; within the likely error: "
              f"{sum(errors[r] <= likely[f'node{r}'] for r in range(1, ranks))} of {ranks - 1} hosts", flush=True)
        self.assertLess(max(bounds.values()), 1_000_000_000)
        last = max(summary["collectives"], key=lambda of: of["entered_last"])
        self.assertEqual(last["rank"], LATE_RANK)
        found = [text for text in clock["findings"] if f"node{STEPPED_RANK}" in text]
        if not with_step:
            self.assertEqual(clock["findings"], [])
            return
        self.assertEqual(len(found), 1, clock["findings"])
        jumped = re.search(r"jumped by \+([0-9.]+) s", found[0])
        self.assertIsNotNone(jumped, found)
        assert jumped is not None
        self.assertLessEqual(abs(float(jumped[1]) * 1e9 - STEP_NS), 2 * bounds[f"node{STEPPED_RANK}"])

    def test_eight_ranks_are_put_back(self) -> None:
        self.check_clocks(8, with_step=False)

    def test_a_step_of_50_ms_is_found_and_named(self) -> None:
        self.check_clocks(8, with_step=True)

    def test_the_late_rank_is_told_by_all_that_was_recorded_of_it(self) -> None:
        capture, _ = self.record(4, "--activities", "cpu,syscalls,sched", "--with-stack")
        output = self.directory / "job.json"
        summary = self.merge(capture, "-o", output, "--lanes", "summary")
        self.assertEqual(max(summary["collectives"], key=lambda of: of["entered_last"])["rank"], LATE_RANK)
        merged = read(output)
        late = [event["args"] for event in merged["traceEvents"]
                if event.get("cat") == "collective" and event["args"].get("entered last") == LATE_RANK
                and Decimal(event["args"].get("skew (us)", 0)) > 8000 and "late rank was in" in event["args"]]
        self.assertGreater(len(late), self.STEPS)
        told = {key: collections.Counter(args.get(key, "").split(" (")[0] for args in late).most_common(1)[0][0]
                for key in ("late rank's operator", "late rank's Python function", "late rank's system call", "late rank was off the CPU")}
        self.assertEqual(told["late rank's operator"], "be_late")
        self.assertIn("sleep", told["late rank was off the CPU"])
        self.assertIn("nanosleep", told["late rank's system call"] + " ".join(args["late rank was in"] for args in late[:1]))
        self.assertIn("shifted_job.py", told["late rank's Python function"])
        causes = collections.Counter(event["name"] for event in merged["traceEvents"] if event.get("cat") == "late_cause")
        self.assertEqual(causes.most_common(1)[0][0], "off the CPU: sleep")
        self.assertIn("forward", {event["name"] for event in merged["traceEvents"] if event.get("cat") == "phase"})


if __name__ == "__main__":
    live.run()

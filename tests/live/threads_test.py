#!/usr/bin/env python3
"""Many threads, torch's own threads, forks at bad moments, workers of every kind."""

from __future__ import annotations

import collections
import math
import unittest

import children_test
import live
import memory_test
from live import Job, LiveTest, Result, Tracer

CROWD = 1000


class ThreadsTest(LiveTest):
    record = children_test.ChildrenTest.record
    children_of = children_test.ChildrenTest.children_of
    spans_by_pid = children_test.ChildrenTest.spans_by_pid
    targets = children_test.ChildrenTest.targets

    def test_a_thousand_threads_at_once_are_recorded_without_loss(self) -> None:
        with Job() as job:
            result, (answer,) = self.record(job, f"crowd {CROWD}")
        tids = answer["tids"].split(",")
        self.assertEqual(len(set(tids)), CROWD)
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        for row in result.events():
            counts[row["path"]][row["tid"]] += 1
        self.assertEqual(counts["forward"], collections.Counter(tids))
        self.assertEqual(counts["forward/aten::linear"], collections.Counter(tids * 3))

    def test_a_thousand_threads_with_autograd_and_memory_are_recorded_without_loss(self) -> None:
        with Job() as job:
            result, (answer,) = self.record(job, f"crowd {CROWD} backward", options=("--profile-memory",))
        tids = answer["tids"].split(",")
        self.assertEqual(len(set(tids)), CROWD)
        counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        forwards, backwards = collections.Counter(), collections.Counter()
        for row in result.events():
            counts[row["path"]][row["tid"]] += 1
            if row["name"] == "aten::linear":
                continue
            if row["sequence_nr"] and "autograd::engine" not in row["path"]:
                forwards[row["tid"], row["sequence_nr"]] += 1
            if row["name"].endswith("Backward0") and row["sequence_nr"] and "evaluate_function" not in row["name"]:
                backwards[row["tid"], row["sequence_nr"]] += 1
        self.assertEqual(counts["step"], collections.Counter(tids))
        self.assertEqual(counts["step/forward/aten::linear"], collections.Counter(tids * 3))
        node = "step/autograd::engine::evaluate_function: AddmmBackward0/AddmmBackward0"
        self.assertEqual(counts[node], collections.Counter(tids * 3))
        # Every node has the number of an operator of its own thread's forward, which no other node has.
        self.assertEqual(set(backwards.values()), {1})
        self.assertEqual({tid for tid, _ in backwards}, set(tids))
        self.assertEqual(sorted(backwards.keys() - forwards.keys())[:5], [])
        self.assertGreater(memory_test.check_totals(self, result), 10 * CROWD)

    def test_operators_that_torch_splits_are_one_row_of_their_thread(self) -> None:
        with Job() as job:
            result, _ = self.record(job, "intra 20")
        rows = [row for row in result.events() if row["path"].startswith("split")]
        counts = collections.Counter(row["path"] for row in rows)
        for path in ("split", "split/aten::mm", "split/aten::relu", "split/aten::div"):
            self.assertEqual(counts[path], 20, counts)
        self.assertEqual({row["tid"] for row in rows}, {str(job.pid)})

    def test_forks_in_the_middle_of_a_backward_leave_both_sides_whole(self) -> None:
        with Job() as job:
            result, (answer, after) = self.record(job, "forkback 3", "steps 3")
            self.assert_same_results(after)
        children = self.children_of(answer)
        self.assertEqual(len(children), 3)
        spans = self.spans_by_pid(result)
        own = collections.Counter(row["path"] for row in spans[job.pid])
        self.assertEqual((own["backward"], own["step"]), (3, 3))
        node = "backward/autograd::engine::evaluate_function: MmBackward0/MmBackward0"
        self.assertEqual(own[node], 3, own.most_common(20))
        for pid, (_, steps) in children.items():
            recorded = sum(row["path"] == "forward" for row in spans[pid])
            self.assertGreater(recorded, 0)
            self.assertLessEqual(recorded, steps)

    def test_operators_that_come_and_go_never_have_anothers_name(self) -> None:
        for seconds in (0, 0.2):
            with self.subTest(seconds), Job() as job:
                with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv") as tracer:
                    tracer.wait_until_recording()
                    job.do(f"libraries 6 {seconds}")
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                result = Result(self.out)
                self.assert_identities(result.ledger)
                counts = collections.Counter(row["name"] for row in result.events())
                named = {name: count for name, count in counts.items() if name.startswith("passing")}
                self.assertLessEqual(max(named.values(), default=0), 10, counts)
                self.assertEqual(sum(named.values()) + counts["<unnamed>"], 60)
                self.assertEqual(result.ledger["unnamed"], counts["<unnamed>"])
                features = {gap["feature"] for gap in result.summary["unsupported"]}
                self.assertTrue(seconds == 0 or not counts["<unnamed>"] or "names of deregistered operators" in features)
                self.out.rename(self.directory / str(seconds))

    def test_workers_by_spawn_and_by_a_fork_server_are_recorded(self) -> None:
        for method in ("spawn", "forkserver"):
            with self.subTest(method), Job() as job:
                result, (answer,) = self.record(job, f"workers {method}")
                self.assertAlmostEqual(float(answer["total"]), 4 * sum(math.sqrt(number) for number in range(400)), delta=1)
                spans = self.spans_by_pid(result)
                for pid in map(int, answer["workers"].split(",")):
                    self.assertIn(pid, self.targets(result))
                    self.assertGreater(sum(row["name"] == "aten::sqrt" for row in spans[pid]), 0)
            self.out.rename(self.directory / method)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""What --metric and --diff give, from kept captures: folded lines, the flame graph page, speedscope and pprof files.

    stacks_test.py PROFTRACE GOLDEN_FOLDER
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROFTRACE, GOLDEN = sys.argv[1], Path(sys.argv[2])
# The grammar of flamegraph.pl and difffolded.pl: frames, then one number or two, separated by blanks.
LINE = re.compile(r"^(?P<stack>.+?)(?: (?P<before>\d+))? (?P<weight>\d+)$")
UNITS = {"CPU time": "nanoseconds", "GPU time": "nanoseconds", "Count": "none"}


def capture(case: str) -> Path:
    return GOLDEN / case / "capture.ptrec"


class StacksTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def export(self, case: str, form: str, *options: object, code: int = 0) -> str:
        """The file that an export wrote; of one that fails, its sentence."""
        target = self.out / "file"
        target.unlink(missing_ok=True)
        command = [PROFTRACE, "export", str(capture(case)), "--format", form, "-o", str(target), *map(str, options)]
        done = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, (command, done.stderr))
        if code != 0:
            if "--salvage" not in options:
                self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)
                self.assertFalse(target.exists(), "a failed export left a file")
            return done.stderr.decode()
        return target.read_bytes().decode("utf-8", "surrogateescape")

    def folded(self, case: str, *options: object) -> dict[str, tuple[int, int]]:
        """Stack -> weight before (0 without --diff) and weight."""
        stacks = {}
        for line in self.export(case, "folded", *options).splitlines():
            found = LINE.match(line)
            assert found, line
            self.assertEqual(found["before"] is not None, "--diff" in options, line)
            self.assertNotIn(found["stack"], stacks)
            stacks[found["stack"]] = (int(found["before"] or 0), int(found["weight"]))
        return stacks

    def page(self, case: str, *options: object) -> dict:
        html = self.export(case, "flamegraph", *options)
        text = re.search(r'<script id="data" type="application/json">(.*?)</script>', html, re.DOTALL)
        assert text
        return json.loads(text[1])

    def test_metrics_of_folded_stacks(self) -> None:
        times = self.folded("gpu")
        self.assertEqual(times, self.folded("gpu", "--metric", "cpu_time_total"))
        device = self.folded("gpu", "--metric", "self_cuda_time_total")
        self.assertEqual(device, self.folded("gpu", "--metric", "self_device_time_total"))
        self.assertNotEqual(times, device)
        # As in torch's export_stacks(), lines end with the operator that asked for the work.
        self.assertIn("ProfilerStep*;forward;aten::linear;aten::addmm", device)
        self.assertFalse([stack for stack in device if "sgemm" in stack])
        counts = self.folded("gpu", "--metric", "count")
        self.assertEqual(sum(count for _, count in counts.values()),
                         sum(row.count(b"\n") for row in [(GOLDEN / "gpu" / "events.csv").read_bytes()]) - 1 -
                         self.device_rows("gpu"))

    def device_rows(self, case: str) -> int:
        events = json.loads((GOLDEN / case / "summary.json").read_text(encoding="utf-8"))["events"]
        host = ("operators", "autograd", "annotations", "runtime")
        return sum(events.values()) - sum(events.get(name, 0) for name in host)

    def test_one_page_has_all_weights_and_the_same_totals(self) -> None:
        page = self.page("gpu", "--metric", "self_cuda_time_total")
        self.assertEqual([weight["name"] for weight in page["weights"]], ["self_cpu_time_total", "self_cuda_time_total", "count"])
        self.assertEqual(page["first"], 1)
        self.assertEqual(len(page["nodes"]), 3 * len(page["values"][0]))
        for weight, values in zip(page["weights"], page["values"]):
            total = sum(values)
            if weight["unit"] == "ns":
                total = (total + 500) // 1000
            self.assertEqual(total, sum(one for _, one in self.folded("gpu", "--metric", weight["name"]).values()), weight)
        kernel = next(i for i, name in enumerate(page["frames"]) if name.startswith("sgemm"))
        self.assertEqual(page["kinds"][kernel], 6)
        parents = {page["frames"][page["nodes"][3 * (page["nodes"][i] - 1) + 1]]
                   for i in range(0, len(page["nodes"]), 3) if page["nodes"][i + 1] == kernel}
        self.assertEqual(parents, {"aten::addmm", "[no CUDA call recorded]"})

    def test_speedscope_has_a_profile_a_weight(self) -> None:
        profile = json.loads(self.export("gpu", "speedscope", "--metric", "count"))
        self.assertEqual({one["name"]: one["unit"] for one in profile["profiles"]}, UNITS)
        self.assertEqual(profile["profiles"][profile["activeProfileIndex"]]["name"], "Count")
        for one in profile["profiles"]:
            self.assertEqual(len(one["samples"]), len(one["weights"]))
            self.assertEqual(sum(one["weights"]), one["endValue"])
            for sample in one["samples"]:
                self.assertTrue(all(0 <= frame < len(profile["shared"]["frames"]) for frame in sample))

    def test_pprof_is_one_message_with_all_sample_types(self) -> None:
        target = self.out / "profile.pb.gz"
        subprocess.run([PROFTRACE, "export", str(capture("gpu")), "--format", "pprof", "-o", str(target)], check=True,
                       capture_output=True)
        message = gzip.decompress(target.read_bytes())
        for name in (b"self_cpu_time", b"self_cuda_time", b"spans", b"nanoseconds", b"count"):
            self.assertIn(name, message)

    def test_an_unknown_metric_names_those_that_are_known(self) -> None:
        for form in ("folded", "flamegraph", "speedscope", "pprof"):
            sentence = self.export("mlp", form, "--metric", "self_cpu", code=2)
            for name in ("self_cpu_time_total", "self_cuda_time_total", "self_cpu_memory_usage", "self_device_memory_usage", "count"):
                self.assertIn(name, sentence)

    def test_a_metric_that_was_not_recorded_is_2_and_says_what_is_missing(self) -> None:
        for form in ("folded", "flamegraph", "speedscope", "pprof"):
            self.assertIn("--profile-memory", self.export("mlp", form, "--metric", "self_cpu_memory_usage", code=2))
            self.assertIn("GPU", self.export("mlp", form, "--metric", "self_cuda_time_total", code=2))

    def test_a_comparison_has_the_figures_of_both(self) -> None:
        before, after = self.folded("workers"), self.folded("mlp")
        both = self.folded("mlp", "--diff", capture("workers"))
        self.assertEqual({stack: one for stack, (one, _) in both.items() if one}, {s: w for s, (_, w) in before.items()})
        self.assertEqual({stack: one for stack, (_, one) in both.items() if one}, {s: w for s, (_, w) in after.items()})
        page = self.page("mlp", "--diff", capture("workers"))
        self.assertEqual(sorted(sum(values) for values in page["values"]),
                         sorted(sum(values) for values in self.page("mlp")["values"]))
        self.assertEqual([sum(values) for values in page["before"]["values"]],
                         [sum(values) for values in self.page("workers")["values"]])
        self.assertEqual(len(page["before"]["counts"]) * 3, len(page["nodes"]))
        same = self.page("mlp", "--diff", capture("mlp"))
        self.assertEqual(same["values"], same["before"]["values"])

    def test_a_directory_can_be_compared_with(self) -> None:
        self.assertEqual(self.folded("mlp", "--diff", GOLDEN / "workers"), self.folded("mlp", "--diff", capture("workers")))

    def test_what_cannot_be_compared_is_said(self) -> None:
        for form in ("speedscope", "pprof", "csv", "folded,table"):
            self.assertIn("folded, flamegraph", self.export("mlp", form, "--diff", capture("workers"), code=2))
        damaged = self.export("mlp", "folded", "--diff", capture("killed_tracer"), code=8)
        self.assertIn("killed_tracer", damaged)
        self.assertIn("what is whole was exported",
                      self.export("mlp", "folded", "--salvage", "--diff", capture("killed_tracer"), code=8))
        broken = self.out / "broken.ptrec"
        content = bytearray(capture("mlp").read_bytes())
        content[8] += 1  # the format's version
        broken.write_bytes(content)
        self.assertIn("its header is wrong", self.export("mlp", "flamegraph", "--diff", broken, code=8))
        self.export("mlp", "flamegraph", "--diff", self.out / "nothing", code=8)
        missing = self.export("gpu", "folded", "--metric", "self_cuda_time_total", "--diff", capture("mlp"), code=2)
        self.assertIn("mlp", missing)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

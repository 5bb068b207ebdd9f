#!/usr/bin/env python3
"""Control groups near their memory limits: a job in one is never killed by the attach, and proftrace in one says what it needs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from pathlib import Path
from typing import Iterator

import live
from control_groups import hierarchy
from live import Job, LiveTest

MIB = 1 << 20
STEP = 2 * MIB


class MemoryGroup:
    def __init__(self, folder: Path, is_v2: bool) -> None:
        self.folder = folder / f"proftrace-{os.getpid()}-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.limit = self.folder / ("memory.max" if is_v2 else "memory.limit_in_bytes")
        self.used = self.folder / ("memory.current" if is_v2 else "memory.usage_in_bytes")
        self.events = self.folder / ("memory.events" if is_v2 else "memory.oom_control")
        self.is_v2 = is_v2

    def lower(self, room_mib: int) -> None:
        """The limit is `room_mib` more than what cannot be taken from the group."""
        low = int(self.used.read_text())
        if self.is_v2:
            # Lowering memory.max would end the job; reclaim alone does not.
            with contextlib.suppress(OSError):
                (self.folder / "memory.reclaim").write_text(str(low))
        else:
            with contextlib.suppress(OSError):
                while low > STEP:
                    self.limit.write_text(str(low - STEP))
                    low -= STEP
        self.limit.write_text(str(int(self.used.read_text()) + room_mib * MIB))

    def kills(self) -> int:
        found = re.search(r"^oom_kill (\d+)", self.events.read_text(), re.MULTILINE)
        return int(found.group(1)) if found else 0

    def lift(self) -> None:
        self.limit.write_text("max" if self.is_v2 else "-1")

    def remove(self) -> None:
        live.wait_until(lambda: not (self.folder / "cgroup.procs").read_text(), 10, "an empty group")
        self.folder.rmdir()


class MemoryLimitTest(LiveTest):
    @contextlib.contextmanager
    def group(self) -> Iterator[MemoryGroup]:
        found = hierarchy("memory")
        if found is None:
            self.skipTest("no control groups that limit memory")
        group = MemoryGroup(*found)
        try:
            yield group
        finally:
            group.lift()
            group.remove()

    @contextlib.contextmanager
    def limited_job(self, room_mib: int) -> Iterator[tuple[Job, MemoryGroup]]:
        with self.group() as group:
            # Its memory is charged to the group, so it imports PyTorch there.
            prefix = ("sh", "-c", f'echo $$ > {group.folder}/cgroup.procs && exec "$@"', "sh")
            with Job(prefix=prefix) as job:
                job.do("steps 2")
                group.lower(room_mib)
                yield job, group

    def check_survives(self, room_mib: int, *options: str) -> int:
        with self.limited_job(room_mib) as (job, group):
            done = self.run_proftrace("-p", job.pid, "-d", "500ms", "-o", self.out, "--force", "--format", "none", *options)
            self.assertEqual(group.kills(), 0, done.stderr)
            self.assertIn(done.returncode, (0, 6), done.stderr)
            if done.returncode == 6:
                self.assert_one_sentence(done.stderr, rf"PID {job.pid} is too near its memory limit", "raise that limit by")
                self.assertEqual(live.patches(job.pid), [])
                self.assertEqual(live.changed_text_bytes(job.pid), 0)
            group.lift()
            self.assert_same_results(job.do("steps 5"))
            return done.returncode

    def test_with_no_room_it_is_refused(self) -> None:
        everything = ("--with-stack", "--record-shapes", "--profile-memory")
        for options in (("--tier", "bpf"), ("--tier", "patch", *everything)):
            with self.subTest(options=options):
                self.assertEqual(self.check_survives(1, *options), 6)

    def test_doctor_says_so_as_well(self) -> None:
        with self.limited_job(1) as (job, group):
            done = self.run_proftrace("doctor", "--json", "-p", job.pid)
            self.assertEqual(done.returncode, 6, done.stdout)
            document = json.loads(done.stdout)
            checks = {check["name"]: check for check in document["checks"]}
            for name in ("probes (--tier bpf)", "jumps (--tier patch)"):
                self.assertFalse(checks[name]["ok"])
                self.assertRegex(checks[name]["detail"], rf"PID {job.pid} is too near its memory limit.*raise that limit by")
            self.assertIsNone(document["command"])
            self.assertEqual(group.kills(), 0)
            group.lift()

    def test_at_the_edge_the_job_lives(self) -> None:
        # Whether that is enough depends on the libraries; that it lives does not.
        self.check_survives(6, "--tier", "bpf", "--sample", "99")
        self.check_survives(12, "--tier", "patch")

    def test_with_room_it_is_recorded(self) -> None:
        self.assertEqual(self.check_survives(64, "--tier", "patch"), 0)

    def test_the_others_are_recorded(self) -> None:
        with Job() as other, self.limited_job(1) as (job, group):
            done = self.run_proftrace("-p", job.pid, "-p", other.pid, "-d", "300ms", "-o", self.out, "--format", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"PID {job.pid} is not recorded: PID {job.pid} is too near its memory limit", done.stderr)
            self.assertEqual([target["pid"] for target in live.Result(self.out).summary["target"]], [other.pid])
            self.assertEqual(group.kills(), 0)
            group.lift()
            self.assert_same_results(job.do("steps 5"))

    def test_children_that_are_there_live(self) -> None:
        for room_mib, tier in ((10, "bpf"), (24, "patch")):
            with self.subTest(room_mib=room_mib, tier=tier), self.group() as group:
                prefix = ("sh", "-c", f'echo $$ > {group.folder}/cgroup.procs && exec "$@"', "sh")
                with Job(prefix=prefix) as job:
                    job.do("steps 2")
                    job.tell("fork 3 6")
                    children = Path(f"/proc/{job.pid}/task/{job.pid}/children")
                    live.wait_until(lambda: len(children.read_text().split()) == 3, 10, "its children")
                    pids = children.read_text().split()
                    group.lower(room_mib)
                    self.assertEqual(group.kills(), 0, "by the limit alone")
                    done = self.run_proftrace("-p", job.pid, "-d", "500ms", "-o", self.out, "--force", "--format", "none", "--tier", tier)
                    self.assertEqual(group.kills(), 0, done.stderr)
                    self.assertIn(done.returncode, (0, 6), done.stderr)
                    if done.returncode == 6:
                        self.assertIn("too near its memory limit", done.stderr)
                    for pid in pids:
                        with contextlib.suppress(OSError):  # it has ended
                            self.assertEqual(live.patches(int(pid)), [])
                    group.lift()
                    job.answer()
                    self.assert_same_results(job.do("steps 5"))

    def test_children_that_come_later_live(self) -> None:
        with self.limited_job(24) as (job, group):
            with live.Tracer("-p", job.pid, "-o", self.out, "--format", "none", "--tier", "bpf") as tracer:
                tracer.lines.wait(r"^proftrace: (recording|.*memory limit)", live.READY_S)
                job.do("fork 3 1")
                self.assertEqual(group.kills(), 0, tracer.text())
                self.assertIn(tracer.stop(), (0, 6), tracer.text())
            group.lift()
            self.assert_same_results(job.do("steps 5"))

    def test_a_whole_host(self) -> None:
        with Job() as other, self.limited_job(1) as (job, group):
            done = self.run_proftrace("-a", "-d", "500ms", "-o", self.out, "--format", "none")
            self.assertEqual(group.kills(), 0, done.stderr)
            self.assertEqual(done.returncode, 0, done.stderr)
            summary = live.Result(self.out).summary
            self.assertIn(other.pid, [target["pid"] for target in summary["target"]])
            self.assertNotIn(job.pid, [target["pid"] for target in summary["target"]])
            self.assertRegex(str(summary["unsupported"]), f"PID {job.pid} is too near its memory limit")
            group.lift()
            self.assert_same_results(job.do("steps 5"))

    def test_the_flight_recorder(self) -> None:
        for room_mib in (1, 64):
            with self.subTest(room_mib=room_mib):
                code = self.check_survives(room_mib, "--flight-recorder", "1s")
                self.assertEqual(code, 6 if room_mib == 1 else 0)

    def test_the_flight_recorders_own_memory(self) -> None:
        with Job() as job, self.group() as group:
            group.limit.write_text(str(270 * MIB))
            prefix = ("sh", "-c", f'echo $$ > {group.folder}/cgroup.procs && exec "$@"', "sh")
            job.tell("loop")
            done = self.run_proftrace("-p", job.pid, "-d", "2s", "-o", self.out, "--format", "none", "--flight-recorder", "60s",
                                      "--flight-recorder-memory", "1G", prefix=prefix)
            job.finish_loop()
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(group.kills(), 0)
            dumps = list(self.out.rglob("summary.json"))
            self.assertTrue(dumps)
            gaps = {gap["feature"]: gap["reason"] for gap in json.loads(dumps[0].read_text())["unsupported"]}
            self.assertRegex(gaps["--flight-recorder-memory"], "has room for [0-9]+ MiB only, not 1024")

    def test_proftraces_own_limit(self) -> None:
        with Job() as job, self.group() as group:
            prefix = ("sh", "-c", f'echo $$ > {group.folder}/cgroup.procs && exec "$@"', "sh")
            arguments = ("-p", job.pid, "-d", "300ms", "-o", self.out.parent / "none", "--format", "none")
            for limit_mib in (40, 100):
                group.limit.write_text(str(limit_mib * MIB))
                self.assert_fails(6, arguments, "proftrace itself has", "start proftrace outside", prefix=prefix)
            self.assertEqual(live.changed_text_bytes(job.pid), 0)
            # The rings are made smaller.
            group.limit.write_text(str(215 * MIB))
            done = self.run_proftrace(*arguments, prefix=prefix)
            self.assertEqual(done.returncode, 0, done.stderr)
            gaps = live.Result(self.out.parent / "none").summary["unsupported"]
            self.assertIn("--buffer-size", [gap["feature"] for gap in gaps])
            self.assertEqual(group.kills(), 0)


if __name__ == "__main__":
    live.run(own_host=True)

#!/usr/bin/env python3
"""Where results go: directories that cannot be used, a full disk, owners, and replays."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path
from typing import Callable, Iterator

import live
from live import Job, LiveTest, Result, Tracer


@contextlib.contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


class DirectoryTest(LiveTest):
    def test_directories_that_cannot_be_used_are_7_before_anything_is_attached(self) -> None:
        (self.directory / "full").mkdir()
        (self.directory / "full" / "mine").write_text("keep")
        (self.directory / "file").write_text("keep")
        (self.directory / "empty").mkdir()
        (self.directory / "link").symlink_to(self.directory / "empty")
        (self.directory / "dangling").symlink_to(self.directory / "nowhere")
        with Job() as job:
            for name in ("full", "file", "link", "dangling", "missing/deeper", "/proc/proftrace"):
                with self.subTest(name=name):
                    self.assert_fails(7, ("-p", job.pid, "-d", "5s", "-o", self.directory / name), "-o")
            self.assertEqual((self.directory / "full" / "mine").read_text(), "keep")
            self.assertEqual((self.directory / "file").read_text(), "keep")

    def test_force_writes_beside_what_is_there(self) -> None:
        self.out.mkdir()
        (self.out / "mine").write_text("keep")
        with Job() as job:
            for _ in range(2):
                done = self.run_proftrace("-p", job.pid, "-d", "0.1s", "-o", self.out, "--force")
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.out / "mine").read_text(), "keep")
        self.assertEqual(self.run_proftrace("report", self.out).returncode, 0)

    def test_a_disk_that_can_only_be_read_is_7(self) -> None:
        with Job() as job, small_disk(self.directory / "disk", "1M") as disk:
            subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
            self.assert_fails(7, ("-p", job.pid, "-o", disk / "result"), "[Rr]ead-only")

    def test_a_full_disk_is_7_and_keeps_what_was_recorded(self) -> None:
        for size in ("4k", "64k", "256k", "2M"):
            with self.subTest(size=size), Job() as job, small_disk(self.directory / f"disk{size}", size) as disk:
                job.tell("loop")
                out = disk / "result"
                # It ends when the disk is full, however long that takes on a busy machine.
                with Tracer("-p", job.pid, "-d", "5m", "-o", out) as tracer:
                    code = tracer.wait()
                self.assertEqual(code, 7, tracer.text())
                said = [line for line in tracer.lines.seen if line]
                self.assertRegex(said[-1], "^proftrace: cannot write .*No space left on device")
                self.assertEqual(len([line for line in said if "cannot write" in line]), 1)
                answer = job.finish_loop()
                self.assert_same_results(answer)
                self.assertEqual(live.changed_text_bytes(job.pid), 0)
                self.assertEqual(job.end(), 0)
                if size in ("256k", "2M"):
                    done = self.run_proftrace("report", out)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    said = self.run_proftrace("export", out, "--format", "csv", "-o", self.directory / f"{size}.csv")
                    self.assertEqual(said.returncode, 0, said.stderr)
                # The schemas and the calls that tell what a hit costs come first and fill a small disk.
                if size == "2M":
                    self.assertIn("aten::linear", done.stdout)
                # No half-written output stays.
                self.assertEqual([name for name in os.listdir(out) if "tmp" in name] if out.exists() else [], [])

    def test_a_limit_of_a_files_size_ends_a_recording_as_a_full_disk_does(self) -> None:
        with Job() as job:
            job.tell("loop")
            with Tracer("-p", job.pid, "-d", "5m", "-o", self.out, "--format", "none", prefix=("prlimit", "--fsize=2000000")) as tracer:
                self.assertEqual(tracer.wait(), 7, tracer.text())
            self.assertRegex(tracer.text(), "cannot write .*File too large")
            self.assert_same_results(job.finish_loop())
        done = self.run_proftrace("report", self.out)
        self.assertIn("aten::linear", done.stdout)

    def record_while(self, change: Callable[[], object], *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A recording of 20 steps of the job; `change` is done to its directory meanwhile."""
        with Job() as job:
            command = [str(live.BINARY), *live.with_tier(("-p", job.pid, *(arguments or ("-o", self.out))))]
            tracer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd or self.directory)
            try:
                assert tracer.stderr is not None
                self.assertIn("recording PID", tracer.stderr.readline())
                job.do("steps 20")
                change()
                tracer.send_signal(signal.SIGINT)
                table, said = tracer.communicate(timeout=live.WORK_S)
            finally:
                tracer.kill()
                tracer.wait()
        self.assertEqual(tracer.returncode, 7, said)
        self.assertIn("aten::linear", table)
        return subprocess.CompletedProcess(command, tracer.returncode, table, said)

    def test_a_directory_that_is_removed_costs_no_table(self) -> None:
        gone = self.directory / "gone"
        gone.mkdir()
        for name, options, cwd in (
                ("removed", ("-o", self.out), None), ("without a table", ("-o", self.out, "--format", "csv"), None),
                ("of cycles", ("-o", self.out, "--schedule", "active=2"), None),
                ("of dumps", ("-o", self.out, "--flight-recorder", "1m"), None), ("where it was started", ("--format", "table"), gone)):
            with self.subTest(name=name):
                said = self.record_while(lambda: shutil.rmtree(cwd or self.out), *options, cwd=cwd).stderr.splitlines()
                self.assertRegex(said[-1], "^proftrace: the result directory .* was removed while recording")
                self.assertFalse([line for line in said if "cannot" in line or "results in" in line], said)
                self.assertFalse(self.out.exists())

    def test_a_full_disk_costs_no_table_of_the_last_dump(self) -> None:
        with small_disk(self.directory / "disk", "8M") as disk:

            def fill() -> None:
                with (disk / "filler").open("wb", buffering=0) as stream, contextlib.suppress(OSError):
                    while True:
                        stream.write(bytes(4096))

            said = self.record_while(fill, "-o", disk / "result", "--flight-recorder", "1m").stderr.splitlines()
            self.assertRegex(said[-1], "^proftrace: cannot write .*No space left on device")

    def test_a_directory_that_is_renamed_gets_its_files(self) -> None:
        for name, has_link in (("moved", False), ("victim", True)):
            with self.subTest(name=name):
                moved, target = self.directory / f"{name}-result", self.directory / f"{name}-target"

                def move() -> None:
                    self.out.rename(moved)
                    if has_link:
                        target.mkdir()
                        self.out.symlink_to(target)

                said = self.record_while(move).stderr.splitlines()
                self.assertRegex(said[-1], f"^proftrace: the result directory .* was renamed while recording; .*{moved}")
                self.assertTrue([line for line in said if f"results in {moved}:" in line], said)
                self.assert_identities(Result(moved).ledger)
                self.assertTrue({"key_averages.txt", "trace.json.gz", "capture.ptrec"} <= {path.name for path in moved.iterdir()})
                self.assertEqual(self.run_proftrace("report", moved).returncode, 0)
                if has_link:
                    self.assertEqual(list(target.iterdir()), [])
                    self.out.unlink()

    def test_cycles_go_where_their_directory_is(self) -> None:
        moved = self.directory / "moved"
        said = self.record_while(lambda: self.out.rename(moved), "-o", self.out, "--schedule", "active=4,repeat=100000").stderr.splitlines()
        self.assertRegex(said[-1], f"^proftrace: the result directory .* was renamed while recording; .*{moved}")
        self.assertIn("cycle_0", [path.name for path in moved.iterdir()])
        self.assertNotIn("capture.ptrec", [path.name for path in moved.iterdir()])
        self.assert_identities(Result(moved / "cycle_0").ledger)

    def test_a_capture_that_is_removed_costs_no_other_output(self) -> None:
        done = self.record_while(lambda: (self.out / "capture.ptrec").unlink())
        self.assertRegex(done.stderr.splitlines()[-1], "capture.ptrec was removed while recording")
        self.assert_identities(Result(self.out).ledger)
        self.assertFalse((self.out / "capture.ptrec").exists())

    def test_all_outputs_that_could_not_be_written_are_told_of(self) -> None:
        missing = ("trace.json.gz", "flamegraph.html")

        def take_names() -> None:
            for name in missing:
                (self.out / name).mkdir()

        said = self.record_while(take_names).stderr.splitlines()
        told = re.search(r"cannot write .*/trace.json.gz: Is a directory, nor flamegraph.html; the capture is whole: "
                         r"'proftrace (export .* --format chrome,flamegraph -o )ELSEWHERE' makes what is missing$", said[-1])
        self.assertIsNotNone(told, said)
        self.assertIn(f"proftrace: results in {self.out}: key_averages.txt key_averages.csv stacks_self_cpu.folded report.html summary.json capture.ptrec", said)
        elsewhere = self.directory / "elsewhere"
        elsewhere.mkdir()
        done = self.run_proftrace(*told[1].split(), elsewhere)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.name for path in elsewhere.iterdir()}, set(missing))

    def test_results_belong_to_the_user_who_called_sudo(self) -> None:
        environment = dict(os.environ, SUDO_UID=str(live.NOBODY), SUDO_GID=str(live.NOBODY))
        with Job() as job:
            done = self.run_proftrace("-p", job.pid, "-d", "0.1s", "-o", self.out, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in (self.out, *self.out.iterdir()):
            self.assertEqual((path.stat().st_uid, path.stat().st_gid), (live.NOBODY, live.NOBODY), path)


class ReplayTest(LiveTest):
    def test_replays_are_the_same_bytes_for_everyone(self) -> None:
        with Job() as job, Tracer("-p", job.pid, "-o", self.out, "--format", "table,csv,events-csv,chrome,folded") as tracer:
            tracer.wait_until_recording()
            job.do("steps 50")
            self.assertEqual(tracer.stop(), 0, tracer.text())
        capture = self.directory / "capture.ptrec"
        shutil.copy(self.out / "capture.ptrec", capture)
        capture.chmod(0o644)
        tables = []
        for prefix in ((), (), live.nobody()):
            place = self.directory / f"replay{len(tables)}"
            place.mkdir()
            place.chmod(0o1777)
            done = self.run_proftrace("report", capture, prefix=prefix)
            self.assertEqual(done.returncode, 0, done.stderr)
            tables.append(done.stdout)
            done = self.run_proftrace("export", capture, "--format", "csv,events-csv,chrome,folded,flamegraph", "-o", place,
                                      prefix=prefix)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(tables), {(self.out / "key_averages.txt").read_text(encoding="utf-8")})
        names = sorted(os.listdir(self.directory / "replay0"))
        self.assertEqual(len(names), 5)
        for name in names:
            contents = {(self.directory / f"replay{number}" / name).read_bytes() for number in range(3)}
            self.assertEqual(len(contents), 1, name)
            if (self.out / name).exists():
                self.assertEqual(contents, {(self.out / name).read_bytes()}, name)


class StartTest(LiveTest):
    def record_from(self, at: int, out: Path) -> Result:
        instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        with Job() as job:
            with Tracer("-p", job.pid, "-o", out, "--start-at", instant, "-d", "500ms", "--format", "events-csv") as tracer:
                job.tell("loop")
                self.assertEqual(tracer.wait(), 0, tracer.text())
                job.finish_loop()
        return Result(out)

    def test_the_window_begins_at_the_instant_that_was_asked_for(self) -> None:
        """Where a busy machine attaches too late, that is said, and it is tried again."""
        for attempt in range(3):
            at = int(time.time()) + 9  # a new library is analysed before
            result = self.record_from(at, self.directory / f"from{attempt}")
            late_ns = result.summary["window"]["start_unix_ns"] - at * 1_000_000_000
            is_told = "--start-at" in [gap["feature"] for gap in result.summary["unsupported"]]
            self.assertGreater(late_ns, -1_000_000)
            if late_ns < 1_000_000:
                break
            self.assertTrue(is_told, late_ns)
        self.assertLess(late_ns, 1_000_000)
        self.assertGreaterEqual(min(int(row["start_ns"]) for row in result.events()), result.summary["window"]["start_unix_ns"])
        self.assertGreater(result.ledger["outside_window"], 0)

    def test_a_window_that_begins_late_says_so(self) -> None:
        with Job() as job, Tracer("-p", job.pid, "-o", self.out, "--start-at", "+1ms", "-d", "100ms", "--format", "none") as tracer:
            self.assertEqual(tracer.wait(), 0, tracer.text())
        self.assertIn("--start-at", [gap["feature"] for gap in Result(self.out).summary["unsupported"]])

    def test_an_instant_that_is_over_or_none_is_2(self) -> None:
        self.assert_fails(2, ("-p", 1, "--start-at", "2020-01-01T00:00:00Z"), "over already")
        self.assert_fails(2, ("-p", 1, "--start-at", "soon"), "not an instant")


if __name__ == "__main__":
    live.run()

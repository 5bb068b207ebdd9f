#!/usr/bin/env python3
"""Results as one tar archive: in a file, and on standard output (record -o FILE.tar, -o -)."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import tarfile
from pathlib import Path

import live
from live import Job, LiveTest
from outputs_test import small_disk

WAY = ("--activities", "sched", "--format", "table,events-csv", "-d", "300ms")


class ResultArchiveTest(LiveTest):
    def record(self, *arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
        """Records with standard output as bytes, or where `stdout` says."""
        options.setdefault("stdout", subprocess.PIPE)
        return subprocess.run([str(live.BINARY), *map(str, arguments)], stderr=subprocess.PIPE, timeout=120, check=False,  # type: ignore[call-overload,no-any-return]
                              **options)

    def kept_in(self, said: str) -> Path:
        """The directory that a message about an archive names."""
        found = re.search(r"everything that was written is in (\S+): give that directory to 'proftrace export' instead of the archive$", said)
        self.assertIsNotNone(found, said)
        return Path(found.group(1))

    def check_archive(self, path: Path, top: str) -> None:
        """All files of a result are in it, and it says what they say."""
        with tarfile.open(path) as archive:
            names = archive.getnames()
            self.assertEqual({(entry.uid, entry.gid) for entry in archive}, {(0, 0)})
            archive.extractall(self.directory / "unpacked")
        self.assertEqual(names[0], f"{top}/capture.ptrec")  # of an archive that was cut it is there
        self.assertEqual(sorted(names), sorted(f"{top}/{name}" for name in ("capture.ptrec", "key_averages.txt", "events.csv", "summary.json")))
        folder = self.directory / "unpacked" / top
        for command in (("report",), ("export", "--format", "events-csv", "-o", "-")):
            done = [self.run_proftrace(command[0], source, *command[1:]) for source in (folder, path)]
            self.assertEqual([one.returncode for one in done], [0, 0], done[1].stderr)
            self.assertEqual(done[0].stdout, done[1].stdout)
        self.assertEqual(done[1].stdout, (folder / "events.csv").read_text())

    def test_a_file(self) -> None:
        path = self.directory / "r.tar"
        with Job() as job:
            done = self.record("-p", job.pid, *WAY, "-o", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"results in {path}: key_averages.txt", done.stderr.decode())
            self.assertIn(b"Blocked", done.stdout)
            self.check_archive(path, "r")
            self.assertEqual(list(self.directory.glob("r.tar.*")), [])
            before = path.read_bytes()
            self.assert_fails(7, ("-p", job.pid, *WAY, "-o", path), "--force")
            self.assertEqual(path.read_bytes(), before)
            self.assertEqual(self.record("-p", job.pid, *WAY, "-o", path, "--force").returncode, 0)
            self.assertNotEqual(path.read_bytes(), before)

    def test_standard_output(self) -> None:
        places = self.directory / "tmp"
        places.mkdir()
        path = self.directory / "stream.tar"
        with Job() as job, path.open("wb") as stream:
            done = self.record("-p", job.pid, *WAY, "-o", "-", stdout=stream, env=dict(os.environ, TMPDIR=str(places)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(b"Blocked", done.stderr)  # the table
        with tarfile.open(path) as archive:
            top = archive.getnames()[0].split("/")[0]
        self.assertRegex(top, r"^proftrace-.*-\d+-\d{8}T\d{6}Z$")
        self.check_archive(path, top)
        self.assertEqual(list(places.iterdir()), [])
        self.assertFalse(Path("-").exists())

    def test_what_a_command_prints_is_not_in_the_archive(self) -> None:
        done = self.record(*WAY, "-o", "-", "--", "/bin/sh", "-c", "echo words of a command")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(b"words of a command\n", done.stdout[:100_000])
        self.assertIn(b"words of a command\n", done.stderr)
        path = self.directory / "c.tar"
        path.write_bytes(done.stdout)
        self.assertEqual(self.run_proftrace("report", path).returncode, 0)

    def test_a_reader_that_goes_away_is_7_and_the_result_is_kept(self) -> None:
        ends = os.pipe()
        os.close(ends[0])
        with Job() as job:
            done = self.record("-p", job.pid, *WAY, "-o", "-", stdout=ends[1], env=dict(os.environ, TMPDIR=str(self.directory)))
        os.close(ends[1])
        self.assertEqual(done.returncode, 7, done.stderr)
        said = done.stderr.decode().strip().splitlines()[-1]
        self.assertIn("closed pipe", said)
        kept = self.kept_in(said)
        self.assertEqual(kept.parent, self.directory)
        self.assertEqual(self.run_proftrace("report", kept).returncode, 0)

    def test_a_full_disk_is_7_and_the_result_is_kept(self) -> None:
        with Job() as job, Path("/dev/full").open("wb") as full:
            done = self.record("-p", job.pid, *WAY, "-o", "-", stdout=full, env=dict(os.environ, TMPDIR=str(self.directory)))
            self.assertEqual(done.returncode, 7, done.stderr)
            said = done.stderr.decode().strip().splitlines()[-1]
            self.assertIn("No space left", said)
            self.assertEqual(self.run_proftrace("report", self.kept_in(said)).returncode, 0)
            # Room for the result, and not for a second time the same.
            with small_disk(self.directory / "disk", "1M") as disk:
                self.assertEqual(self.record("-p", job.pid, *WAY, "-o", self.directory / "r.tar").returncode, 0)
                (disk / "filler").write_bytes(bytes((1 << 20) - int(1.5 * (self.directory / "r.tar").stat().st_size)))
                done = self.record("-p", job.pid, *WAY, "-o", disk / "r.tar")
                self.assertEqual(done.returncode, 7, done.stderr)
                self.assertFalse((disk / "r.tar").exists())
                self.assertIn(f"is in {disk}/r.tar.partial: give that directory to 'proftrace export' instead of {disk}/r.tar", done.stderr.decode())
                self.assertEqual(self.run_proftrace("report", disk / "r.tar.partial").returncode, 0)

    def test_a_terminal_and_a_closed_output_are_refused(self) -> None:
        main, terminal = pty.openpty()
        with Job() as job:
            done = self.record("-p", job.pid, *WAY, "-o", "-", stdout=terminal)
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"terminal", done.stderr)
            closed = subprocess.run(["sh", "-c", f"exec '{live.BINARY}' -p {job.pid} -d 100ms -o - >&-"], capture_output=True, text=True, check=False)
            self.assertEqual(closed.returncode, 7, closed.stderr)
            self.assertIn("closed", closed.stderr)
        os.close(main)
        os.close(terminal)

    def test_archives_that_are_cut_or_of_something_else(self) -> None:
        path = self.directory / "r.tar"
        with Job() as job:
            job.tell("loop")
            done = self.record("-p", job.pid, "-d", "500ms", "--format", "csv", "-o", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            job.finish_loop()
        with tarfile.open(path) as archive:
            capture = archive.getmembers()[0]
        cut = self.directory / "cut.tar"
        cut.write_bytes(path.read_bytes()[:capture.offset_data + capture.size - 100])
        self.assert_fails(8, ("report", cut), "--salvage")
        whole = self.run_proftrace("report", cut, "--salvage")
        self.assertIn("what is whole was shown", whole.stderr)
        bare = self.directory / "cut.ptrec"
        bare.write_bytes(cut.read_bytes()[capture.offset_data:])
        self.assertEqual(whole.stdout, self.run_proftrace("report", bare, "--salvage").stdout)
        other = self.directory / "other.tar"
        for content, words in (((), "without a capture"), (("a", "b"), "2 captures")):
            with tarfile.open(other, "w") as archive:
                archive.add(__file__, "x/test.py")
                for folder in content:
                    archive.add(cut, f"x/{folder}/capture.ptrec")
            self.assert_fails(8, ("report", other), words)

    def test_the_archive_of_another_tar_is_read(self) -> None:
        out = self.directory / "result"
        with Job() as job:
            self.assertEqual(self.record("-p", job.pid, *WAY, "-o", out).returncode, 0)
        path = self.directory / "own.tar"
        for form in ("gnu", "ustar", "posix"):
            subprocess.run(["tar", f"--format={form}", "-cf", path, "-C", self.directory, "result"], check=True)
            done = self.run_proftrace("report", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, self.run_proftrace("report", out).stdout)
        done = self.run_proftrace("merge", path, "-o", self.directory / "merged.json")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    live.run()

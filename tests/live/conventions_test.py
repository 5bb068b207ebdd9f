#!/usr/bin/env python3
"""Files of defaults, and the pager of a terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import pwd
import re
import shutil
import subprocess
import unittest
from pathlib import Path

import live
from live import Job, LiveTest

SITE = """[record]
# of this site
duration = 300ms
format = none
quiet = true
"""


class DefaultsTest(LiveTest):
    def in_site(self, text: str, *command: str, mode: int = 0o644, owner: int = 0,
                variables: "dict[str, str] | None" = None) -> "subprocess.CompletedProcess[str]":
        """Runs it where /etc has no more than the host's users and that file."""
        etc = Path(self.directory) / "etc"
        shutil.rmtree(etc, ignore_errors=True)
        (etc / "proftrace").mkdir(parents=True)
        for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(f"/etc/{name}", etc / name)
        config = etc / "proftrace" / "config"
        config.write_text(text)
        config.chmod(mode)
        os.chown(config, owner, -1)
        return subprocess.run([*live.OWN_MOUNTS, "sh", "-c", f'mount --bind {etc} /etc && exec "$0" "$@"', *command], capture_output=True, text=True,
                              timeout=live.WORK_S, env={**os.environ, **(variables or {})})

    def test_a_sites_defaults_hold_until_others_are_typed(self) -> None:
        with Job() as job:
            command = [str(live.BINARY), "-p", str(job.pid), "-o", f"{self.directory}/result", "--tier", "bpf"]
            done = self.in_site(SITE, *command)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(sorted(os.listdir(f"{self.directory}/result")), ["capture.ptrec", "summary.json"])
            self.assertIn("--duration=300ms", Path(f"{self.directory}/result/summary.json").read_text())
            shutil.rmtree(f"{self.directory}/result")
            done = self.in_site(SITE, *command, "--format", "csv", "-d", "0.2s")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("key_averages.csv", os.listdir(f"{self.directory}/result"))

    def test_files_that_are_wrong_or_not_roots_are_refused(self) -> None:
        command = [str(live.BINARY), "record", "-p", "1"]
        for text, options, says in (("[record]\nno-such = 1\n", {}, "config, line 2: .*no-such"), ("duration = 1\n", {}, "line 1: a section"),
                                    ("[record]\npid = 1\n", {}, "has no default"), (SITE, {"mode": 0o666}, "can be written by others"),
                                    (SITE, {"owner": live.NOBODY}, f"belongs to user {live.NOBODY}"),
                                    ("[record]\nduration = soon\n", {}, "'soon' is not a duration.*--no-config"), ("x" * 70000, {}, "longer than 64 KiB")):
            with self.subTest(says):
                done = self.in_site(text, *command, **options)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
                self.assertRegex(done.stderr, says)
        done = self.in_site("wrong", str(live.BINARY), "list", "--no-config")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_users_file_is_the_users_alone(self) -> None:
        folder = Path(self.directory) / "mine" / "proftrace"
        folder.mkdir(parents=True)
        Path(self.directory).chmod(0o755)
        (folder / "config").write_text("[report]\nno-such = 1\n")
        variables = {"XDG_CONFIG_HOME": str(folder.parent)}
        command = [str(live.BINARY), "report", "/nowhere"]
        # Root reads no file of a user, nor one that its environment names.
        done = self.in_site("", *command, variables=variables)
        self.assertNotIn("no-such", done.stderr)
        for path in (folder.parent, folder, folder / "config"):
            os.chown(path, live.NOBODY, -1)
        done = self.in_site("[report]\nrow-limit = 3\n", *live.nobody(), *command, variables=variables)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("config, line 2: ", done.stderr)


class ListTest(LiveTest):
    def test_who_runs_a_job_and_what_it_has(self) -> None:
        with Job() as job:
            done = subprocess.run([str(live.BINARY), "list", "--json"], capture_output=True, text=True, check=True)
            row = next(row for row in json.loads(done.stdout) if row["pid"] == job.pid)
            self.assertEqual((row["uid"], row["user"], row["gpus"]), (os.getuid(), pwd.getpwuid(os.getuid()).pw_name, []))
            text = subprocess.run([str(live.BINARY), "list"], capture_output=True, text=True, check=True).stdout
            head, line = text.splitlines()[0].split(), next(line.split() for line in text.splitlines() if line.split()[0] == str(job.pid))
            self.assertEqual(head[:6], ["PID", "NAME", "USER", "RANK", "GPU", "CONTAINER"])
            self.assertEqual(line[2:6], [row["user"], "-", "-", row["container"] or "-"])


class PagerTest(LiveTest):
    def on_terminal(self, *command: str, **variables: str) -> tuple[int, str]:
        """Its exit code, and all that the terminal got."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update({"TERM": "xterm", **variables})
            os.execv(command[0], command)
        text = b""
        with contextlib.suppress(OSError), open(terminal, "rb", buffering=0) as stream:
            while part := stream.read(65536):
                text += part
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode()

    def test_the_table_goes_through_the_pager_of_a_terminal(self) -> None:
        capture = next(iter(sorted(live.HERE.parent.glob("golden/**/*.ptrec"))))
        report = (str(live.BINARY), "report", str(capture))
        plain = subprocess.run(report, capture_output=True, text=True)
        self.assertEqual(plain.returncode, 0, plain.stderr)
        code, paged = self.on_terminal(*report, PROFTRACE_PAGER="sed s/^/P/", PAGER="false")
        self.assertEqual((code, paged.replace("\r\n", "\n")), (0, re.sub(r"(?m)^(?=.|\n)", "P", plain.stdout)))
        for none in ("cat", ""):
            self.assertEqual(self.on_terminal(*report, PAGER=none)[1].replace("\r\n", "\n"), plain.stdout)
        # Who leaves it early has seen enough; a pager that is not there is no reason to fail.
        self.assertEqual(self.on_terminal(*report, PAGER="true")[0], 0)
        self.assertEqual(self.on_terminal(*report, "--json", PAGER="false")[0], 0)
        self.assertEqual(subprocess.run(report, capture_output=True, text=True, env={**os.environ, "PAGER": "false"}).stdout, plain.stdout)


if __name__ == "__main__":
    live.run()

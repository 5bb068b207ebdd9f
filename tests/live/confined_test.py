#!/usr/bin/env python3
"""What reads a recording has no rights: the processes of `report`, `export` and a recording's end, and what they make."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import live

CAPTURE = Path(__file__).parent.parent / "golden" / "mlp" / "capture.ptrec"
DAC_OVERRIDE, CHOWN = 1 << 1, 1 << 0
NOBODY = 65534


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class ConfinedTest(live.LiveTest):
    def start_export(self, environment: dict[str, str] | None = None) -> tuple[subprocess.Popen[str], int]:
        """One that waits for who reads what it writes, and its process that does so."""
        os.mkfifo(self.out)
        variables = {name: value for name, value in os.environ.items() if not name.startswith("SUDO_")}
        export = subprocess.Popen([live.BINARY, "export", CAPTURE, "--format", "chrome", "-o", self.out], text=True,
                                  stderr=subprocess.PIPE, env={**variables, **(environment or {})})
        self.addCleanup(export.stderr.close)
        self.addCleanup(export.kill)
        live.wait_until(lambda: bool(children_of(export.pid)), 10, "a process that exports")
        (child,) = children_of(export.pid)
        live.wait_until(lambda: status_of(child)["State"].startswith("S"), 10, "the open of the pipe")
        live.wait_until(lambda: status_of(child)["Seccomp"] == "2", 10, "the filter")
        return export, child

    def test_it_has_no_rights(self) -> None:
        export, child = self.start_export()
        status = status_of(child)
        for sets in ("CapPrm", "CapEff", "CapBnd"):
            self.assertEqual(int(status[sets], 16), DAC_OVERRIDE, sets)
        self.assertEqual(int(status["CapInh"], 16) | int(status["CapAmb"], 16), 0)
        self.assertEqual(status["NoNewPrivs"], "1")
        self.assertEqual(status["Seccomp"], "2")
        self.assertTrue(self.out.read_bytes().startswith(b"{"))
        self.assertEqual(export.wait(20), 0, export.stderr.read())

    def test_under_sudo_it_may_give_files_away(self) -> None:
        export, child = self.start_export({"SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)})
        self.assertEqual(int(status_of(child)["CapEff"], 16), DAC_OVERRIDE | CHOWN)
        self.out.read_bytes()
        self.assertEqual(export.wait(20), 0, export.stderr.read())

    def test_its_end_is_a_sentence(self) -> None:
        export, child = self.start_export()
        os.kill(child, signal.SIGSEGV)
        self.assertEqual(export.wait(20), 70)
        self.assert_one_sentence(export.stderr.read(), "the process that reads the recording", "Segmentation fault")

    def test_it_ends_with_its_parent(self) -> None:
        export, child = self.start_export()
        export.kill()
        export.wait()
        live.wait_until(lambda: not Path(f"/proc/{child}").exists() or status_of(child)["State"].startswith("Z"), 10,
                        "its end")

    def test_a_link_leads_nowhere_else(self) -> None:
        with tempfile.TemporaryDirectory() as other:
            secret = Path(other) / "secret"
            secret.write_text("text")
            self.out.mkdir()
            os.symlink(secret, self.out / "trace.json.gz")
            done = self.run_proftrace("export", CAPTURE, "--format", "chrome", "-o", self.out)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(secret.read_text(), "text")

    def test_all_formats_of_a_recording_are_written(self) -> None:
        """Also large ones, for which SQLite needs room of its own."""
        with live.Job() as job:
            tracer = live.Tracer("-p", job.pid, "-o", self.out, "--all", "--format",
                                 "table,csv,chrome,folded,flamegraph,speedscope,perfetto,events-csv,pprof,sqlite")
            with tracer:
                tracer.wait_until_recording()
                job.tell("loop")
                time.sleep(2)
                job.finish_loop()
                self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertTrue((self.out / "profile.sqlite").stat().st_size > 10_000)


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""What reads a recording has no rights: the processes of `report`, `export` and a recording's end, and what they make."""

from __future__ import annotations

import contextlib
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

    def workers_of(self, pid: int, title: str = "proftrace") -> list[int]:
        """Children of any of its threads that have no rights. Those that last as long as the recording have a title of their own."""
        found = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):  # it has ended
                for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                    status = status_of(int(child))
                    if status.get("Seccomp") == "2" and status["Name"] == title:
                        found.append(int(child))
        return sorted(found)

    def the_worker_of(self, pid: int, title: str) -> int:
        live.wait_until(lambda: len(self.workers_of(pid, title)) == 1, live.READY_S, title)
        (worker,) = self.workers_of(pid, title)
        self.assert_no_rights(worker)
        return worker

    def assert_no_rights(self, worker: int) -> None:
        os.kill(worker, signal.SIGSTOP)
        status = status_of(worker)
        for sets in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"):
            self.assertEqual(int(status[sets], 16), 0, sets)
        self.assertEqual(status["NoNewPrivs"], "1")
        links = [os.readlink(f"/proc/{worker}/fd/{fd}") for fd in os.listdir(f"/proc/{worker}/fd")]
        self.assertFalse([link for link in links if "bpf" in link or "/var/" in link], links)
        os.kill(worker, signal.SIGCONT)

    def start_reading(self, pid: int, workers: int) -> tuple[subprocess.Popen[str], list[int]]:
        """A recording whose so many workers read the job: the first one the process, the second one of its files."""
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        tracer = subprocess.Popen([live.BINARY, "-q", "-p", str(pid), "-d", "1s", "-o", self.out], text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  env={**os.environ, "PROFTRACE_CACHE_DIR": cache.name, "PROFTRACE_TEST_SWITCHES": "no-known-plans"})
        self.addCleanup(tracer.stderr.close)
        self.addCleanup(tracer.kill)

        def lasting() -> list[int]:
            """Those of small libraries are done at once."""
            before = self.workers_of(tracer.pid)
            time.sleep(0.2)
            return before if before == self.workers_of(tracer.pid) else []

        end = time.monotonic() + 30
        while time.monotonic() < end:
            chosen = lasting()
            if len(chosen) >= workers:
                return tracer, chosen
        self.fail("no workers that last")

    def test_what_reads_the_job_has_no_right_at_all(self) -> None:
        with live.Job() as job:
            tracer, workers = self.start_reading(job.pid, 2)
            for worker in workers:
                self.assert_no_rights(worker)
            self.assertEqual(tracer.wait(60), 0, tracer.stderr.read())

    def test_a_crash_of_what_reads_the_job_is_a_sentence(self) -> None:
        with live.Job() as job:
            tracer, workers = self.start_reading(job.pid, 1)
            os.kill(workers[0], signal.SIGSEGV)
            self.assertEqual(tracer.wait(60), 70)
            self.assert_one_sentence(tracer.stderr.read(), f"the process that reads PID {job.pid}", "Segmentation fault")

    def test_a_crash_of_what_reads_a_library_names_it(self) -> None:
        with live.Job() as job:
            tracer, workers = self.start_reading(job.pid, 2)
            os.kill(workers[1], signal.SIGSEGV)
            code = tracer.wait(60)
            told = tracer.stderr.read() + "".join(file.read_text() for file in self.out.glob("summary.json"))
            self.assertIn(code, (0, 5), told)
            self.assertRegex(told, r"\.so[^:]*: the process that analyses it ended by Segmentation fault")

    def test_a_crash_of_what_names_samples_is_told(self) -> None:
        with live.Job() as job:
            tracer = live.Tracer("-p", job.pid, "-o", self.out, "--sample", "99", "--format", "none")
            with tracer:
                tracer.wait_until_recording()
                job.tell("loop")
                worker = self.the_worker_of(tracer.process.pid, "proftrace-stack")
                time.sleep(0.5)
                os.kill(worker, signal.SIGSEGV)
                time.sleep(0.5)
                job.finish_loop()
                self.assertEqual(tracer.stop(), 0, tracer.text())
        shown = self.run_proftrace("report", self.out)
        self.assertRegex(shown.stdout, "the process that finds the names of samples ended by Segmentation fault")

    def test_a_crash_of_what_reads_names_is_told(self) -> None:
        """Names of nodes and operators, and modules in their models: another worker goes on."""
        for tier in ("bpf", "patch"):
            with self.subTest(tier=tier), live.Job() as job:
                out = self.directory / tier
                with live.Tracer("-p", job.pid, "-o", out, "--with-stack", "--tier", tier, "--format", "events-csv") as tracer:
                    tracer.wait_until_recording()
                    for title in ("proftrace-names", "proftrace-model"):
                        os.kill(self.the_worker_of(tracer.process.pid, title), signal.SIGSEGV)
                    self.assert_same_results(job.do("steps 3"))
                    self.assertEqual(tracer.stop(), 0, tracer.text())
                result = live.Result(out)
                gaps = {gap["feature"]: gap["reason"] for gap in result.summary["unsupported"]}
                self.assertRegex(gaps["names of autograd nodes and operators"],
                                 "the process that reads names of recorded processes ended by Segmentation fault")
                self.assertRegex(gaps["modules from some moment on"], "the process that finds modules in their models ended by")
                self.assertEqual(result.summary["ledger"]["read_failed"], 0)
                self.assertGreater(result.names[job.pid]["AddmmBackward0"], 0, result.names[job.pid])

    def test_closed_standard_streams_are_no_files(self) -> None:
        done = subprocess.run(["sh", "-c", '"$0" report "$1" <&- >&- 2>&-; echo $?', live.BINARY, CAPTURE],
                              capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.stdout.strip(), "7")

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
                                 "table,csv,chrome,folded,flamegraph,report,speedscope,perfetto,events-csv,pprof,sqlite,parquet,parquet-events")
            with tracer:
                tracer.wait_until_recording()
                job.tell("loop")
                time.sleep(2)
                job.finish_loop()
                self.assertEqual(tracer.stop(), 0, tracer.text())
        self.assertTrue((self.out / "profile.sqlite").stat().st_size > 10_000)
        for table in ("captures", "events"):
            self.assertEqual((self.out / "parquet" / f"{table}.parquet").read_bytes()[-4:], b"PAR1")


if __name__ == "__main__":
    live.run()

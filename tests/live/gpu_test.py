#!/usr/bin/env python3
"""--gpu agent: CUPTI's activity from jobs that were not prepared, with stand-ins for CUDA and CUPTI."""

from __future__ import annotations

import collections
import contextlib
import json
import os
import signal
import time
import unittest
from pathlib import Path
from unittest import mock

import cuda_job_facts as facts
import live
from live import Job, LiveTest, Result, Tracer

SUPPORT = live.BINARY.parents[1] / "tests/support"
RUNTIME = Path(os.environ.get("PROFTRACE_CUDA_DOUBLE", SUPPORT / "cuda_double")) / "libcudart.so.12"
# A torch with CUDA maps its own CUPTI: the stand-in for that version is there before it.
OF_TORCH = live.cuda_of_torch()
CUDA = OF_TORCH or "12"
CUPTI = live.cupti_double(CUDA)
DOUBLES = {"CUPTI_DOUBLE": "", **({"LD_PRELOAD": str(CUPTI), "CUDA_DOUBLE_VERSION": f"{CUDA}000"} if OF_TORCH else {})}
# A job's rounds a thread take about 2.5 ms each.
LONG, ENDLESS = 300, 20000
CYCLES = 6
ABANDONED_S = 12.0  # after so long an agent whose loader was killed has ended
DEVICE_ROWS = {"kernel": 2, "gpu_memcpy": 1, "gpu_memset": 1}  # a round: cudaLaunchKernel, cuLaunchKernel


def threads(pid: int) -> list[str]:
    names = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            names.append((task / "comm").read_text().strip())
    return sorted(names)


def memories(pid: int) -> list[str]:
    links = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            links.append(os.readlink(fd))
    return [link for link in links if link.startswith("/memfd:proftrace")]


class GpuTest(LiveTest):
    def gpu_job(self, cupti: bool = True, **environment: str) -> Job:
        job = Job(script=live.HERE / "cuda_job.py", environment={**DOUBLES, **environment})
        if cupti:
            job.do(f"cupti {CUPTI}")
        job.do(f"load {RUNTIME}")
        job.do("cuda 1")
        return job

    def trace(self, job: Job, *options: str, seconds: float = 0.7, rounds: int = 0, code: int = 0) -> tuple[Result, str]:
        """Records a job that is busy: for a time, or until it has done so many rounds more than it was told to before, which a
        busy machine may have let it do before anything was recorded."""
        with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,chrome", *options) as tracer:
            tracer.wait_until_recording()
            if rounds:
                job.tell(f"cuda {rounds}")
                self.assertEqual([job.answer()["failures"] for _ in range(2)], ["0", "0"])
            else:
                time.sleep(seconds)
            self.assertEqual(tracer.stop(), code, tracer.text())
            text = tracer.text()
        return Result(self.out), text

    def next_out(self) -> None:
        self.directory /= "next"
        self.directory.mkdir()

    def check_rows(self, result: Result, rounds: int = 20) -> None:
        self.assertEqual(result.summary["proftrace"]["gpu"], "agent", self.reasons(result))
        rows = list(result.events())
        kinds = collections.Counter(row["category"] for row in rows)
        self.assertGreater(kinds["kernel"], 2 * rounds)
        calls = collections.defaultdict(list)
        for row in rows:
            if row["category"] in ("cuda_runtime", "cuda_driver"):
                calls[row["correlation_id"]].append(row)
        self.assertEqual({len(same) for key, same in calls.items() if key}, {1})
        ids = {row["id"]: row for row in rows}
        names = collections.Counter()
        for row in rows:
            if row["category"] not in DEVICE_ROWS or row["correlation_id"] not in calls:
                continue
            call = calls[row["correlation_id"]][0]
            self.assertLessEqual(int(call["start_ns"]), int(row["start_ns"]))
            above = ids.get(call["parent_id"], {"name": ""})["name"]
            names[row["category"], call["name"], above] += 1
        # Annotations that had begun before the recording are no rows.
        at_the_edge = [key for key in names if key[2] == "" and key[0] != "gpu_memset" and names[key] <= 2]
        self.assertEqual(set(names) - set(at_the_edge), {("kernel", "cudaLaunchKernel", "launch"), ("kernel", "cuLaunchKernel", "driver"),
                                      ("gpu_memcpy", "cudaMemcpyAsync", "copy"), ("gpu_memset", "cudaMemsetAsync", "")})
        copies = [row for row in rows if row["category"] == "gpu_memcpy"]
        self.assertEqual({json.loads(row["args"])["bytes"] for row in copies}, {facts.COPIED})
        ledger = result.summary["gpu"]["ledger"]
        self.assertEqual(ledger["records"], ledger["merged"] + ledger["unlinked"] + ledger["outside_window"] + ledger["unfinished"] +
                         ledger["unknown"] + ledger["malformed"])
        self.assertEqual((ledger["malformed"], ledger["unknown"], ledger["ring_dropped"]), (0, 0, 0))

    def assert_agent_ended(self, job: Job, timeout_s: float = 2.0) -> None:
        live.wait_until(lambda: "proftrace-gpu" not in threads(job.pid), timeout_s, "the agent's thread ends")

    def reasons(self, result: Result) -> str:
        return " ".join(gap["reason"] for gap in result.summary["unsupported"] if gap["feature"] == "GPU activity by CUPTI")

    def test_kernels_of_a_running_job(self) -> None:
        with self.gpu_job() as job:
            job.tell(f"cuda {LONG}")
            result, _ = self.trace(job, "--gpu", "agent", rounds=50)
            self.check_rows(result)
            self.assertEqual(memories(job.pid), [])
            self.assert_agent_ended(job)

    def test_waits_beside_all_probes(self) -> None:
        """An idle job: the jump at its safe point is there while probes come and go, those that measure what one costs among them."""
        with self.gpu_job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,chrome", "--gpu", "agent", "--all") as tracer:
                tracer.wait_until_recording()
                for _ in range(2):
                    job.do("cuda 30")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.check_rows(Result(self.out), rounds=10)
            job.do("cuda 10")

    def test_again_and_again(self) -> None:
        with self.gpu_job() as job:
            job.tell(f"cuda {ENDLESS}")
            mapped = None
            for cycle in range(CYCLES):
                result, _ = self.trace(job, seconds=0.3)
                self.check_rows(result, rounds=3)
                self.next_out()
                self.assertEqual(memories(job.pid), [])
                maps = Path(f"/proc/{job.pid}/maps").read_text()
                # One copy of the agent stays, idle.
                code = [line for line in maps.splitlines() if "memfd:proftrace_agent" in line and " r-xp " in line]
                self.assertEqual(len(code), 1)
                mapped = mapped or code
                self.assertEqual([line.split()[0] for line in code], [line.split()[0] for line in mapped])
            self.assert_agent_ended(job)

    def test_tracer_is_killed(self) -> None:
        with self.gpu_job() as job:
            job.tell(f"cuda {ENDLESS}")
            with Tracer("-p", job.pid, "-o", self.out, "--gpu", "agent") as tracer:
                tracer.wait_until_recording()
                time.sleep(0.3)
                tracer.stop(signal.SIGKILL)
            self.assertIn("proftrace-gpu", threads(job.pid))
            self.next_out()
            result, _ = self.trace(job, "--gpu", "agent")
            self.assertEqual(result.summary["proftrace"]["gpu"], "launch")
            self.assertIn("an agent runs in it already", self.reasons(result))
            self.assert_agent_ended(job, ABANDONED_S)
            self.next_out()
            result, _ = self.trace(job, "--gpu", "agent")
            self.check_rows(result)

    def other_build(self) -> Path:
        """The program with an agent of another build id in it."""
        folder = self.directory / "other"
        folder.mkdir()
        program = live.BINARY.read_bytes()
        agent = program.index((live.BINARY.parent / "libproftrace_agent.so").read_bytes())
        at = program.index(b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", agent) + 16
        other = folder / live.BINARY.name
        other.write_bytes(program[:at] + bytes(byte ^ 0xff for byte in program[at:at + 20]) + program[at + 20:])
        other.chmod(0o755)
        return other

    def test_another_build_keeps_away(self) -> None:
        with self.gpu_job() as job:
            job.tell(f"cuda {ENDLESS}")
            first = self.out
            with Tracer("-p", job.pid, "-o", first, "--format", "events-csv,chrome", "--gpu", "agent") as tracer:
                tracer.wait_until_recording()
                self.next_out()
                with mock.patch.object(live, "BINARY", self.other_build()):
                    result, _ = self.trace(job, "--gpu", "agent")
                self.assertEqual(result.summary["proftrace"]["gpu"], "launch")
                self.assertIn("an agent runs in it already", self.reasons(result))
                self.assertEqual(tracer.stop(), 0, tracer.text())
            result = Result(first)
            self.check_rows(result)
            self.assertEqual([agent["failure"] for agent in result.summary["gpu"]["agents"]], [None])

    def test_what_was_before_the_window_is_no_loss(self) -> None:
        """The agent records for six seconds before the probes are attached: three times what its ring holds."""
        with self.gpu_job() as job:
            instant = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(time.time()) + 11))
            job.tell("burst 13")
            with Tracer("-p", job.pid, "-o", self.out, "--start-at", instant, "-d", "300ms", "--format", "events-csv", "--gpu", "agent") as tracer:
                self.assertEqual(tracer.wait(), 0, tracer.text())
            self.assertGreater(int(job.answer()["launches"]), 150_000)
            result = Result(self.out)
            self.assertGreater(sum(row["category"] == "kernel" for row in result.events()), 100)
            ledger, agent = result.summary["gpu"]["ledger"], result.summary["gpu"]["agents"][0]
            self.assertEqual((ledger["ring_dropped"], ledger["missing"], ledger["unnamed"]), (0, 0, 0))
            self.assertEqual(agent["cupti_records"], agent["ring_records"] + agent["ring_dropped"] + agent["unread_records"])

    def test_cupti_is_taken(self) -> None:
        # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
        with self.gpu_job(CUPTI_DOUBLE="subscribe_result=39") as job:
            job.tell(f"cuda {LONG}")
            result, _ = self.trace(job, rounds=50)
            self.assertEqual(result.summary["proftrace"]["gpu"], "launch")
            self.assertRegex(self.reasons(result), "another|taken|subscri")
            self.assertGreater(sum(row["name"] == "cudaLaunchKernel" for row in result.events()), 10)

    @unittest.skipIf(OF_TORCH, "this torch brings CUPTI")
    def test_no_cupti(self) -> None:
        with self.gpu_job(cupti=False) as job:
            job.tell(f"cuda {LONG}")
            result, _ = self.trace(job)
            self.assertEqual(result.summary["proftrace"]["gpu"], "launch")
            self.assertIn("no libcupti", self.reasons(result))

    def test_injection_is_forbidden(self) -> None:
        with self.gpu_job() as job:
            job.tell(f"cuda {LONG}")
            result, _ = self.trace(job, "--no-inject")
            self.assertEqual((result.summary["proftrace"]["gpu"], self.reasons(result)), ("launch", ""))
            self.assertNotIn("memfd:proftrace", Path(f"/proc/{job.pid}/maps").read_text())

    def test_a_job_without_cuda(self) -> None:
        with Job(script=live.HERE / "cuda_job.py") as job:
            job.tell("steps 300")
            result, _ = self.trace(job, "--gpu", "agent", seconds=0.2)
            self.assertIn("has not loaded the CUDA driver", self.reasons(result))
            self.assertNotIn("memfd:proftrace", Path(f"/proc/{job.pid}/maps").read_text())

    def test_a_job_that_is_idle_at_first(self) -> None:
        with self.gpu_job() as job:
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv,chrome", "--gpu", "agent") as tracer:
                tracer.wait_until_recording()
                self.assertEqual(job.do(f"cuda {LONG // 4}")["failures"], "0")
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.check_rows(Result(self.out))
            self.next_out()
            with Tracer("-p", job.pid, "-o", self.out, "--gpu", "agent") as tracer:
                tracer.wait_until_recording()
                self.assertEqual(tracer.stop(), 0, tracer.text())
            self.assertIn("is idle", self.reasons(Result(self.out)))
            self.assertEqual((live.changed_text_bytes(job.pid), memories(job.pid)), (0, []))
            self.assertEqual(job.do("cuda 3")["failures"], "0")

    def test_a_command(self) -> None:
        """A job that proftrace starts brings the agent itself, from its first CUDA call on."""
        program = (f"import ctypes, sys, time; sys.path.insert(0, {str(live.HERE)!r}); import cuda_job; job = cuda_job.CudaJob()\n"
                   f"job.on_cupti({str(CUPTI)!r}); job.on_load({str(RUNTIME)!r}); failures = []\n"
                   "time.sleep(1); job.one_round(failures); failures.append(ctypes.CDLL('libcuda.so.1').cuInit(0))\n"
                   "for _ in range(300): job.one_round(failures)\nprint(sum(map(bool, failures)))")
        done = self.run_proftrace("-o", self.out, "--format", "events-csv", "--", self.python, "-c", program, env={**os.environ, **DOUBLES})
        self.assertEqual((done.returncode, done.stdout), (0, "0\n"), done.stderr)
        self.check_rows(Result(self.out), rounds=250)

    def test_the_job_ends_meanwhile(self) -> None:
        with self.gpu_job() as job:
            job.tell("cuda 300")
            with Tracer("-p", job.pid, "-o", self.out, "--format", "events-csv", "--gpu", "agent") as tracer:
                tracer.wait_until_recording()
                job.tell("cuda 50")
                self.assertEqual([job.answer()["failures"] for _ in range(2)], ["0", "0"])
                job.end()
                self.assertEqual(tracer.wait(), 0, tracer.text())
        self.check_rows(Result(self.out))


if __name__ == "__main__":
    if not CUPTI.exists():
        print(f"{CUPTI} was not built: CUPTI's headers were not found")
        raise SystemExit(live.SKIP)
    live.run()

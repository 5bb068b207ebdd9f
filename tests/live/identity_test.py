#!/usr/bin/env python3
"""What a capture tells of which part of which job a process is, and of who it is in its container."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import live
from live import Job, LiveTest, Result, Tracer
from process import LineReader

LATE_RANK = """
import os, sys, torch
print("READY", os.getpid(), flush=True)
sys.stdin.readline()
os.environ.update(RANK="4", WORLD_SIZE="6", LOCAL_RANK="2")
print("SET", flush=True)
for line in sys.stdin:
    torch.ones(2) + 1
"""


class JobTest(LiveTest):
    def target(self, pid: int) -> dict[str, object]:
        return {target["pid"]: target for target in Result(self.out).summary["target"]}[pid]

    def test_what_launchers_tell_is_recorded(self) -> None:
        told = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "GROUP_RANK": "1",
                "MASTER_ADDR": "10.1.2.3", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "run-7", "TORCHELASTIC_RESTART_COUNT": "2",
                "SLURM_JOB_ID": "4242", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_NODEID": "1",
                "KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAME": "trainer-1", "POD_NAMESPACE": "ml", "AWS_SECRET_ACCESS_KEY": "geheim"}
        with Job(environment=told, fresh=True) as job:
            done = self.run_proftrace("-p", job.pid, "-d", "300ms", "-o", self.out, "--format", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
        target = self.target(job.pid)
        self.assertEqual((target["rank"], target["world_size"]), (5, 8))
        expected = {"local_rank": 1, "local_world_size": 4, "group_rank": 1, "master_addr": "10.1.2.3", "master_port": 29500,
                    "elastic_run_id": "run-7", "elastic_restart_count": 2, "slurm_job_id": 4242, "slurm_step_id": 0,
                    "slurm_proc_id": 5, "slurm_node_id": 1, "kubernetes_pod": "trainer-1", "kubernetes_namespace": "ml"}
        self.assertEqual({key: target["job"].get(key) for key in expected}, expected)
        # Nothing of the environment is taken but that.
        for path in self.out.iterdir():
            self.assertNotIn(b"geheim", path.read_bytes(), path)

    def test_a_rank_that_a_program_sets_itself_while_it_is_recorded(self) -> None:
        variables = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
        process = subprocess.Popen([self.python, "-c", LATE_RANK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables)
        lines = LineReader(process.stdout)
        try:
            lines.wait("^READY", live.START_S)
            with Tracer("-p", process.pid, "-o", self.out, "--format", "none") as tracer:
                tracer.wait_until_recording()
                process.stdin.write(b"\n")
                process.stdin.flush()
                lines.wait("^SET", live.WORK_S)
                self.assertEqual(tracer.stop(), 0, tracer.text())
        finally:
            process.kill()
            process.wait()
            lines.close()
            process.stdin.close()
        target = self.target(process.pid)
        self.assertEqual((target["rank"], target["world_size"], target["job"]["local_rank"]), (4, 6, 2))

    def test_a_process_in_a_container_has_its_pid_there(self) -> None:
        with Job(prefix=live.CONTAINER) as job:
            children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            pid = int(children[0])
            self.assertEqual(job.own_pid, 1)
            namespace = os.stat(f"/proc/{pid}/ns/pid").st_ino
            ticks = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19])
            done = self.run_proftrace("-p", pid, "-d", "300ms", "-o", self.out, "--format", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
        target = self.target(pid)
        self.assertEqual(target["namespace_pids"], [pid, 1])
        self.assertEqual((target["pid_namespace"], target["start_ticks"]), (namespace, ticks))
        self.assertNotEqual(namespace, os.stat("/proc/self/ns/pid").st_ino)

    def test_a_process_has_its_time_namespace_and_its_control_group(self) -> None:
        if not Path("/proc/self/timens_offsets").exists():
            self.skipTest("this kernel has no time namespaces")
        with Job(prefix=("unshare", "--time", "--monotonic", "7200", "--boottime", "86400", "--fork", "--kill-child")) as job:
            children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            pid = int(children[0])
            offsets = {line.split()[0]: int(line.split()[1]) * 10**9 + int(line.split()[2])
                       for line in Path(f"/proc/{pid}/timens_offsets").read_text().splitlines()}
            groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
            done = self.run_proftrace("-p", pid, "-d", "300ms", "-o", self.out, "--format", "none")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(offsets["monotonic"], 7200 * 10**9)
        target = self.target(pid)
        self.assertEqual((target["monotonic_offset_ns"], target["boottime_offset_ns"]), (offsets["monotonic"], offsets["boottime"]))
        self.assertIn(target["control_group"], [path for _, controllers, path in groups if controllers in ("", "memory")])


if __name__ == "__main__":
    live.run()

#!/usr/bin/env python3
"""`proftrace dump -a` and `dump -p A -p B`: a distributed job that hangs, and the rank that is to blame."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time

import live
from live import LiveTest
from process import LineReader

RANKS = 8

# Rank 3 sleeps, rank 5 has left the loop, rank 6 is in another collective; the others wait for them. Each says first which it is.
JOB = r"""
import os, sys, time
import torch, torch.distributed as dist
rank = int(sys.argv[1])
if len(sys.argv) > 3:
    dist.init_process_group('gloo', init_method=f'file://{sys.argv[2]}', rank=rank, world_size=int(sys.argv[3]))
else:
    dist.init_process_group('gloo', init_method=f'file://{sys.argv[2]}', rank=rank, world_size=int(os.environ['WORLD_SIZE']))
value = torch.ones(4)
def step(number):
    if number == 2 and rank == 3:
        print('STANDS', flush=True)
        time.sleep(3600)
    if number == 2 and rank == 6:
        print('STANDS', flush=True)
        dist.barrier()
    if number == 2: print('STANDS', flush=True)
    dist.all_reduce(value)
for number in range(3):
    if rank == 5 and number == 2: break
    step(number)
print('STANDS', flush=True)
sys.stdin.read()
"""


class Job:
    """The ranks as processes, all standing still. Leaving the context ends them."""

    def __init__(self, folder: str, ranks: int, tell_rank: bool) -> None:
        self.processes = []
        self.lines = []
        store = os.path.join(folder, "store")
        for rank in range(ranks):
            variables = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
            arguments = [str(rank), store]
            if tell_rank:
                variables.update(RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="localhost", MASTER_PORT="29555")
            else:
                arguments.append(str(ranks))
            process = subprocess.Popen([LiveTest.python, "-c", JOB, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, env=variables, start_new_session=True)
            assert process.stdout is not None
            self.processes.append(process)
            self.lines.append(LineReader(process.stdout))
        self.pids = [process.pid for process in self.processes]

    def __enter__(self) -> "Job":
        for lines in self.lines:
            lines.wait("STANDS", live.WORK_S * 4)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for process, lines in zip(self.processes, self.lines):
            lines.close()
            assert process.stdin is not None
            process.stdin.close()


class HangTest(LiveTest):
    def dump(self, *arguments: object) -> dict:
        done = self.run_proftrace("dump", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def standing(self, job: Job) -> dict:
        """The job's dump once all ranks are where they stay: a rank says so right before."""
        end = time.monotonic() + live.WORK_S
        while True:
            found = self.dump(*(word for pid in job.pids for word in ("-p", pid)))
            if len(found["groups"]) == 4 or time.monotonic() > end:
                return found

    def check(self, found: dict, pids: list[int]) -> None:
        own = [group for group in found["groups"] if set(group["pids"]) <= set(pids)]
        self.assertEqual([group["ranks"] for group in own], [[3], [5], [6], [0, 1, 2, 4, 7]])
        sleeps, left, other, waiting = own
        self.assertEqual(sleeps["collective"], None)
        self.assertEqual(left["collective"], None)
        self.assertEqual(other["collective"]["name"], "barrier")
        self.assertEqual(waiting["collective"]["name"], "all_reduce")
        self.assertEqual(sleeps["stack"]["frames"][0]["name"], "step")
        self.assertEqual(waiting["stack"]["frames"][-1]["name"], "<module>")
        (missing,) = [one for one in found["missing"] if one["job"] == waiting["job"]]
        self.assertEqual(missing["waiting"], [0, 1, 2, 4, 7])
        self.assertEqual(missing["missing"], [3, 5, 6])
        self.assertEqual(missing["without_process"], [])
        self.assertEqual(missing["collective"]["name"], "all_reduce")
        # As gloo counts them itself: two have begun one less.
        (uneven,) = [one for one in found["uneven_groups"] if one["job"] == waiting["job"]]
        self.assertEqual([begun["ranks"] for begun in uneven["begun"]], [[3, 5], [0, 1, 2, 4, 6, 7]])
        few, many = (begun["count"] for begun in uneven["begun"])
        self.assertEqual(many, few + 1)

    def test_the_ranks_that_the_others_wait_for_come_first(self) -> None:
        with Job(str(self.directory), RANKS, tell_rank=True) as job:
            named = self.standing(job)
            self.check(named, job.pids)
            self.check(self.dump("-a"), job.pids)
            self.assertEqual(len(named["processes"]), RANKS)
            self.assertEqual(named["failed"], [])
            text = self.run_proftrace("dump", *(str(word) for pid in job.pids for word in ("-p", pid)))
            self.assertEqual(text.returncode, 0, text.stderr)
            lines = text.stdout.splitlines()
            self.assertRegex(lines[1], r"^Ranks 0-2, 4, 7 wait in all_reduce, called from <string>:\d+\.$")
            self.assertRegex(lines[2], r"^  Missing: rank 3 is in no call of torch.distributed: waits in \w+, in step ")
            self.assertRegex(lines[3], r"^  Missing: rank 5 is in no call of torch.distributed: waits in read")
            self.assertRegex(text.stdout, r"(?m)^Collectives of process group .*gloo\): Ranks 3, 5 have begun \d+; ranks 0-2, 4, 6, 7 have begun \d+\.$")
            self.assertRegex(lines[4], r"^  Missing: rank 6 is in barrier, called from <string>:\d+\.$")
            # What cannot be read is named, and the rest is shown.
            gone = job.processes[5]
            os.killpg(gone.pid, signal.SIGKILL)
            gone.wait()
            rest = self.dump("-p", gone.pid, "-p", job.pids[3])
            self.assertEqual([one["pid"] for one in rest["failed"]], [gone.pid])
            self.assertEqual([one["ranks"] for one in rest["groups"]], [[3]])

    def test_dumps_of_two_hosts_are_one(self) -> None:
        """The ranks are dumped in two parts, one of which is made to be of another host: the groups are those of one dump."""
        with Job(str(self.directory), RANKS, tell_rank=True) as job:
            whole = self.standing(job)
            files = []
            for part, pids in enumerate((job.pids[:5], job.pids[5:])):
                found = self.dump(*(word for pid in pids for word in ("-p", pid)))
                found["dump"]["hosts"][0].update(name=f"node{part}", boot_id=f"boot{part}", all_processes=True)
                for process in found["processes"]:
                    process["local_world_size"] = len(pids)
                files.append(self.directory / f"node{part}.json")
                files[-1].write_text(json.dumps(found, sort_keys=part == 0))
            done = self.run_proftrace("merge", *reversed(files), "--json")
            self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
            merged = json.loads(done.stdout)
            self.check(merged, job.pids)
            for key in ("groups", "missing", "uneven_groups"):
                for one in (*merged[key], *whole[key]):
                    one.pop("hosts", None)
                self.assertEqual(merged[key], whole[key])
            self.assertEqual([host["name"] for host in merged["dump"]["hosts"]], ["node0", "node1"])
            output = self.directory / "job.json.gz"
            self.assertEqual(self.run_proftrace("merge", *files, "-o", output).returncode, 0)
            again = json.loads(self.run_proftrace("merge", output, "--json").stdout)
            self.assertEqual(again["processes"], merged["processes"])
            text = self.run_proftrace("merge", *files)
            self.assertRegex(text.stdout, r"\A8 processes of 2 hosts, by their clocks within \d+\.\d s, each stopped for ")
            self.assertRegex(text.stdout, r"(?m)^Ranks 0-2, 4, 7 \(PIDs \d+, \d+, \d+, \d+ on node0, \d+ on node1\): in all_reduce")
            # Documents of single processes are dumps too.
            singles = []
            for pid in job.pids:
                singles.append(self.directory / f"pid{pid}.json")
                singles[-1].write_text(self.run_proftrace("dump", "-p", pid, "--json").stdout)
                self.assertEqual(json.loads(singles[-1].read_text())["pid"], pid)
            joined = json.loads(self.run_proftrace("merge", *singles, "--json").stdout)
            self.assertEqual([group["ranks"] for group in joined["groups"]], [group["ranks"] for group in whole["groups"]])
            half = self.run_proftrace("merge", files[0])
            self.assertIn("Missing: rank 3 is in no call", half.stdout)
            self.refused_merges(files)

    def refused_merges(self, files: list) -> None:
        copy, cut, trace = (self.directory / name for name in ("copy.json", "cut.json", "trace.json"))
        copy.write_bytes(files[0].read_bytes())
        cut.write_bytes(files[0].read_bytes()[:5000])
        trace.write_text('{"traceEvents": []}')
        for code, sentence, arguments in (
                (10, "given twice", (files[0], files[0])), (10, "is in", (files[0], copy)), (8, "is a damaged dump", (files[1], cut)),
                (10, "is a dump of stacks, and", (files[0], trace)), (2, "--ranks is of recordings", (*files, "--ranks", "0")),
                (2, "-o NAME.json", (*files, "-o", self.directory / "out")), (2, "name the output with -o", (trace,))):
            done = self.run_proftrace("merge", *arguments)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(sentence, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse((self.directory / "out").exists())

    def test_ranks_that_no_launcher_has_told_are_read_from_the_groups(self) -> None:
        with Job(str(self.directory), RANKS, tell_rank=False) as job:
            self.check(self.standing(job), job.pids)

    def test_one_process_or_none(self) -> None:
        for arguments in ((), ("-a", "-p", str(os.getpid()))):
            done = self.run_proftrace("dump", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn("give what to dump: -p PID", done.stderr)


if __name__ == "__main__":
    live.run()

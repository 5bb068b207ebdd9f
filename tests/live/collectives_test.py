#!/usr/bin/env python3
"""Rows record_param_comms: number, group, name and sizes are what the collective was given, and what torch.profiler's own trace of
the same calls has. The rows come from a library that makes them as ProcessGroupNCCL does (param_comms.cc)."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import live
from live import HERE, LiveTest, Tracer
from process import LineReader

# number, whether point to point, group, description, rank, size, collective, elements in and out, first rank, stride
ROWS = [
    (41, 0, "3", "rows", 1, 4, "allreduce", 30, 30, 0, 2),
    (42, 0, "3", "rows", 1, 4, "_allgather_base", 6, 24, 0, 2),
    (43, 0, "3", "rows", 1, 4, "_reduce_scatter_base", 8, 2, 0, 2),
    (1 << 60, 0, "a group's name that is longer than sixteen bytes", "", 0, 2, "broadcast", 5, 5, 4, 1),
    (7, 1, "pp", "pipeline", 1, 2, "send", 30, 30, 4, 1),
    (8, 1, "pp", "pipeline", 0, 2, "recv", 30, 30, 4, 1),
    (44, 0, "", "", 1, 4, "allreduce", 3, 3, 0, 1),
    (0, 0, "9" * 300, "x" * 300, 1, 4, "a collective of a later torch", 3, 3, -1, 0),
]
BARRIER = (45, "3", "rows", 1, 4, 0, 2)

JOB = r"""
import ctypes, json, sys
import torch
from torch.profiler import profile, ProfilerActivity
lib = ctypes.CDLL(sys.argv[1])
lib.tensors_row.argtypes = [ctypes.c_int64, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int,
                            ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
lib.barrier_row.argtypes = [ctypes.c_int64, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                            ctypes.c_int]
rows, barrier, out = json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
given = lambda values: [value.encode() if isinstance(value, str) else value for value in values]
def run():
    for row in rows: lib.tensors_row(*given(row))
    lib.barrier_row(*given(barrier))
run()
print('READY', flush=True)
for line in sys.stdin:
    if line.strip() == 'plain':
        run()
    else:
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler: run()
        profiler.export_chrome_trace(out)
    print('DONE', flush=True)
"""

# torch's keys of a collective.
KEYS = ("Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Rank", "Process Group Name",
        "Process Group Description", "Process Group Ranks", "Global rank start", "Global rank stride", "In split size",
        "Out split size", "Src Rank", "Dst Rank")


def rows_of(events: list[dict]) -> list[dict]:
    rows = [event for event in events if event.get("name") == "record_param_comms" and event.get("ph") == "X"]
    return [row["args"] for row in sorted(rows, key=lambda row: row["ts"])]


class CollectivesTest(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        program = "import torch, os; print(os.path.dirname(torch.__file__), torch._C._GLIBCXX_USE_CXX11_ABI)"
        done = subprocess.run([LiveTest.python, "-c", program], capture_output=True, text=True, check=True)
        torch, new_strings = done.stdout.split()
        if not Path(f"{torch}/include/torch/csrc/distributed/c10d/ParamCommsUtils.hpp").is_file():
            self.skipTest(f"{torch} has no headers of torch.distributed")
        if shutil.which("g++") is None:
            self.skipTest("no g++")
        self.library = self.directory / "libtorch_param_comms.so"  # libraries of this name are looked through
        subprocess.run(["g++", "-std=c++17", "-O2", "-fPIC", "-shared", "-DUSE_C10D",
                        f"-D_GLIBCXX_USE_CXX11_ABI={int(new_strings == 'True')}", f"-I{torch}/include", "-o", str(self.library),
                        str(HERE / "param_comms.cc"), f"-L{torch}/lib", f"-Wl,-rpath,{torch}/lib", "-ltorch_cpu", "-lc10"],
                       check=True)

    def check(self, ours: list[dict], theirs: "list[dict] | None") -> None:
        self.assertEqual(len(ours), len(ROWS) + 1)
        for index, row in enumerate([*ROWS, None]):
            number, is_p2p, group = (row[0], row[1], row[2]) if row else (BARRIER[0], 0, BARRIER[1])
            with self.subTest(row=row or "barrier"):
                mine = ours[index]
                self.assertEqual(mine.get("Seq"), number)
                self.assertEqual(mine.get("Is P2P"), bool(is_p2p))
                if group and len(group) <= 256:
                    self.assertEqual(mine.get("Process Group Name"), group)
                elif group:
                    self.assertEqual(mine.get("Process Group Name"), group[:256] + "…")
                if theirs is None or len(group) > 256:
                    continue
                of_torch = {key: theirs[index][key] for key in KEYS if key in theirs[index]}
                if of_torch.get("Process Group Ranks") == "[]":
                    del of_torch["Process Group Ranks"]  # torch has no members of groups that are no series
                self.assertEqual({key: mine[key] for key in KEYS if key in mine}, of_torch)

    def test_rows_are_torchs(self) -> None:
        out = self.directory / "torch.json"
        process = subprocess.Popen([LiveTest.python, "-c", JOB, str(self.library), json.dumps(ROWS), json.dumps(BARRIER), str(out)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        assert process.stdout is not None and process.stdin is not None
        lines = LineReader(process.stdout)
        try:
            lines.wait("READY", live.WORK_S)
            for tier in ("bpf", "patch"):
                for kind in ("plain", "profiled"):
                    with self.subTest(tier=tier, kind=kind):
                        tracer = Tracer("-p", process.pid, "-o", self.out, "--force", "--tier", tier, "--record-shapes", "--format",
                                        "chrome")
                        with tracer:
                            tracer.wait_until_recording()
                            process.stdin.write(kind.encode() + b"\n")
                            process.stdin.flush()
                            lines.wait("DONE", live.WORK_S)
                            self.assertEqual(tracer.stop(), 0, tracer.text())
                        theirs = json.loads(out.read_text())["traceEvents"] if kind == "profiled" else None
                        with gzip.open(self.out / "trace.json.gz", "rt", encoding="utf-8") as stream:
                            ours = rows_of(json.load(stream)["traceEvents"])
                        self.check(ours, rows_of(theirs) if theirs else None)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            lines.close()


if __name__ == "__main__":
    live.run()

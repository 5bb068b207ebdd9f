#!/usr/bin/env python3
"""What a loop of small operators costs more below torch.profiler.profile and below proftrace.profile: profile_cost.py [ROUNDS]

Run it by a Python with torch, with PYTHONPATH=userspace/python and PROFTRACE_PROGRAM. Each round is plain, torch's, plain, ours; the
figure is the median of the rounds' ratios of the thread's processor time."""

from __future__ import annotations

import statistics
import sys
import time

import proftrace
import torch
import torch.profiler

CALLS = 20000


def loop_s(values: torch.Tensor) -> float:
    begin = time.thread_time()
    for _ in range(CALLS):
        values.add(1)
    return time.thread_time() - begin


def ratio_below(module: object, values: torch.Tensor) -> float:
    plain = loop_s(values)
    with module.profile(activities=[module.ProfilerActivity.CPU]):  # type: ignore[attr-defined]
        return loop_s(values) / plain


def main() -> None:
    torch.set_num_threads(1)
    values = torch.ones(4, 4)
    loop_s(values)
    rounds = [(ratio_below(torch.profiler, values), ratio_below(proftrace, values)) for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5)]
    print(f"torch {torch.__version__}: torch.profiler {statistics.median(pair[0] for pair in rounds):.3f}, "
          f"proftrace {statistics.median(pair[1] for pair in rounds):.3f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A job of torch with the GPU agent in it, and the stand-in for the CUDA Driver: agent_job.py DOUBLE AGENT start|profile

Prints what the agent's page says (state, failure), the message, and what torch makes of it all.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
import time

import torch

STATE = 32  # offsets in struct pt_agent_page
MESSAGE = 104
MESSAGE_BYTES = 256
STARTING = 0
PATIENCE_S = 20


def page() -> mmap.mmap:
    for name in os.listdir("/proc/self/fd"):
        if os.path.islink(f"/proc/self/fd/{name}") and "memfd:proftrace_gpu" in os.readlink(f"/proc/self/fd/{name}"):
            return mmap.mmap(int(name), mmap.PAGESIZE)
    raise LookupError("no memory of an agent")


def start(agent: ctypes.CDLL) -> None:
    result = agent.proftrace_agent_start()
    memory = page()
    limit = time.monotonic() + PATIENCE_S
    while struct.unpack_from("=I", memory, STATE)[0] == STARTING and time.monotonic() < limit:
        time.sleep(0.01)
    state, failure = struct.unpack_from("=II", memory, STATE)
    message = memory[MESSAGE:MESSAGE + MESSAGE_BYTES].split(b"\0")[0].decode()
    print(f"{result} {state} {failure} {message}")


def main(double: str, path: str, what: str) -> None:
    ctypes.CDLL(f"{double}/libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    agent = ctypes.CDLL(path)
    if what == "profile":
        with torch.profiler.profile() as profile:
            start(agent)
            torch.ones(3).add(1)
        print(sum(event.name == "aten::add" for event in profile.events()))
    else:
        start(agent)
    print(torch.ones(3).add(1).sum().item())


if __name__ == "__main__":
    main(*sys.argv[1:])

"""forking_job.py: trains, and prints its PID. For a line "fork" of its input it forks a child that trains too, on two threads, and prints that one's PID; for "end" the child
ends, and what it ended with is printed: 0 where all of its results were those of the parent before it was recorded. At the end of the input it ends likewise itself.
Where PyTorch refuses backward passes in a child of a process that had one (Debian 13's build of 2.6), there is none in either."""

import os
import select
import signal
import sys
import threading

import torch
from patch_job import train

ITERATIONS = 5
with_backward = True


def may_children_go_backward() -> bool:
    if os.fork() == 0:
        # The process of which this is a fork has had none.
        train(1, 1)
        if (child := os.fork()) == 0:
            try:
                train(1, 1)
            except RuntimeError:
                os._exit(1)
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    return os.wait()[1] == 0


def train_until(is_over, expected: tuple) -> bool:
    is_same = True
    while not is_over():
        is_same = train(1, ITERATIONS, with_backward) == expected and is_same
    return is_same


def child(end: int, expected: tuple) -> int:
    signal.setitimer(signal.ITIMER_PROF, 0.003, 0.003)
    threading.Thread(target=train_until, args=(lambda: False, expected), daemon=True).start()
    return 0 if train_until(lambda: select.select([end], [], [], 0)[0], expected) else 1


def main() -> None:
    global with_backward
    torch.set_num_threads(1)
    with_backward = may_children_go_backward()
    signal.signal(signal.SIGPROF, lambda *unused: None)
    signal.setitimer(signal.ITIMER_PROF, 0.003, 0.003)
    expected = train(1, ITERATIONS, with_backward)
    print(os.getpid(), flush=True)
    is_same = True
    forked, end = 0, -1
    while True:
        is_same = train_until(lambda: select.select([sys.stdin], [], [], 0)[0], expected) and is_same
        line = sys.stdin.readline()
        if line == "fork\n":
            child_end, end = os.pipe()
            forked = os.fork()
            if forked == 0:
                os.close(end)
                os._exit(child(child_end, expected))
            os.close(child_end)
            print(forked, flush=True)
        elif line == "end\n":
            os.close(end)
            print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), flush=True)
        else:
            break
    signal.setitimer(signal.ITIMER_PROF, 0)
    sys.exit(0 if is_same else 1)


if __name__ == "__main__":
    main()

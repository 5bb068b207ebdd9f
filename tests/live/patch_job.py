"""patch_job.py THREADS ITERATIONS [WORKERS]: trains small models on threads, with exceptions, collections, signals, forks and short threads meanwhile, and
so many workers of a DataLoader. Prints its PID, and at the end what it computed: the same each time, whatever was done to its code.
patch_job.py held THREADS ITERATIONS [WORKERS]: trains them again and again until its input ends. What it prints is the same as of one time, if all are."""

import gc
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    """What workers make by operators of their own, one of which throws."""

    def __len__(self) -> int:
        return 16

    def __getitem__(self, index: int) -> torch.Tensor:
        item = torch.full((8,), float(index)).mul(3).cumsum(0)
        try:
            return torch.mm(item, item)
        except RuntimeError:
            return item.add(1)


def load(workers: int) -> float:
    return sum(batch.double().sum().item() for batch in DataLoader(Items(), batch_size=4, num_workers=workers))


def train(seed: int, iterations: int, with_backward: bool = True) -> tuple:
    generator = torch.Generator().manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    optimizer = torch.optim.Adam(model.parameters())
    total = 0.0
    for i in range(iterations):
        data = torch.randn(16, 32, generator=generator)
        loss = torch.nn.functional.cross_entropy(model(data), torch.randint(0, 10, (16,), generator=generator))
        optimizer.zero_grad()
        if with_backward:
            loss.backward()
            optimizer.step()
        total += loss.item()
        if i % 7 == 0:
            try:
                torch.mm(data, data)
            except RuntimeError:
                total += 1
    return seed, total, *(parameter.double().sum().item() for parameter in model.parameters())


def work(seed: int, iterations: int, is_held: threading.Event, results: set) -> None:
    results.add(train(seed, iterations))
    while is_held.is_set():
        results.add(train(seed, iterations))


def main() -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGPROF, lambda *unused: None)
    signal.setitimer(signal.ITIMER_PROF, 0.003, 0.003)
    train(0, 1)  # what is imported by the first one is there then
    is_held = threading.Event()
    if sys.argv[1] == "held":
        del sys.argv[1]
        is_held.set()
        threading.Thread(target=lambda: (sys.stdin.read(), is_held.clear()), daemon=True).start()
    workers = int(sys.argv[3]) if sys.argv[3:] else 0
    loaded = load(0)
    assert load(workers) == loaded
    results: set = set()
    threads = [threading.Thread(target=work, args=(seed, int(sys.argv[2]), is_held, results)) for seed in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    print(os.getpid(), flush=True)
    while any(thread.is_alive() for thread in threads):
        subprocess.run(["true"], check=True)
        child = os.fork()
        if child == 0:
            # No operator: another thread of the parent may have held a lock.
            os._exit(0 if sum(range(1000)) == 499500 else 1)
        assert os.waitpid(child, 0)[1] == 0
        threading.Thread(target=lambda: torch.ones(5).mul(2)).start()
        gc.collect()
        if workers:
            assert load(workers) == loaded
        time.sleep(0.05)
    signal.setitimer(signal.ITIMER_PROF, 0)
    print(hashlib.md5(repr(sorted(results)).encode()).hexdigest(), flush=True)


if __name__ == "__main__":
    main()

"""A job that trains small Transformers on the CPU and allocates all the time: STEPS THREADS. Prints `ready`, and at the end a
digest of all weights and losses."""

from __future__ import annotations

import hashlib
import sys
import tempfile
import threading

import torch

steps, threads = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(1)
digests = [b""] * threads
log = tempfile.TemporaryFile("w")


def train(number: int) -> None:
    generator = torch.Generator().manual_seed(number)
    with lock:
        torch.manual_seed(number)
        model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True), 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = hashlib.sha256()
    for step in range(steps):
        batch = torch.randn(4 + step % 5, 24, 64, generator=generator)
        optimizer.zero_grad()
        loss = (model(batch) - batch.flip(1)).square().mean()
        loss.backward()
        optimizer.step()
        losses.update(repr(loss.item()).encode())
        print(f"thread {number} step {step} loss {loss.item():.6f}", file=log, flush=True)
    for weight in model.parameters():
        losses.update(weight.detach().numpy().tobytes())
    digests[number] = losses.digest()


lock = threading.Lock()
print("ready", flush=True)
workers = [threading.Thread(target=train, args=(number,)) for number in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
print(hashlib.sha256(b"".join(digests)).hexdigest(), flush=True)

"""A job that trains on a GPU: KIND STEPS [PROFILE]. Prints `READY PID` after its warm-up, waits for a line, trains, and prints
`DONE SECONDS_A_STEP LONGEST_STEP LOSS`; with PROFILE (a file) torch.profiler records the steps and writes its trace there.

Lines: go; last (and end); until (train until another line comes); cuda, both (torch.profiler records the steps: the GPU alone, or operators, too).

Kinds: mlp, transformer, convnet (mixed precision), streams (work on three streams), graphs (a CUDA graph is replayed), copies (every kind of copy),
oom (an allocation that is refused in each step), compiled, reduced (torch.compile, the second as CUDA graphs), loader (batches from two workers, by pinned
memory), threads (four that launch), hundred (a hundred that live on), branches (a CUDA graph whose kernels run beside each other), ddp (one rank of NCCL), ranges
(NVTX), launches (500 small kernels), queued, deep (the GPU has work for a quarter of a second, for more than a second), captured (each step captures a graph, slowly),
llama (transformers: generation and a loss), resnet (torchvision, mixed precision).
"""

from __future__ import annotations

import os
import select
import sys
import tempfile
import threading
import time
from typing import Callable

import torch
from torch import distributed
from torch.nn import functional

DEVICE = torch.device("cuda")


def trainer(model: torch.nn.Module, data: torch.Tensor) -> Callable[[], torch.Tensor]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> torch.Tensor:
        with torch.autograd.profiler.record_function("step"):
            optimizer.zero_grad()
            loss = (model(data) - data).square().mean()
            loss.backward()
            optimizer.step()
        return loss

    return step


def mlp() -> Callable[[], torch.Tensor]:
    layers = [torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512)]
    return trainer(torch.nn.Sequential(*layers).to(DEVICE), torch.randn(256, 512, device=DEVICE))


def transformer() -> Callable[[], torch.Tensor]:
    layer = torch.nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    return trainer(torch.nn.TransformerEncoder(layer, 2).to(DEVICE), torch.randn(16, 64, 256, device=DEVICE))


def convnet() -> Callable[[], torch.Tensor]:
    torch.backends.cudnn.deterministic = True
    layers = [torch.nn.Conv2d(3, 32, 3), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 3),
              torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10)]
    model = torch.nn.Sequential(*layers).to(DEVICE, memory_format=torch.channels_last)
    data, labels = torch.randn(32, 3, 64, 64, device=DEVICE), torch.randint(10, (32,), device=DEVICE)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9), torch.amp.GradScaler()

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = functional.cross_entropy(model(data), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def compiled(mode: str | None = None) -> Callable[[], torch.Tensor]:
    layers = [torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.LayerNorm(512), torch.nn.Linear(512, 512)]
    model = torch.nn.Sequential(*layers).to(DEVICE)
    return trainer(torch.compile(model, mode=mode), torch.randn(256, 512, device=DEVICE))


def reduced() -> Callable[[], torch.Tensor]:
    return compiled("reduce-overhead")


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((256,), index / 1000)


def loader() -> Callable[[], torch.Tensor]:
    batches = iter(torch.utils.data.DataLoader(Numbers(), batch_size=32, num_workers=2, pin_memory=True))
    model = torch.nn.Linear(256, 256).to(DEVICE)

    def step() -> torch.Tensor:
        loss = model(next(batches).to(DEVICE, non_blocking=True)).square().mean()
        loss.backward()
        return loss

    return step


def threads() -> Callable[[], torch.Tensor]:
    values = [torch.randn(512, 512, device=DEVICE) for _ in range(4)]
    results = list(values)
    torch.cuda.synchronize()

    def work(number: int) -> None:
        with torch.cuda.stream(own[number]):
            for _ in range(5):
                results[number] = (values[number] @ values[number]).relu()

    own = [torch.cuda.Stream() for _ in values]

    def step() -> torch.Tensor:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        torch.cuda.synchronize()
        return torch.stack(results).mean()

    return step


def ddp() -> Callable[[], torch.Tensor]:
    meeting = tempfile.mkdtemp() + "/meeting"
    distributed.init_process_group("nccl", init_method=f"file://{meeting}", rank=0, world_size=1, device_id=torch.device("cuda:0"))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(512, 512).to(DEVICE))
    train = trainer(model, torch.randn(256, 512, device=DEVICE))
    value, gathered = torch.ones(1024, device=DEVICE), torch.zeros(1024, device=DEVICE)

    def step() -> torch.Tensor:
        loss = train()
        distributed.all_reduce(value, distributed.ReduceOp.AVG)
        distributed.all_gather_into_tensor(gathered, value)
        distributed.broadcast(value, src=0)
        return loss

    return step


def ranges() -> Callable[[], torch.Tensor]:
    train = mlp()

    def step() -> torch.Tensor:
        with torch.cuda.nvtx.range("nvtx step"):
            torch.cuda.nvtx.mark("here")
            return train()

    return step


def launches() -> Callable[[], torch.Tensor]:
    value = torch.zeros(256, device=DEVICE)

    def step() -> torch.Tensor:
        for _ in range(500):
            value.add_(1)
        torch.cuda.synchronize()
        return value[0]

    return step


def queued(size: int = 4096) -> Callable[[], torch.Tensor]:
    value = torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16)
    result = torch.empty_like(value)
    return lambda: torch.mm(value, value, out=result)[0, 0]


def deep() -> Callable[[], torch.Tensor]:
    return queued(8192)


def captured() -> Callable[[], torch.Tensor]:
    value = torch.ones(256, device=DEVICE)

    def step() -> torch.Tensor:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = value
            for _ in range(50):
                result = result * 1.0
                time.sleep(0.0005)
        graph.replay()
        return result.mean()

    return step


def hundred() -> Callable[[], torch.Tensor]:
    values = [torch.ones(64, device=DEVICE) for _ in range(100)]
    begin, end = threading.Barrier(101), threading.Barrier(101)

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            while True:
                begin.wait()
                values[number].mul_(1.0)
                end.wait()

    for number in range(100):
        threading.Thread(target=work, args=(number,), daemon=True).start()

    def step() -> torch.Tensor:
        torch.cuda.synchronize()
        begin.wait()
        end.wait()
        torch.cuda.synchronize()
        return torch.stack(values).mean()

    return step


def branches() -> Callable[[], torch.Tensor]:
    values = [torch.ones(128, 128, device=DEVICE) for _ in range(12)]
    others = [torch.cuda.Stream() for _ in values]
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        for value, stream in zip(values, others):
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(20):
                    value.mul_(1.0)
        for stream in others:
            torch.cuda.current_stream().wait_stream(stream)

    def step() -> torch.Tensor:
        graph.replay()
        return values[0][0, 0]

    return step


def llama() -> Callable[[], torch.Tensor]:
    import transformers

    config = transformers.LlamaConfig(vocab_size=1024, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, max_position_embeddings=256)
    model = transformers.LlamaForCausalLM(config).to(DEVICE, torch.bfloat16).eval()
    tokens = torch.randint(1024, (2, 32), device=DEVICE)

    @torch.inference_mode()
    def step() -> torch.Tensor:
        grown = model.generate(tokens, max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0)
        return model(grown, labels=grown).loss

    return step


def resnet() -> Callable[[], torch.Tensor]:
    import torchvision

    torch.backends.cudnn.deterministic = True
    model = torchvision.models.resnet18().to(DEVICE, memory_format=torch.channels_last)
    data, labels = torch.randn(8, 3, 96, 96, device=DEVICE), torch.randint(10, (8,), device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), 0.001)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = functional.cross_entropy(model(data.to(memory_format=torch.channels_last)), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def streams() -> Callable[[], torch.Tensor]:
    others = [torch.cuda.Stream() for _ in range(3)]
    value = torch.randn(1024, 1024, device=DEVICE)

    def step() -> torch.Tensor:
        results = []
        for stream in others:
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                results.append((value @ value).relu())
        for stream in others:
            torch.cuda.current_stream().wait_stream(stream)
        return torch.stack(results).mean()

    return step


def graphs() -> Callable[[], torch.Tensor]:
    value = torch.randn(512, 512, device=DEVICE)
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        (value @ value).relu().mean()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = (value @ value).relu().mean()

    def step() -> torch.Tensor:
        graph.replay()
        return result

    return step


def copies() -> Callable[[], torch.Tensor]:
    pageable, pinned = torch.randn(1 << 20), torch.randn(1 << 20).pin_memory()

    def step() -> torch.Tensor:
        here = pageable.to(DEVICE) + pinned.to(DEVICE, non_blocking=True)
        there = torch.empty_like(here)
        there.copy_(here)
        there.zero_()
        pinned.copy_(there, non_blocking=True)
        return there.cpu().mean() + here.mean()

    return step


def oom() -> Callable[[], torch.Tensor]:
    value = torch.randn(512, 512, device=DEVICE)

    def step() -> torch.Tensor:
        try:
            torch.empty(1 << 50, dtype=torch.uint8, device=DEVICE)
        except torch.OutOfMemoryError:
            return (value @ value).mean()
        raise SystemExit("a petabyte was allocated")

    return step


KINDS = {make.__name__: make for make in (mlp, transformer, convnet, streams, graphs, copies, oom, compiled, reduced, loader, threads, ddp, ranges,
                                          launches, queued, deep, captured, hundred, branches, llama, resnet)}
ACTIVITIES = {"cuda": [torch.profiler.ProfilerActivity.CUDA],
              "both": [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]}


def profile(which: str) -> torch.profiler.profile:
    """All threads where this version can, as proftrace does."""
    try:
        config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except TypeError:
        config = None
    return torch.profiler.profile(activities=ACTIVITIES[which], experimental_config=config)


def has_line() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def train(step: Callable[[], torch.Tensor], steps: int, until: bool) -> str:
    """What DONE is followed by. `until`: until a line comes, at least `steps`."""
    ends = [time.monotonic()]
    while len(ends) <= steps or (until and not has_line()):
        loss = step()
        ends.append(time.monotonic())
    torch.cuda.synchronize()
    seconds = (time.monotonic() - ends[0]) / (len(ends) - 1)
    longest = max(end - begin for begin, end in zip(ends, ends[1:]))
    return f"{seconds:.9f} {longest:.9f} {loss.item()!r}"


def main(kinds: dict[str, Callable[[], Callable[[], torch.Tensor]]]) -> None:
    kind, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    step = kinds[kind]()
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    print("READY", os.getpid(), flush=True)
    profiler = profile("both") if len(sys.argv) > 3 else None
    if profiler is not None:
        profiler.__enter__()
    while True:
        # Operators on the CPU: the job comes by a safe point while it waits.
        while not select.select([sys.stdin], [], [], 0.01)[0]:
            torch.ones(1).add(1)
        line = sys.stdin.readline().strip()
        if not line:
            return
        if line in ACTIVITIES:
            with profile(line):
                done = train(step, steps, until=False)
        else:
            done = train(step, steps, line == "until")
        if profiler is not None:
            profiler.__exit__(None, None, None)
            profiler.export_chrome_trace(sys.argv[3])
        print("DONE", done, flush=True)
        if line == "last" or profiler is not None:
            return


if __name__ == "__main__":
    main(KINDS)

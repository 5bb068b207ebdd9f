"""Two DataLoader workers (other processes, forked and followed) feed a training loop."""

import time

import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


class Noise(Dataset):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, number):
        with torch.autograd.profiler.record_function("make item"):
            time.sleep(0.03)
            return torch.full((4,), float(number)).mul(2)


def main():
    model = torch.nn.Linear(4, 1)
    for batch in DataLoader(Noise(), batch_size=2, num_workers=2, prefetch_factor=2):
        with torch.autograd.profiler.record_function("train step"):
            model(batch).sum().backward()


if __name__ == "__main__":
    main()

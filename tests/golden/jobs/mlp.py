"""Trains a small network, with an annotation around each step: mlp.py SECONDS_BETWEEN_STEPS."""

import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs = torch.randn(8, 16)
while True:
    with torch.autograd.profiler.record_function("train step"):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
    time.sleep(float(sys.argv[1]))

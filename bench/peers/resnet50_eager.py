#!/usr/bin/env python3
"""ResNet-50 training step in PyTorch eager mode: float16 autocast, GradScaler, channels_last, fused SGD.

Synthetic data that stays on the GPU. Prints one JSON line: samples_per_sec (median of blocks) and
max_allocated_gib."""
import argparse
import json
import statistics

import torch
import torchvision

WARMUP = 15
STEPS_PER_BLOCK = 10

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--blocks", type=int, default=5)
arguments = parser.parse_args()

torch.backends.cudnn.benchmark = True
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
images = torch.randn(arguments.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
targets = torch.randint(0, 1000, (arguments.batch,), device="cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
scaler = torch.amp.GradScaler("cuda")
criterion = torch.nn.CrossEntropyLoss()


def step():
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", torch.float16):
        loss = criterion(model(images), targets)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


for _ in range(WARMUP):
    step()
rates = []
for _ in range(arguments.blocks):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(STEPS_PER_BLOCK):
        step()
    end.record()
    torch.cuda.synchronize()
    rates.append(arguments.batch * STEPS_PER_BLOCK / begin.elapsed_time(end) * 1e3)
print(json.dumps({"samples_per_sec": round(statistics.median(rates), 1),
                  "max_allocated_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2)}))

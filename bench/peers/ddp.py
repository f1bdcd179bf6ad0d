#!/usr/bin/env python3
"""The step of resnet50.py (float16, scaler) under DistributedDataParallel. Rank 0 prints one line of JSON.

Start: python3 -m torch.distributed.run --standalone --nproc-per-node 2 bench/peers/ddp.py"""
import argparse
import json
import os

import torch
import torchvision
from torch.nn.parallel import DistributedDataParallel

from timing import measure, settle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=256, help="of one GPU")
    parser.add_argument("--warmup", type=int, default=15)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    chosen = parser.parse_args()

    device = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    torch.distributed.init_process_group("nccl")
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = True
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    model = DistributedDataParallel(model, device_ids=[device], gradient_as_bucket_view=True)
    images = torch.randn(chosen.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    targets = torch.randint(0, 1000, (chosen.batch,), device="cuda")
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

    settle(step, chosen.warmup)
    result = measure(step, chosen.batch * torch.distributed.get_world_size(), chosen.blocks, chosen.steps)
    if torch.distributed.get_rank() == 0:
        print(json.dumps(result), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""A ResNet-50 training step in PyTorch, as its users write it: torchvision's model, autocast, GradScaler, SGD.

One batch of random images stays on the GPU. Prints a line of JSON when the first step is done and when warm-up is
done, then one for every line of standard input: throughput and peak memory of another measurement."""
import argparse
import contextlib
import json
import sys

import torch
import torchvision

from timing import measure, settle

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=["float32", "tf32", *DTYPES], default="float16")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--compile", action="store_true", help="torch.compile(model)")
    parser.add_argument("--no-scaler", action="store_true")
    parser.add_argument("--contiguous", action="store_true", help="NCHW instead of channels_last")
    parser.add_argument("--warmup", type=int, default=15)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of a block")
    return parser.parse_args()


def make_step(chosen: argparse.Namespace):
    memory_format = torch.contiguous_format if chosen.contiguous else torch.channels_last
    model = torchvision.models.resnet50().cuda().to(memory_format=memory_format)
    images = torch.randn(chosen.batch, 3, 224, 224, device="cuda").to(memory_format=memory_format)
    targets = torch.randint(0, 1000, (chosen.batch,), device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=chosen.dtype == "float16" and not chosen.no_scaler)
    criterion = torch.nn.CrossEntropyLoss()
    forward = torch.compile(model) if chosen.compile else model
    dtype = DTYPES.get(chosen.dtype)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype) if dtype else contextlib.nullcontext():
            loss = criterion(forward(images), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

    return step


def say(facts: dict) -> None:
    print(json.dumps(facts), flush=True)


def main() -> None:
    chosen = arguments()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = chosen.dtype != "float32"
    step = make_step(chosen)
    step()
    torch.cuda.synchronize()
    say({"event": "first step"})
    settle(step, chosen.warmup)
    say({"event": "ready"})
    for _ in sys.stdin:
        say(measure(step, chosen.batch, chosen.blocks, chosen.steps))


if __name__ == "__main__":
    main()

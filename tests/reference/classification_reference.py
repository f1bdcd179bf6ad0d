"""Losses and hits of torch.nn.functional.cross_entropy and torch.topk. Usage: classification_reference.py FILE."""

import sys

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

SAMPLES, CLASSES = 64, 12


def main(path):
    torch.manual_seed(0)
    out = {"targets": torch.randint(CLASSES, (SAMPLES,))}
    logits = torch.randn(SAMPLES, CLASSES, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        name = str(dtype).removeprefix("torch.")
        out[f"{name}.logits"] = logits.to(dtype)
        for smoothing in (0.0, 0.1):
            leaf = out[f"{name}.logits"].clone().requires_grad_()
            upcast = leaf if dtype in (torch.float32, torch.float64) else leaf.float()
            loss = F.cross_entropy(upcast, out["targets"], reduction="sum", label_smoothing=smoothing)
            loss.backward()
            out[f"{name}.loss{smoothing}"] = loss.detach()
            out[f"{name}.grad{smoothing}"] = leaf.grad
    for k in (1, 5):
        hits = logits.topk(k, dim=1).indices.eq(out["targets"][:, None]).any(1)
        out[f"top{k}"] = hits.sum().double()
    out["few.logits"] = logits[:, :3].contiguous()
    out["few.targets"] = out["targets"] % 3
    out["few.top1"] = out["few.logits"].argmax(1).eq(out["few.targets"]).sum().double()
    save_file(out, path)


main(sys.argv[1])

"""What torch.nn's layers do from given seeds. Usage: nn_reference.py FILE (safetensors, written)."""

import sys

import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F


def main(path):
    out = {}
    torch.manual_seed(11)
    conv = nn.Conv2d(3, 8, 3, stride=2, padding=1)
    linear = nn.Linear(20, 7)
    for name, layer in (("conv", conv), ("linear", linear)):
        for key, value in layer.state_dict().items():
            out[f"{name}.{key}"] = value

    out["image"] = torch.randn(4, 3, 9, 9)
    out["conv.output"] = conv(out["image"]).detach()
    out["linear.input"] = torch.randn(5, 20)
    out["linear.output"] = linear(out["linear.input"]).detach()
    out["maxpool.output"] = nn.MaxPool2d(3, 2, 1)(out["image"])
    out["avgpool.output"] = nn.AdaptiveAvgPool2d(1)(out["image"])

    norm = nn.BatchNorm2d(3)
    for step in range(3):
        out[f"norm.output{step}"] = norm(out["image"] * (step + 1) + step).detach()
    for key, value in norm.state_dict().items():
        out[f"norm.{key}"] = value
    norm.eval()
    out["norm.eval_output"] = norm(out["image"]).detach()

    torch.manual_seed(5)
    out["dropout.output"] = F.dropout(torch.ones(1000), 0.3)
    save_file({key: value.contiguous() for key, value in out.items()}, path)


main(sys.argv[1])

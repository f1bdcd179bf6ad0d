"""What PyTorch says of each model, a JSON object a line: parameters, buffers, kept activations, flops.

Runs on the meta device: shapes only. Activations are the tensors that autograd saves and that have the batch as
their first dimension, each storage once.
"""
import json

import torch
import torchvision
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

BATCH = 7


def mlp(inputs, hidden, classes, dropout):
    layers = [nn.Flatten()]
    for width in hidden:
        layers += [nn.Linear(inputs, width), nn.ReLU()] + ([nn.Dropout(dropout)] if dropout else [])
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, classes))


def lenet(channels, side, classes):
    left = (side // 2 - 4) // 2
    return nn.Sequential(
        nn.Conv2d(channels, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16 * left * left, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes))


def report(name, model, shape, classes, hidden=(), dropout=False):
    images = torch.empty(BATCH, *shape, device="meta")
    saved = {}

    def pack(tensor):
        if tensor.dim() > 0 and tensor.shape[0] == BATCH:
            saved[tensor.untyped_storage()._cdata] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = model(images)
    with FlopCounterMode(display=False) as counter:
        model(images)
    floats = [b for b in model.buffers() if b.is_floating_point()]
    indices = sum(t.numel() for t in saved.values() if t.dtype == torch.int64)
    kept = sum(t.numel() for t in saved.values() if t.dtype != torch.int64)
    del out
    print(json.dumps({
        "name": name, "shape": shape, "classes": classes, "hidden": list(hidden), "dropout": dropout,
        "parameters": sum(p.numel() for p in model.parameters()), "buffers": sum(b.numel() for b in floats),
        "activations": kept // BATCH, "indices": indices // BATCH,
        "flops": counter.get_total_flops() // BATCH}))


with torch.device("meta"):
    for depth in (18, 34, 50, 101, 152):
        build = getattr(torchvision.models, f"resnet{depth}")
        report(f"resnet{depth}", build(num_classes=1000), (3, 224, 224), 1000)
    report("resnet18", torchvision.models.resnet18(num_classes=10), (3, 32, 32), 10)
    report("resnet50", torchvision.models.resnet50(num_classes=37), (3, 197, 161), 37)
    report("lenet", lenet(1, 28, 10), (1, 28, 28), 10)
    report("lenet", lenet(3, 32, 7), (3, 32, 32), 7)
    report("mlp", mlp(64, [256], 10, 0), (1, 8, 8), 10, [256])
    report("mlp", mlp(3 * 5 * 5, [30, 20], 4, 0.5), (3, 5, 5), 4, [30, 20], True)
    report("mlp", mlp(49, [], 3, 0), (1, 7, 7), 3)

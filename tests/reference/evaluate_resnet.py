"""Evaluates weights with torchvision: evaluate_resnet.py MODEL.safetensors IMAGE_FOLDER.

Loads them into torchvision.models.resnet18 with strict=True, runs it in float32 over the folder, one sample at a time,
and prints {"samples", "correct", "loss" (mean)} as JSON.
"""

import json
import sys

import torch
from safetensors.torch import load_file
from torchvision import datasets, models, transforms

weights = load_file(sys.argv[1])
data = datasets.ImageFolder(
    sys.argv[2],
    transforms.Compose(
        [transforms.ToTensor(), transforms.Normalize(mean=[0.4, 0.5, 0.6], std=[0.3, 0.25, 0.2])]
    ),
)
model = models.resnet18(num_classes=len(data.classes))
model.load_state_dict(weights, strict=True)
model.eval()
correct = 0
loss = 0.0
with torch.no_grad():
    for image, target in data:
        logits = model(image[None])
        correct += int(logits.argmax(dim=1).item() == target)
        loss += torch.nn.functional.cross_entropy(logits, torch.tensor([target])).item()
print(json.dumps({"samples": len(data), "correct": correct, "loss": loss / len(data)}))

"""What PyTorch and torchvision compute with the models of src/model. Usage: model_reference.py FOLDER.

FOLDER gets, for each case, CASE.safetensors: initial.* (state after a seeded construction), input, target, and
output, grad.*, after.* (buffers) of one training step's forward and backward; for ResNet-18 and 50
sgd-NAME.safetensors: inputs, targets and state.* after 20 float64 SGD steps; and names.json: parameters and
buffers of every ResNet with their shapes.
"""

import json
import pathlib
import sys

import torch
import torchvision
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

INIT_SEED = 7
FORWARD_SEED = 3
SGD_STEPS = 20


class Mlp(nn.Module):
    def __init__(self, inputs, hidden, classes, dropout):
        super().__init__()
        self.fc1 = nn.Linear(inputs, hidden[0])
        self.fc2 = nn.Linear(hidden[0], hidden[1])
        self.fc3 = nn.Linear(hidden[1], classes)
        self.dropout = dropout

    def forward(self, x):
        x = x.flatten(1)
        for layer in (self.fc1, self.fc2):
            x = F.dropout(F.relu(layer(x)), self.dropout)
        return self.fc3(x)


class LeNet(nn.Module):
    def __init__(self, channels, size, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * ((size // 2 - 4) // 2) ** 2, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


CASES = {
    "mlp": (lambda: Mlp(64, [32, 16], 10, 0.5), (6, 1, 8, 8), 10),
    "lenet28": (lambda: LeNet(1, 28, 10), (6, 1, 28, 28), 10),
    "lenet32": (lambda: LeNet(3, 32, 7), (6, 3, 32, 32), 7),
    "resnet18": (torchvision.models.resnet18, (4, 3, 64, 64), 1000),
    "resnet50": (torchvision.models.resnet50, (4, 3, 64, 64), 1000),
}


def save(path, tensors):
    save_file({key: value.detach().contiguous() for key, value in tensors.items()}, path)


def one_step(make, shape, classes):
    torch.manual_seed(INIT_SEED)
    model = make()
    out = {f"initial.{key}": value.clone() for key, value in model.state_dict().items()}
    out["input"] = torch.randn(shape)
    out["target"] = torch.randint(classes, (shape[0],))
    torch.manual_seed(FORWARD_SEED)
    out["output"] = model(out["input"])
    F.cross_entropy(out["output"], out["target"]).backward()
    out.update({f"grad.{key}": value.grad for key, value in model.named_parameters()})
    out.update({f"after.{key}": value for key, value in model.named_buffers()})
    return out


def sgd_steps(make):
    torch.manual_seed(INIT_SEED)
    model = make().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = torch.randn(SGD_STEPS, 8, 3, 32, 32, dtype=torch.float64)
    targets = torch.randint(1000, (SGD_STEPS, 8))
    for images, labels in zip(inputs, targets):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return {"inputs": inputs, "targets": targets, **{f"state.{key}": value for key, value in model.state_dict().items()}}


def names():
    result = {}
    for depth in (18, 34, 50, 101, 152):
        with torch.device("meta"):
            model = torchvision.models.get_model(f"resnet{depth}", num_classes=13)
        result[f"resnet{depth}"] = {
            "parameters": [[key, list(value.shape)] for key, value in model.named_parameters()],
            "buffers": [[key, list(value.shape)] for key, value in model.named_buffers()],
        }
    return result


def main(folder):
    for case, (make, shape, classes) in CASES.items():
        save(folder / f"{case}.safetensors", one_step(make, shape, classes))
    for name in ("resnet18", "resnet50"):
        save(folder / f"sgd-{name}.safetensors", sgd_steps(CASES[name][0]))
    (folder / "names.json").write_text(json.dumps(names()))


main(pathlib.Path(sys.argv[1]))

"""PyTorch's own loop, run beside TrainStep: autocast, GradScaler, clipping, SGD or AdamW, with given weights and
windows. Arguments: the case (JSON), input safetensors, output safetensors. CPU only.

Input tensors: param.<name>, window<i>.images<j>, window<i>.targets<j>. Output: param.<name>, scale (after each step),
skipped (after each step, 0 or 1)."""
import json
import sys

import torch
from safetensors.torch import load_file, save_file

case, source, target = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
tensors = load_file(source)

layers = [torch.nn.Linear(case["inputs"], case["hidden"]), torch.nn.ReLU(), torch.nn.Linear(case["hidden"], case["classes"])]
model = torch.nn.Sequential(*layers)
parameters = list(model.parameters())
names = sorted(n for n in tensors if n.startswith("param."))
by_position = [tensors["param.%d" % i] for i in range(len(parameters))]
assert len(names) == len(parameters)
with torch.no_grad():
    for parameter, value in zip(parameters, by_position):
        parameter.copy_(value)

if case["optimizer"] == "sgd":
    optimizer = torch.optim.SGD(parameters, lr=case["lr"], momentum=0.9, weight_decay=0.01)
else:
    optimizer = torch.optim.AdamW(parameters, lr=case["lr"], weight_decay=0.01)
dtype = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": None}[case["dtype"]]
scaler = torch.amp.GradScaler("cpu", enabled=case["dtype"] == "float16", init_scale=case["init_scale"],
                              growth_interval=case["growth_interval"])
scales, skips = [], []
for step in range(case["steps"]):
    micro = [(tensors[f"window{step}.images{j}"], tensors[f"window{step}.targets{j}"]) for j in range(case["micro"])]
    samples = sum(len(t) for _, t in micro)
    optimizer.zero_grad()
    for images, targets in micro:
        with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
            logits = model(images.flatten(1))
            loss = torch.nn.functional.cross_entropy(logits.float(), targets, reduction="sum",
                                                     label_smoothing=case["label_smoothing"])
        scaler.scale(loss / samples).backward()
    scaler.unscale_(optimizer)
    if case["clip_grad_value"]:
        torch.nn.utils.clip_grad_value_(parameters, case["clip_grad_value"])
    if case["clip_grad_norm"]:
        torch.nn.utils.clip_grad_norm_(parameters, case["clip_grad_norm"])
    finite = all(torch.isfinite(p.grad).all() for p in parameters)
    # Without a scaler PyTorch would take the step and spoil the weights; the rule here is to skip in any precision.
    if scaler.is_enabled() or finite:
        scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    skips.append(0.0 if finite else 1.0)
out = {f"param.{i}": p.detach().clone() for i, p in enumerate(parameters)}
out["scale"] = torch.tensor(scales, dtype=torch.float64)
out["skipped"] = torch.tensor(skips, dtype=torch.float64)
save_file(out, target)

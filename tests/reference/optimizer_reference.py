"""torch.optim over 20 steps with skips, for every configuration that optim/ covers.

Usage: optimizer_reference.py OUTPUT
A line "name dtype" opens a configuration; then, a tensor a line, "tensor_name numel values…" in the order of
indices; "end" closes it. Values are a rational function of index, step and parameter, the same in C++
(tests/optim/reference_test.cpp), so that only results travel. All are exact in float32.
"""

import sys

import torch

STEPS = 20
SKIPS = {0, 4, 5, 13}
SHAPES = [("a.weight", (3, 5)), ("a.bias", (7,)), ("b.weight", (2, 3, 4, 4)), ("b.bias", (1,))]
DECAY = {"a.weight": 0.0625, "a.bias": 0.0, "b.weight": 0.0625, "b.bias": 0.0}
MISSING = "a.bias"  # without gradient in odd steps, in configurations named *_missing
CONFIGS = {
    "sgd": (torch.optim.SGD, {}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "sgd_nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "sgd_dampening": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.25}),
    "sgd_momentum_missing": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {}),
    "adam_amsgrad": (torch.optim.Adam, {"betas": (0.8, 0.95), "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"betas": (0.9, 0.98), "eps": 1e-6}),
    "adamw_amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
}


def values(numel, step, salt):
    return [((i * 7919 + step * 104729 + salt * 1299709) % 2001 - 1000) / 1024.0 for i in range(numel)]


def lr(steps_done):
    return (16 - steps_done % 8) / 256.0


def run(name, dtype):
    optimizer_class, options = CONFIGS[name]
    params = {}
    for salt, (key, shape) in enumerate(SHAPES):
        data = torch.tensor(values(torch.Size(shape).numel(), 0, salt), dtype=dtype).reshape(shape)
        params[key] = torch.nn.Parameter(data)
    groups = [{"params": [param], "weight_decay": DECAY[key]} for key, param in params.items()]
    optimizer = optimizer_class(groups, lr=lr(0), foreach=False, fused=False, **options)
    done = 0
    for step in range(STEPS):
        if step in SKIPS:
            continue
        for salt, (key, param) in enumerate(params.items()):
            if name.endswith("_missing") and key == MISSING and step % 2 == 1:
                param.grad = None
                continue
            grad = values(param.numel(), step + 1, salt + 10)
            param.grad = torch.tensor(grad, dtype=dtype).reshape(param.shape)
        for group in optimizer.param_groups:
            group["lr"] = lr(done)
        optimizer.step()
        done += 1
    result = dict(params)
    for kind in ("momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"):
        for key, param in params.items():
            if kind in optimizer.state[param]:
                result[f"{kind}.{key}"] = optimizer.state[param][kind]
    return result


def main():
    torch.set_num_threads(1)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for name in CONFIGS:
            for dtype in (torch.float64, torch.float32):
                print(name, str(dtype).removeprefix("torch."), file=out)
                for key, tensor in run(name, dtype).items():
                    flat = tensor.detach().double().flatten().tolist()
                    print(key, len(flat), *map(repr, flat), file=out)
                print("end", file=out)


if __name__ == "__main__":
    main()

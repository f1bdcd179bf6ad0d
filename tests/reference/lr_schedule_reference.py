"""torch.optim.lr_scheduler's rates, one an optimizer step.

Usage: lr_schedule_reference.py OUTPUT
For each plan a line "name base_lr warmup_steps warmup_start_factor total_steps steps_per_epoch step_size gamma
power min_lr number_of_milestones milestones…", then total_steps + 1 rates on one line.

The main schedule follows LinearLR through SequentialLR and starts at its own step 0 there, except for step and
multi_step: these count from the run's start, so that their schedulers run beside the warm-up from step 0 on.
"""

import sys
import warnings

import torch
from torch.optim import lr_scheduler

warnings.simplefilter("ignore")  # schedulers want optimizer.step() first; rates alone matter here

BASE = dict(base_lr=0.4, warmup=0, start=0.1, total=60, epoch=7, step_size=0, gamma=0.1, power=1.0, min_lr=0.0, milestones=[])
PLANS = [
    ("constant", {}),
    ("constant", dict(warmup=9)),
    ("step", dict(step_size=13, gamma=0.5)),
    ("step", dict(step_size=6, gamma=0.5, warmup=10)),
    ("multi_step", dict(milestones=[20, 21, 45])),
    ("multi_step", dict(milestones=[4, 30, 50], warmup=8, gamma=0.2)),
    ("exponential", dict(gamma=0.8)),
    ("exponential", dict(gamma=0.8, warmup=10, start=0.01)),
    ("polynomial", dict(power=1.0)),
    ("polynomial", dict(power=2.5, warmup=12)),
    ("cosine", {}),
    ("cosine", dict(min_lr=0.003, warmup=5, start=0.001, base_lr=1.7)),
]


def optimizer(plan):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=plan["base_lr"])


def rates(opt, step, count):
    result = []
    for _ in range(count):
        result.append(opt.param_groups[0]["lr"])
        step()
    return result


def main_scheduler(name, opt, plan):
    steps = plan["total"] - plan["warmup"]
    if name == "constant":
        return lr_scheduler.ConstantLR(opt, factor=1.0, total_iters=steps)
    if name == "step":
        return lr_scheduler.StepLR(opt, plan["step_size"], plan["gamma"])
    if name == "multi_step":
        return lr_scheduler.MultiStepLR(opt, plan["milestones"], plan["gamma"])
    if name == "exponential":
        return lr_scheduler.ExponentialLR(opt, plan["gamma"])
    if name == "polynomial":
        return lr_scheduler.PolynomialLR(opt, total_iters=steps, power=plan["power"])
    return lr_scheduler.CosineAnnealingLR(opt, T_max=steps, eta_min=plan["min_lr"])


def warmup_rates(plan):
    if plan["warmup"] == 0:
        return []
    opt = optimizer(plan)
    scheduler = lr_scheduler.LinearLR(opt, start_factor=plan["start"], total_iters=plan["warmup"])
    return rates(opt, scheduler.step, plan["warmup"])


def run(name, plan):
    count = plan["total"] + 1
    opt = optimizer(plan)
    if name in ("step", "multi_step"):
        from_start = rates(opt, main_scheduler(name, opt, plan).step, count)
        return warmup_rates(plan) + from_start[plan["warmup"] :]
    if name == "exponential":  # stepped once an epoch, as training loops do
        scheduler = main_scheduler(name, opt, plan)
        done = 0

        def step():
            nonlocal done
            done += 1
            if done % plan["epoch"] == 0:
                scheduler.step()

        return warmup_rates(plan) + rates(opt, step, count - plan["warmup"])
    if plan["warmup"] == 0:
        return rates(opt, main_scheduler(name, opt, plan).step, count)
    warmup = lr_scheduler.LinearLR(opt, start_factor=plan["start"], total_iters=plan["warmup"])
    both = lr_scheduler.SequentialLR(opt, [warmup, main_scheduler(name, opt, plan)], milestones=[plan["warmup"]])
    return rates(opt, both.step, count)


def main():
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for name, changes in PLANS:
            plan = {**BASE, **changes}
            fields = [plan[key] for key in ("base_lr", "warmup", "start", "total", "epoch", "step_size", "gamma", "power", "min_lr")]
            print(name, *map(repr, fields), len(plan["milestones"]), *plan["milestones"], file=out)
            print(*map(repr, run(name, plan)), file=out)


if __name__ == "__main__":
    main()

"""Traces of torch.amp.GradScaler on the CPU over 10,000 steps with random infs, for several settings.

Usage: scaler_trace_reference.py OUTPUT
For each setting a line "name init_scale growth_factor backoff_factor growth_interval steps", then one line a
step: "inf new_interval scale growth_tracker skipped" (scale and tracker after update(); new_interval 0: kept).
"""

import random
import sys

import torch

STEPS = 10_000
SETTINGS = [
    # name, init_scale, growth_factor, backoff_factor, growth_interval, share of infs, {step: new interval}
    ("defaults", 65536.0, 2.0, 0.5, 2000, 0.001, {}),
    ("short_interval", 1024.0, 2.0, 0.5, 5, 0.05, {}),
    ("every_step", 3.0, 2.0, 0.5, 1, 0.5, {}),
    ("odd_factors", 1.0, 1.5, 0.7, 3, 0.1, {}),
    ("near_overflow", 1e38, 16.0, 0.25, 2, 0.05, {}),
    ("towards_zero", 1.0, 2.0, 0.125, 50, 0.3, {}),
    ("interval_changes", 256.0, 2.0, 0.5, 100, 0.004, {900: 10, 3000: 200, 5000: 7, 8000: 1}),
]


class CountingOptimizer(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})
        self.steps = 0

    def step(self):
        self.steps += 1


def main():
    torch.set_num_threads(1)
    chance = random.Random(20260)
    with open(sys.argv[1], "w", encoding="ascii") as out:
        for name, init, growth, backoff, interval, share, changes in SETTINGS:
            print(name, repr(init), repr(growth), repr(backoff), interval, STEPS, file=out)
            param = torch.nn.Parameter(torch.zeros(()))
            optimizer = CountingOptimizer([param])
            scaler = torch.amp.GradScaler(
                "cpu", init_scale=init, growth_factor=growth, backoff_factor=backoff, growth_interval=interval
            )
            scaler.scale(torch.zeros(()))
            param.grad = torch.ones(())
            for step in range(STEPS):
                new_interval = changes.get(step, 0)
                if new_interval:
                    scaler.set_growth_interval(new_interval)
                inf = chance.random() < share
                param.grad.fill_(float("inf") if inf else 1.0)
                scaler.step(optimizer)
                scaler.update()
                skipped = step + 1 - optimizer.steps
                print(int(inf), new_interval, repr(scaler.get_scale()), scaler._get_growth_tracker(), skipped, file=out)


if __name__ == "__main__":
    main()

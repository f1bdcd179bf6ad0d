"""How the PyTorch peers measure: blocks of steps between CUDA events, median and spread, peak memory."""
import statistics

import torch

GIB = 2**30


def settle(step, warmup: int) -> None:
    """Warm-up; peaks of memory count from its end."""
    for _ in range(warmup):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()


def measure(step, samples: int, blocks: int, steps: int) -> dict:
    """Throughput in samples a second over blocks of steps; `samples`: of one step, of all processes."""
    rates = []
    for _ in range(blocks):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        rates.append(samples * steps / begin.elapsed_time(end) * 1e3)
    middle = statistics.median(rates)
    return {"samples_per_sec": middle, "spread": (max(rates) - min(rates)) / middle,
            "peak_allocated_gib": torch.cuda.max_memory_allocated() / GIB}

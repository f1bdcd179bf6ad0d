#!/usr/bin/env python3
"""Runs `ampctl train` and a PyTorch peer in turn, A B A B ..., and prints medians and the ratio.

The first two logging intervals of each ampctl run are warm-up. The peer is any command whose output has a JSON line
with samples_per_sec or items_per_s.
Example: bench/compare.py --ampctl build/bin/ampctl --rounds 3 -- python3 bench/peers/resnet50_eager.py"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

WARMUP_INTERVALS = 2
ROOT = pathlib.Path(__file__).resolve().parent


def run_ampctl(ampctl: str, config: str, overrides: list[str]) -> dict:
    """Throughput (median over logging intervals) and peak memory of one run."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "run"
        command = [ampctl, "train", "-c", config, "--output", str(output)]
        for override in overrides:
            command += ["--set", override]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in rows if "throughput/samples_per_sec" in row][WARMUP_INTERVALS:]
    return {"samples_per_sec": statistics.median(row["throughput/samples_per_sec"] for row in steps),
            "data_wait": statistics.median(row["time/data_wait"] for row in steps),
            "max_allocated_gib": max(row["memory/max_allocated_gib"] for row in steps)}


def run_peer(command: list[str]) -> dict:
    """The last JSON line of the peer's output."""
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    result = lines[-1]
    result.setdefault("samples_per_sec", result.get("items_per_s"))
    result.setdefault("max_allocated_gib", result.get("peak_alloc_gib"))
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ampctl", default="build/bin/ampctl")
    parser.add_argument("--config", default=str(ROOT / "resnet50_eager.yaml"))
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="as ampctl's --set")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("peer", nargs="+", help="the peer's command, after --")
    arguments = parser.parse_args()
    ours, theirs = [], []
    for number in range(arguments.rounds):
        ours.append(run_ampctl(arguments.ampctl, arguments.config, arguments.overrides))
        theirs.append(run_peer(arguments.peer))
        print(f"round {number + 1}: ampctl {ours[-1]}  peer {theirs[-1]}", flush=True)
    for key in ("samples_per_sec", "max_allocated_gib"):
        a = statistics.median(row[key] for row in ours)
        b = statistics.median(row[key] for row in theirs)
        print(f"{key}: ampctl {a:.1f}  peer {b:.1f}  ratio {a / b:.3f}")


if __name__ == "__main__":
    main()

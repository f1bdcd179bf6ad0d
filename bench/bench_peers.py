#!/usr/bin/env python3
"""Runs `ampctl bench` and PyTorch peers in turn on one machine and prints a table of ratios; scripts/bench_peers.sh."""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from comparisons import FIRST, GROUPS, OURS, PEERS, ROWS, SMALL, UNITS, Row, figures
from contenders import Ampctl, Effort, Failed, Peer, measure_ddp

SHORTER_STEPS = 5  # a step of a small batch is so much shorter that blocks hold this many times as many


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ampctl", default="build/bin/ampctl")
    parser.add_argument("--only", default="", help="groups of rows, by commas: " + ",".join(GROUPS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of two short blocks, for a first look")
    parser.add_argument("--json", type=pathlib.Path, help="every figure of every round")
    chosen = parser.parse_args()
    for group in filter(None, chosen.only.split(",")):
        if group not in GROUPS:
            parser.error(f"--only: expected some of {', '.join(GROUPS)}, found {group}")
    return chosen


def gpu() -> tuple[str, int]:
    """The first GPU's name, and how many there are."""
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                          capture_output=True, text=True)
    names = done.stdout.splitlines()
    if done.returncode != 0 or not names:
        sys.exit("error: no NVIDIA GPU answers (nvidia-smi); run this on a machine with one")
    return names[0], len(names)


class Bench:
    """Figures by name, one entry a round."""

    def __init__(self, chosen: argparse.Namespace):
        self.ampctl = Ampctl(chosen.ampctl)
        self.rounds = 1 if chosen.quick else chosen.rounds
        self.blocks, self.steps, self.warmup = (2, 5, 5) if chosen.quick else (5, 10, 15)
        self.peers: dict[str, Peer] = {}
        self.found: dict[str, list[dict]] = {}

    def effort(self, name: str) -> Effort:
        return Effort(self.warmup, self.blocks, self.steps * (SHORTER_STEPS if name in SMALL else 1))

    def measure(self, name: str) -> dict:
        if name in OURS:
            return self.ampctl.measure(OURS[name], self.effort(name))
        if name == "ddp_x2":
            return measure_ddp(2, self.effort(name))
        if name not in self.peers:
            self.peers[name] = Peer(PEERS[name], self.effort(name))
        return self.peers[name].measure()

    def run(self, names: list[str], first_step: bool) -> None:
        if first_step:
            print("reading both sides' libraries once, so that the page cache is warm", flush=True)
            self.ampctl.measure([], Effort(1, 1, 1))
            Peer(["--batch", "16"], Effort(1, 1, 1)).close()
        # Memory of a peer is its own while nothing else needs it; all stay until the end, for the next round.
        for number in range(self.rounds):
            for name in names:
                result = self.measure(name)
                self.found.setdefault(name, []).append(result)
                print(f"round {number + 1}  {name:26} " + "  ".join(
                    f"{key} {value:.4g}" for key, value in result.items() if value is not None), flush=True)
        for peer in self.peers.values():
            peer.close()

    def median(self, name: str, figure: str) -> float:
        return statistics.median(result[figure] for result in self.found[name])


def number(value: float, figure: str) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}" if figure == FIRST else f"{value:.3g}"


def table(rows: list[Row], bench: Bench) -> str:
    lines = [("", "ampctl", "beside it", "unit", "ratio", "asked", "")]
    for row in rows:
        ours, theirs, ratio = row.ratio(bench.median)
        verdict = {True: "met", False: "NOT MET", None: ""}[row.met(ratio)]
        lines.append((row.text, number(ours, row.figure), number(theirs, row.figure), UNITS[row.figure],
                      f"{ratio:.3f}", row.asked(), verdict))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) if column in (0, 3, 6) else cell.rjust(width)
                               for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines)


def document(rows: list[Row], bench: Bench, device: str) -> dict:
    """What --json writes: figures of every round, and a ratio a row."""
    import torch
    ratios = [{"group": row.group, "text": row.text, "figure": row.figure, "ratio": row.ratio(bench.median)[2],
               "at_least": row.at_least, "at_most": row.at_most, "met": row.met(row.ratio(bench.median)[2])}
              for row in rows]
    version = subprocess.run([bench.ampctl.program, "--version"], capture_output=True, text=True).stdout.strip()
    return {"device": device, "torch": torch.__version__, "ampctl": version, "command": sys.argv, "rows": ratios,
            "figures": bench.found}


def main() -> None:
    chosen = parse()
    device, gpus = gpu()
    groups = set(filter(None, chosen.only.split(","))) or set(GROUPS)
    if gpus < 2 and "two_gpus" in groups:
        if chosen.only:
            sys.exit(f"error: two_gpus needs two GPUs, found {gpus}")
        print("two_gpus is left out: there is one GPU", flush=True)
        groups.discard("two_gpus")
    rows = [row for row in ROWS if row.group in groups]
    bench = Bench(chosen)
    try:
        bench.run(figures(rows), "first_step" in groups)
    except Failed as failure:
        sys.exit(f"error: {failure}")
    print(f"\n{device}, medians of {bench.rounds} rounds\n{table(rows, bench)}")
    if chosen.json:
        chosen.json.write_text(json.dumps(document(rows, bench, device), indent=2) + "\n")


if __name__ == "__main__":
    main()

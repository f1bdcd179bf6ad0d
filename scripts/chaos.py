#!/usr/bin/env python3
"""Kills, stops and terminates trainings at random moments and checks that each ends as docs/distributed.md says.

Every trial starts a training of several ranks on the CPU, sends one signal to a worker or the launcher at a random
moment between the start and the end, and checks exit code, message and time to the end; that no process is left; that
no checkpoint is torn. Then the same command runs again, and must end with the weights of an undisturbed run, bit for
bit.

Usage: chaos.py [--count N] [--seed N] [--ampctl PROGRAM] [--keep FOLDER]
Exit code: 0 when every trial ended as it should.
"""

import argparse
import collections
import dataclasses
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import zlib

ENVIRONMENT = 3
PEER = 5
PREEMPTED = 75
TIMEOUT = 6.0  # distributed.timeout
# A stopped rank is noticed after TIMEOUT; then the launcher gives the others 10 s to end.
SLACK = 15.0
GIVE_UP = 180.0
POLL = 0.005
TAG = "AMPCTL_CHAOS"

EXPERIMENT = """\
seed: 7
device: cpu
model: {{name: mlp, hidden_sizes: [64], dropout: 0.1}}
data:
  global_batch_size: 24
  num_workers: 1
  train:
    format: idx
    images: {data}/images
    labels: {data}/labels
    transforms:
      - random_crop: {{size: 12, padding: 2}}
      - horizontal_flip
      - normalize: {{mean: [0.4], std: [0.3]}}
  eval: {{transforms: [{{normalize: {{mean: [0.4], std: [0.3]}}}}]}}
  split: {{eval_fraction: 0.2}}
train: {{steps: {steps}, num_threads: 1}}
optimizer: {{name: adamw, lr: 0.003}}
amp: {{dtype: float16}}
checkpoint: {{every_steps: 20}}
eval: {{every_epochs: 5}}
log: {{every_steps: 5}}
distributed: {{timeout: {timeout:.0f}}}
"""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A signal to the launcher (rank None) or to a worker."""

    number: signal.Signals
    rank: int | None

    def __str__(self) -> str:
        return f"{self.number.name} to {'the launcher' if self.rank is None else 'a worker'}"


@dataclasses.dataclass
class Trial:
    number: int
    fault: Fault
    moment: float
    step: int = 0
    code: int | None = None
    seconds: float = 0.0
    problems: list[str] = dataclasses.field(default_factory=list)
    outcome: str = ""


def write_data(folder: pathlib.Path, count: int = 259, size: int = 12, classes: int = 3) -> None:
    """Images in IDX format whose class shows in where they are bright."""
    rng = random.Random(1)
    pixels, labels = bytearray(), bytearray()
    for _ in range(count):
        label = rng.randrange(classes)
        labels.append(label)
        for row in range(size):
            bright = 160 if row * classes // size == label else 0
            pixels.extend(bright + rng.randrange(90) for _ in range(size))
    folder.mkdir(parents=True)
    (folder / "images").write_bytes(struct.pack(">IIII", 0x803, count, size, size) + pixels)
    (folder / "labels").write_bytes(struct.pack(">II", 0x801, count) + labels)


def processes(tag: str) -> dict[int, dict[str, str]]:
    """Environment of every living process that inherited the tag."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        variables = dict(item.split("=", 1) for item in text.split("\0") if "=" in item)
        if variables.get(TAG) == tag:
            found[int(entry.name)] = variables
    return found


def worker(tag: str, rank: int) -> int | None:
    for pid, variables in processes(tag).items():
        try:
            name = pathlib.Path(f"/proc/{pid}/comm").read_text()
        except OSError:
            continue
        if name == "ampctl-worker\n" and variables.get("RANK") == str(rank):
            return pid
    return None


def wait_until(condition, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def torn_checkpoints(run: pathlib.Path) -> list[str]:
    """What is wrong with the checkpoints that claim to be complete: those with a manifest."""
    problems = []
    folder = run / "checkpoints"
    for checkpoint in sorted(folder.glob("step-*")):
        manifest = checkpoint / "manifest.json"
        if not re.fullmatch(r"step-\d{8}", checkpoint.name):
            continue
        if not manifest.exists():
            problems.append(f"{checkpoint.name} has no manifest")
            continue
        for facts in json.loads(manifest.read_text())["files"]:
            content = (checkpoint / facts["name"]).read_bytes()
            if len(content) != facts["size"] or int(facts["crc32"], 16) != zlib.crc32(content):
                problems.append(f"{checkpoint.name}/{facts['name']} is not what the manifest says")
    latest = folder / "latest"
    if latest.is_symlink() and not latest.exists():
        problems.append("latest points nowhere")
    return problems


def result_of(run: pathlib.Path) -> dict[str, int]:
    """What two runs must have in common at their end."""
    latest = (run / "checkpoints" / "latest").resolve()
    files = ["model.safetensors", "optimizer.safetensors", "rank-00000.safetensors", "rank-00001.safetensors"]
    return {"step": int(latest.name[5:])} | {name: zlib.crc32((latest / name).read_bytes()) for name in files}


def last_step(run: pathlib.Path) -> int:
    try:
        lines = (run / "metrics.jsonl").read_text().splitlines()
    except OSError:
        return 0
    steps = [int(match[1]) for line in lines if (match := re.search(r'"step": ?(\d+)', line))]
    return max(steps, default=0)


class Chaos:
    def __init__(self, options: argparse.Namespace, root: pathlib.Path) -> None:
        self.options = options
        self.root = root
        write_data(root / "data")
        (root / "experiment.yaml").write_text(
            EXPERIMENT.format(data=root / "data", steps=options.steps, timeout=TIMEOUT)
        )
        self.random = random.Random(options.seed)
        self.reference: dict[str, int] = {}
        self.duration = 0.0

    def start(self, run: pathlib.Path, tag: str) -> tuple[subprocess.Popen, pathlib.Path]:
        command = [self.options.ampctl, "train", "--config", self.root / "experiment.yaml", "--output", run]
        command += ["--nproc-per-node", str(self.options.ranks)]
        log = run.with_suffix(f".{len(list(self.root.glob(run.name + '.*.out')))}.out")
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=os.environ | {TAG: tag}
            )
        return process, log

    def undisturbed(self) -> None:
        run = self.root / "reference"
        begin = time.monotonic()
        process, log = self.start(run, "reference")
        if process.wait(GIVE_UP) != 0:
            sys.exit(f"the undisturbed run ended with {process.returncode}:\n{log.read_text()}")
        self.duration = time.monotonic() - begin
        self.reference = result_of(run)

    def faults(self):
        victims = [None, *range(self.options.ranks)]
        kinds = [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]
        every = [Fault(number, rank) for number, rank in itertools.product(kinds, victims)]
        while True:
            self.random.shuffle(every)
            yield from every

    def trial(self, number: int, fault: Fault) -> Trial:
        trial = Trial(number, fault, self.random.uniform(0, self.duration))
        run = self.root / f"run-{number:03d}"
        tag = str(run)
        process, log = self.start(run, tag)
        try:
            self.disturb(trial, run, tag, process)
            said = log.read_text(errors="replace") + "".join(
                path.read_text(errors="replace") for path in sorted(run.glob("logs/**/*.log"))
            )
            self.judge(trial, said)
            if not wait_until(lambda: not processes(tag), 20):
                trial.problems.append(f"left behind: {sorted(processes(tag))}")
            trial.problems += torn_checkpoints(run)
        finally:
            for pid in processes(tag):
                os.kill(pid, signal.SIGKILL)
            process.wait()
        self.go_on(trial, run, tag)
        if not trial.problems:
            shutil.rmtree(run)
        return trial

    def disturb(self, trial: Trial, run: pathlib.Path, tag: str, process: subprocess.Popen) -> None:
        """Sends the signal and waits for the end."""
        time.sleep(trial.moment)
        fault = trial.fault
        victim = process.pid if fault.rank is None else None
        while victim is None and process.poll() is None:
            victim = worker(tag, fault.rank)  # not started yet, or already done
        trial.step = last_step(run)
        if process.poll() is not None:
            trial.outcome = "had ended"
            trial.code = process.returncode
            return
        begin = time.monotonic()
        try:
            os.kill(victim, fault.number)
        except ProcessLookupError:
            trial.outcome = "had ended"
        if fault == Fault(signal.SIGSTOP, None):
            # The run goes on without its launcher; the launcher learns of the end when it is woken.
            if not wait_until(lambda: set(processes(tag)) <= {process.pid}, GIVE_UP):
                trial.problems.append("the workers of a stopped launcher did not end")
            process.send_signal(signal.SIGCONT)
        try:
            process.wait(GIVE_UP)
        except subprocess.TimeoutExpired:
            trial.problems.append(f"did not end within {GIVE_UP:.0f} s")
        trial.code = process.returncode
        if fault == Fault(signal.SIGKILL, None):
            wait_until(lambda: not processes(tag), GIVE_UP)
        trial.seconds = time.monotonic() - begin

    def judge(self, trial: Trial, said: str) -> None:
        fault, code = trial.fault, trial.code
        if trial.outcome or code == 0:
            # The signal came when everything was done, or changed nothing.
            trial.outcome = trial.outcome or "ran to its end"
            if code != 0:
                trial.problems.append(f"exit code {code}")
            return
        if fault.number == signal.SIGTERM:
            expected, outcome = PREEMPTED, "saved"
        elif fault.rank is not None:
            expected, outcome = PEER, "ended"
        elif fault.number == signal.SIGKILL:
            expected, outcome = -signal.SIGKILL, "ended"
        else:
            expected, outcome = 0, "ran to its end"
        trial.outcome = outcome
        if trial.step == 0 and fault == Fault(signal.SIGSTOP, 0) and "does not answer as a store" in said:
            expected = ENVIRONMENT  # stopped before the others could meet at its port
        if code != expected:
            trial.problems.append(f"exit code {code}, expected {expected}")
        if fault.rank is not None and expected != PREEMPTED and not re.search(rf"\brank {fault.rank}\b", said):
            trial.problems.append(f"nobody names rank {fault.rank}")
        if expected == PEER and fault.number == signal.SIGKILL and "signal 9" not in said:
            trial.problems.append("nobody names the signal")
        if fault == Fault(signal.SIGKILL, None) and last_words_missing(said):
            trial.problems.append("no worker says that the launcher is gone")
        limit = SLACK + (TIMEOUT if fault.number == signal.SIGSTOP else 0)
        if fault != Fault(signal.SIGSTOP, None) and trial.seconds > limit:
            trial.problems.append(f"took {trial.seconds:.1f} s, allowed are {limit:.0f}")

    def go_on(self, trial: Trial, run: pathlib.Path, tag: str) -> None:
        process, log = self.start(run, tag)
        try:
            code = process.wait(GIVE_UP)
        except subprocess.TimeoutExpired:
            code = None
            for pid in processes(tag):
                os.kill(pid, signal.SIGKILL)
        if code != 0:
            trial.problems.append(f"going on ended with {code}; see {log}")
        elif (result := result_of(run)) != self.reference:
            differs = [name for name, value in self.reference.items() if result[name] != value]
            trial.problems.append(f"another result after going on: {', '.join(differs)}")
        names = [path.name for path in (run / "checkpoints").iterdir()]
        leftovers = [name for name in names if not re.fullmatch(r"step-\d{8}|latest|best", name)]
        if leftovers:
            trial.problems.append(f"unfinished checkpoints left: {leftovers}")


def last_words_missing(said: str) -> bool:
    """Workers that were training say it in their logs; before that there may be no log, and after it no reason."""
    return "training on" in said and "Done: " not in said and "launcher" not in said


def summary(trials: list[Trial], chaos: Chaos) -> str:
    groups: dict[str, list[Trial]] = collections.defaultdict(list)
    for trial in trials:
        groups[str(trial.fault)].append(trial)
    rows = [("fault", "trials", "as written", "exit codes", "seconds to the end, median (longest)")]
    for name, group in sorted(groups.items()):
        codes = collections.Counter(str(trial.code) for trial in group)
        hit = [trial.seconds for trial in group if trial.outcome != "had ended"]
        rows.append((
            name,
            str(len(group)),
            str(sum(not trial.problems for trial in group)),
            ", ".join(f"{code} x {count}" for code, count in sorted(codes.items())),
            f"{statistics.median(hit):.1f} ({max(hit):.1f})" if hit else "-",
        ))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    good = sum(not trial.problems for trial in trials)
    lines.append(f"{good} of {len(trials)} as written; an undisturbed run takes {chaos.duration:.1f} s")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    default = pathlib.Path(__file__).resolve().parent.parent / "build" / "bin" / "ampctl"
    parser.add_argument("--ampctl", default=str(default), help="the program (default: build/bin/ampctl)")
    parser.add_argument("--count", type=int, default=100, help="trials")
    parser.add_argument("--seed", type=int, default=0, help="of faults and moments")
    parser.add_argument("--ranks", type=int, default=2, help="workers of each training")
    parser.add_argument("--steps", type=int, default=1000, help="steps of each training")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the runs of trials that failed")
    options = parser.parse_args()

    root = options.keep or pathlib.Path(tempfile.mkdtemp(prefix="ampctl-chaos-"))
    root.mkdir(parents=True, exist_ok=True)
    chaos = Chaos(options, root.resolve())
    chaos.undisturbed()
    trials = []
    for number, fault in zip(range(options.count), chaos.faults()):
        trial = chaos.trial(number, fault)
        trials.append(trial)
        verdict = "; ".join(trial.problems) or trial.outcome
        print(
            f"{number + 1:3d}  {fault.number.name:7s} {'launcher' if fault.rank is None else f'rank {fault.rank}':8s} "
            f"at {trial.moment:5.2f} s, step {trial.step:4d}: exit {trial.code}, {trial.seconds:5.2f} s  {verdict}",
            flush=True,
        )
    print(summary(trials, chaos))
    failed = [trial for trial in trials if trial.problems]
    if not options.keep and not failed:
        shutil.rmtree(root)
    elif failed:
        print(f"runs of the {len(failed)} trials that did not end as written: {root}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

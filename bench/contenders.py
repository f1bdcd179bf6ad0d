"""The two sides of scripts/bench_peers.sh: `ampctl bench`, and PyTorch scripts beside it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A program ended without the figures that it was started for; the text says which and why."""


class Effort:
    """How much is measured: steps of warm-up, blocks, steps of a block."""

    def __init__(self, warmup: int, blocks: int, steps: int):
        self.warmup, self.blocks, self.steps = warmup, blocks, steps

    def flags(self) -> list[str]:
        return ["--warmup", str(self.warmup), "--blocks", str(self.blocks), "--steps", str(self.steps)]


def last_lines(text: str, count: int = 15) -> str:
    return "\n".join(text.splitlines()[-count:])


class Ampctl:
    """`ampctl bench` on bench/resnet50.yaml, a process a measurement."""

    def __init__(self, program: str):
        self.program = program

    def command(self, overrides: list[str], effort: Effort) -> list[str]:
        return [self.program, "bench", "-c", str(HERE / "resnet50.yaml"), "--synthetic", "--no-profile", "--json", "-",
                *effort.flags(), *overrides]

    def measure(self, overrides: list[str], effort: Effort) -> dict:
        """Throughput and memory, under the names that the peers use, and seconds to the first step."""
        command = self.command(overrides, effort)
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first_step, said = None, []
        for line in process.stderr:
            said.append(line)
            if "first step after" in line and first_step is None:
                first_step = time.monotonic() - began
        out = process.stdout.read()
        if process.wait() != 0:
            raise Failed(f"{' '.join(command)} ended with {process.returncode}:\n{last_lines(''.join(said))}")
        result = json.loads(out)["variants"][0]["result"]
        return {"samples_per_sec": result["samples_per_sec"]["median"],
                "spread": result["samples_per_sec"]["spread"],
                "peak_allocated_gib": result["memory"]["peak_allocated_gib"],
                "first_step_seconds": first_step}


class Peer:
    """bench/peers/resnet50.py: one process that measures again and again, so that it compiles once."""

    def __init__(self, flags: list[str], effort: Effort):
        self.cache = tempfile.TemporaryDirectory()  # what torch.compile keeps: empty, as for a first run
        self.errors = tempfile.TemporaryFile("w+")
        self.command = [sys.executable, str(HERE / "peers" / "resnet50.py"), *flags, *effort.flags()]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": self.cache.name + "/inductor",
                                    "TRITON_CACHE_DIR": self.cache.name + "/triton"}
        began = time.monotonic()
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, env=environment)
        self.answer()
        self.first_step_seconds = time.monotonic() - began
        self.answer()

    def answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise Failed(f"{' '.join(self.command)} ended with {self.process.wait()}:\n{last_lines(self.errors.read())}")
        return json.loads(line)

    def measure(self) -> dict:
        self.process.stdin.write("again\n")
        self.process.stdin.flush()
        return self.answer() | {"first_step_seconds": self.first_step_seconds}

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.cache.cleanup()
        self.errors.close()


def measure_ddp(processes: int, effort: Effort) -> dict:
    """bench/peers/ddp.py, a job a measurement."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes),
               str(HERE / "peers" / "ddp.py"), *effort.flags()]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}:\n{last_lines(done.stderr)}")
    return json.loads(lines[-1])

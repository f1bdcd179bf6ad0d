"""What scripts/bench_peers.sh compares: which figures each row needs, and what is asked of them."""
import dataclasses
from typing import Callable

# A figure's name -> overrides of bench/resnet50.yaml.
OURS = {
    "f16_b256": [],
    "f16_b256_no_scaler": ["amp.scaler.enabled=false"],
    "bf16_b256": ["amp.dtype=bfloat16"],
    "f32_b256": ["amp.dtype=float32"],
    "f16_b16": ["data.batch_size=16"],
    "f16_b32": ["data.batch_size=32"],
    "f16_b256_x2": ["distributed.world_size=2"],
}
# A figure's name -> flags of bench/peers/resnet50.py; ddp_x2 is bench/peers/ddp.py.
PEERS = {
    "eager_f16_b256": [],
    "eager_f16_b256_no_scaler": ["--no-scaler"],
    "compile_f16_b256": ["--compile"],
    "eager_bf16_b256": ["--dtype", "bfloat16"],
    "compile_bf16_b256": ["--dtype", "bfloat16", "--compile"],
    "eager_f32_b256": ["--dtype", "float32"],
    "eager_f16_b16": ["--batch", "16"],
    "eager_f16_b32": ["--batch", "32"],
    "ddp_x2": [],
}
SMALL = {"f16_b16", "f16_b32", "eager_f16_b16", "eager_f16_b32"}
RATE, PEAK, FIRST = "samples_per_sec", "peak_allocated_gib", "first_step_seconds"
UNITS = {RATE: "images/s", PEAK: "GiB", FIRST: "s"}


@dataclasses.dataclass(frozen=True)
class Row:
    """ours / theirs against what is asked; `theirs` may be several figures, of which the best one counts."""
    group: str
    text: str
    figure: str
    ours: str
    theirs: tuple[str, ...]
    at_least: float | None = None
    at_most: float | None = None
    times: float = 1.0  # theirs is multiplied by it

    def asked(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}" if self.at_most is not None else "-"

    def met(self, ratio: float) -> bool | None:
        if self.at_least is not None:
            return ratio >= self.at_least
        return ratio <= self.at_most if self.at_most is not None else None

    def ratio(self, value: Callable[[str, str], float]) -> tuple[float, float, float]:
        """Ours, theirs, and the first by the second; value(name, figure) gives a median."""
        best = max if self.figure == RATE else min
        theirs = self.times * best(value(name, self.figure) for name in self.theirs)
        ours = value(self.ours, self.figure)
        return ours, theirs, ours / theirs


ROWS = [
    Row("f16_b256", "float16 b256 / eager", RATE, "f16_b256", ("eager_f16_b256",), at_least=1.5),
    Row("f16_b256", "float16 b256 / torch.compile", RATE, "f16_b256", ("compile_f16_b256",), at_least=1.28),
    Row("bf16_b256", "bfloat16 b256 / better of eager, compile", RATE, "bf16_b256",
        ("eager_bf16_b256", "compile_bf16_b256"), at_least=1.28),
    Row("small", "float16 b16 / eager", RATE, "f16_b16", ("eager_f16_b16",), at_least=5),
    Row("small", "float16 b32 / eager", RATE, "f16_b32", ("eager_f16_b32",), at_least=5),
    Row("memory", "peak: float16 / own float32", PEAK, "f16_b256", ("f32_b256",), at_most=0.5),
    Row("memory", "peak: float16 / PyTorch's float32", PEAK, "f16_b256", ("eager_f32_b256",), at_most=0.5),
    Row("memory", "peak: float16 / torch.compile", PEAK, "f16_b256", ("compile_f16_b256",), at_most=1.0),
    Row("scaler", "throughput: scaler on / off", RATE, "f16_b256", ("f16_b256_no_scaler",), at_least=0.99),
    Row("scaler", "the same in PyTorch eager", RATE, "eager_f16_b256", ("eager_f16_b256_no_scaler",)),
    Row("first_step", "first step / torch.compile without cache", FIRST, "f16_b256", ("compile_f16_b256",),
        at_most=0.15),
    Row("first_step", "first step / eager", FIRST, "f16_b256", ("eager_f16_b256",), at_most=1.0),
    Row("two_gpus", "two GPUs / twice one", RATE, "f16_b256_x2", ("f16_b256",), at_least=0.985, times=2.0),
    Row("two_gpus", "two GPUs / PyTorch DDP", RATE, "f16_b256_x2", ("ddp_x2",)),
]
GROUPS = list(dict.fromkeys(row.group for row in ROWS))


def figures(rows: list[Row]) -> list[str]:
    """Names of the figures that the rows need, each once."""
    return list(dict.fromkeys(name for row in rows for name in (row.ours, *row.theirs)))

"""What this machine allows at most, and how near a measurement came to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.cli.bench_tasks import Task

if TYPE_CHECKING:
    from pathlib import Path

    from onnxgen.graph.costs.decoder_work import DecoderWork


@dataclass(frozen=True, slots=True)
class Roof:
    """The bounds of a model on this machine, with some threads.

    Attributes:
        bytes_per_s: What they read from memory.
        operations_per_s: Their arithmetic peak: of bytes where the model's matrices are quantized, else of float32.
        work: What each token takes.
    """

    bytes_per_s: float
    operations_per_s: float
    work: DecoderWork

    def rate(self, task: Task) -> float:
        """The most tokens per second of a prompt, or of a decode step. Attention is not counted."""
        tokens, rows = (task.size, 1) if task.kind == "prefill" else (1, 1)
        if task.kind == "streams":
            tokens = rows = task.size
        return tokens / self.work.least_seconds(
            tokens=tokens,
            rows=rows,
            bytes_per_s=self.bytes_per_s,
            operations_per_s=self.operations_per_s,
        )


def measure_roof(graph: Path, vocab_size: int, *, threads: int) -> Roof | None:
    """Measure the machine for a model; takes a second. None where a graph does not say what it must compute.

    More threads than the processor has are not more than it allows.
    """
    import onnx_ir as ir

    from onnxgen.foundations.cpuinfo import detect_cpu
    from onnxgen.foundations.memory_bandwidth import measure_read_bandwidth
    from onnxgen.graph.costs.decoder_work import decoder_work
    from onnxgen.graph.cpu.peaks import measure_float_peak, measure_integer_peak

    work = decoder_work(ir.load(graph), vocab_size=vocab_size)
    if work is None:
        return None
    peak = measure_integer_peak if work.is_quantized else measure_float_peak
    threads = min(threads, detect_cpu().logical_cores)
    return Roof(measure_read_bandwidth(threads), peak(threads), work)

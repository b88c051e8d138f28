"""What this machine allows: bytes of the weights at memory's speed, arithmetic at the processor's peak."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxgen.foundations.memory_bandwidth import measure_read_bandwidth
from onnxgen.graph.costs.decoder_work import DecoderWork, decoder_work
from onnxgen.graph.cpu.peaks import measure_float_peak, measure_integer_peak


@dataclass(frozen=True)
class Machine:
    """Measured with the threads that all contenders have.

    Attributes:
        bytes_per_s: Read from main memory.
        byte_operations_per_s: Peak of arithmetic on bytes.
        float_operations_per_s: Peak of arithmetic on float32.
    """

    bytes_per_s: float
    byte_operations_per_s: float
    float_operations_per_s: float

    def or_better(self, other: Machine) -> Machine:
        """The best of two measurements, for a shared host gives now more and now less."""
        return Machine(
            max(self.bytes_per_s, other.bytes_per_s),
            max(self.byte_operations_per_s, other.byte_operations_per_s),
            max(self.float_operations_per_s, other.float_operations_per_s),
        )

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return asdict(self)


def measure_machine(threads: int) -> Machine:
    """Takes a second."""
    return Machine(
        measure_read_bandwidth(threads), measure_integer_peak(threads), measure_float_peak(threads)
    )


class Bounds:
    """The bounds of a model.

    Args:
        machine: Where it runs.
        folder: The model in onnxgen's form.
    """

    def __init__(self, machine: Machine, folder: Path) -> None:
        described: dict[str, Any] = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))
        decoder = described["model"]["decoder"]
        self._machine = machine
        self._attention_width = (
            decoder["num_hidden_layers"] * decoder["num_attention_heads"] * decoder["head_size"]
        )
        work = decoder_work(
            ir.load(folder / decoder["filename"]), vocab_size=described["model"]["vocab_size"]
        )
        assert work is not None, f"{folder} has matrices"
        self.work: DecoderWork = work

    def rate(self, tokens: int, rows: int, prompt: int) -> float:
        """The most tokens per second of a step.

        Weights are read once and multiplied in bytes; scores and values of a prompt's causal attention are multiplied in
        float32. What the cache of a decode step holds is not counted.
        """
        seconds = self.work.least_seconds(
            tokens=tokens,
            rows=rows,
            bytes_per_s=self._machine.bytes_per_s,
            operations_per_s=self._machine.byte_operations_per_s,
        )
        attention = 2 * prompt**2 * self._attention_width
        return tokens / (seconds + attention / self._machine.float_operations_per_s)

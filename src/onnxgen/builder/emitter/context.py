"""`Emission`: what every part of the emitter works with, and the vocabulary of shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from onnxgen.builder.data_file import DataFile
from onnxgen.builder.emitter.graph_builder import Dim, GraphBuilder
from onnxgen.builder.matrices import Matrices
from onnxgen.builder.options import BuildOptions
from onnxgen.builder.shared_data import SharedData
from onnxgen.builder.spec import DecoderSpec

if TYPE_CHECKING:
    import onnx_ir as ir

BATCH = "batch_size"
SEQUENCE = "sequence_length"
TOTAL = "total_sequence_length"
PAST = "past_sequence_length"


@dataclass(frozen=True, slots=True)
class Emission:
    """One emission in progress.

    Attributes:
        spec: What the decoder computes.
        options: How it is stored.
        matrices: Where its weights come from.
        data: Where they go.
        graph: The graph so far.
        formats: Storage formats of matrices so far, to how many there are.
    """

    spec: DecoderSpec
    options: BuildOptions
    matrices: Matrices
    data: DataFile | SharedData
    graph: GraphBuilder
    formats: Counter[str] = field(default_factory=Counter[str])

    @property
    def activation(self) -> npt.DTypeLike:
        """Numpy type of activations."""
        return self.graph.activation.numpy()

    def stream(self, width: int) -> list[Dim]:
        """Shape of an activation ``[batch, seq, width]``."""
        return [BATCH, SEQUENCE, width]

    def layer(self, index: int) -> str:
        """What stands before the tensor names of a layer."""
        return f"model.layers.{index}."

    def vector(self, name: str, values: npt.NDArray[np.float32]) -> ir.Value:
        """Store a vector in the activations' type and add it to the graph."""
        array = values.astype(self.activation)
        tensor = self.data.append(name, [array], dtype=self.graph.activation, shape=array.shape)
        return self.graph.weight(name, tensor)

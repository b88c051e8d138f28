"""``ReverseSequence``."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axes
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("ReverseSequence", 10, 28)
def reverse_sequence(node: NodeSpec) -> Kernel:
    """Reverse the first ``lengths[b]`` elements of each sequence of a batch; the rest stays."""
    time_axis, batch_axis = node.attr("time_axis", 0), node.attr("batch_axis", 1)

    def run(x: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        checked_axes(node, (time_axis, batch_axis), x.ndim)
        sequences = np.moveaxis(x, (time_axis, batch_axis), (0, 1))
        if lengths.shape != sequences.shape[1:2] or (lengths < 0).any() or (lengths > len(sequences)).any():
            raise KernelError(
                f"{node}: sequence_lens {lengths.tolist()} do not fit {sequences.shape[1]} sequences of {len(sequences)} steps"
            )
        steps = np.arange(sequences.shape[0])[:, None]  # [steps, 1]
        order = np.where(steps < lengths, lengths - 1 - steps, steps)  # [steps, batch]
        y = sequences[order, np.arange(sequences.shape[1])]
        return np.array(np.moveaxis(y, (0, 1), (time_axis, batch_axis)), order="C")

    return Kernel(run)

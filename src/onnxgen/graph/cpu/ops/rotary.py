"""RotaryEmbedding of the standard."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.arrays import function_kernel
from onnxgen.graph.cpu.attention import from_heads, to_heads
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.rotary import rotated
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("RotaryEmbedding", 23)
def rotary_embedding(node: NodeSpec) -> Kernel:
    """Rotate pairs of each head by the angles of their positions; part of a head with ``rotary_embedding_dim``."""
    interleaved, num_heads = bool(node.attr("interleaved", 0)), node.attr("num_heads", 0)
    rotary_dim = node.attr("rotary_embedding_dim", 0)

    def run(
        x: np.ndarray, cos: np.ndarray, sin: np.ndarray, positions: np.ndarray | None = None
    ) -> np.ndarray:
        if x.ndim == 3 and (not num_heads or x.shape[2] % num_heads):
            raise KernelError(f"{node}: shape {x.shape} does not split into num_heads={num_heads}")
        heads = widened(x if x.ndim == 4 else to_heads(x, num_heads))  # (batch, heads, seq, head_dim)
        half = (rotary_dim or heads.shape[3]) // 2
        if cos.shape[-1] != half or sin.shape[-1] != half:
            raise KernelError(f"{node}: caches have {cos.shape[-1]} angles where {half} are rotated")
        cos_rows, sin_rows = (  # (batch, 1, seq, half)
            widened(cache if positions is None else cache[checked_indices(node, positions, len(cache))])[
                :, None
            ]
            for cache in (cos, sin)
        )
        y = rotated(heads, cos_rows, sin_rows, interleaved=interleaved)
        return (y if x.ndim == 4 else from_heads(y)).astype(x.dtype, copy=False)

    return function_kernel(run)

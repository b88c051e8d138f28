"""RotaryEmbedding of the standard."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.rotary import rotate_heads
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("RotaryEmbedding", 23)
def rotary_embedding(node: NodeSpec) -> Kernel:
    """Rotate pairs of each head by the angles of their positions; part of a head with ``rotary_embedding_dim``."""
    interleaved, num_heads = bool(node.attr("interleaved", 0)), node.attr("num_heads", 0)
    rotary_dim = node.attr("rotary_embedding_dim", 0)

    def into(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, *rest: Any) -> None:
        *given, y = rest
        positions: Any = given[0] if given else None
        if x.ndim == 3 and (not num_heads or x.shape[2] % num_heads):
            raise KernelError(f"{node}: shape {x.shape} does not split into num_heads={num_heads}")
        source, target = (
            (v.swapaxes(1, 2) if v.ndim == 4 else v.reshape(*v.shape[:2], num_heads, -1)) for v in (x, y)
        )  # (batch, seq, heads, head_dim)
        half = (rotary_dim or source.shape[3]) // 2
        if cos.shape[-1] != half or sin.shape[-1] != half:
            raise KernelError(f"{node}: caches have {cos.shape[-1]} angles where {half} are rotated")
        if positions is None:  # caches have a row of angles for each token
            positions = np.arange(source.shape[0] * source.shape[1]).reshape(source.shape[:2])
            cos, sin = cos.reshape(-1, half), sin.reshape(-1, half)
        places = checked_indices(node, positions, len(cos))
        if places.shape != source.shape[:2] or cos.shape != sin.shape:
            raise KernelError(
                f"{node}: positions {places.shape} and caches {cos.shape} and {sin.shape} do not fit input {x.shape}"
            )
        rotate_heads(source, cos, sin, places, target, interleaved=interleaved)

    def run(
        x: np.ndarray, cos: np.ndarray, sin: np.ndarray, positions: np.ndarray | None = None
    ) -> np.ndarray:
        y = np.empty(x.shape, x.dtype)
        into(x, cos, sin, positions, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))

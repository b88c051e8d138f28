"""Rotary embeddings of ``com.microsoft``.

How much of a head is rotated follows from the width of the caches. The attributes ``rotary_embedding_dim``, ``scale`` and
``is_packed_batching`` change nothing beside that, as in ONNX Runtime.
"""

from __future__ import annotations

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.rotary import rotated
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("RotaryEmbedding", 1, domain=MICROSOFT)
def rotary_embedding(node: NodeSpec) -> Kernel:
    """Rotates ``[batch, seq, hidden]`` or ``[batch, heads, seq, head_dim]``; one position id is that of the first token."""

    def run(x: np.ndarray, positions: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        batch, seq = _batch_and_seq(x)
        if positions.size == 1 and positions.ndim < 2:
            positions = int(positions.reshape(-1)[0]) + np.broadcast_to(np.arange(seq), (batch, seq))
        if positions.shape != (batch, seq):
            raise KernelError(f"{node}: position_ids {positions.shape} do not fit input {x.shape}")
        places = checked_indices(node, positions, len(cos))
        return _rotate_input(node, x, widened(cos)[places], widened(sin)[places])

    return Kernel(run)


@TABLE.operator("MRotaryEmbedding", 1, domain=MICROSOFT)
def multimodal_rotary_embedding(node: NodeSpec) -> Kernel:
    """Three positions for each token, by time, height and width: each gives a section of the angles."""
    sections: tuple[int, ...] = node.attr("mrope_section", ())
    if len(sections) != 3 or min(sections) < 0:
        raise InvalidGraphError(
            f"{node}: mrope_section {list(sections)} needs three numbers that are not negative"
        )
    interleaves = node.attr("mrope_layout", 0) == 1

    def run(x: np.ndarray, positions: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        half = cos.shape[1]
        if positions.shape != (3, *_batch_and_seq(x)) or sum(sections) != half:
            raise KernelError(
                f"{node}: position_ids {positions.shape} or sections {list(sections)} do not fit input {x.shape} and {half} angles"
            )
        stream = np.repeat(np.arange(3), sections)
        if interleaves:
            stream = np.zeros(half, np.int64)
            for which in (1, 2):
                stream[which : sections[which] * 3 : 3] = which
        places = checked_indices(node, positions, len(cos))[stream]  # [half, batch, seq]
        angles = np.arange(half)
        picked = (widened(table)[np.moveaxis(places, 0, -1), angles] for table in (cos, sin))
        return _rotate_input(node, x, *picked)

    return Kernel(run)


def _batch_and_seq(x: np.ndarray) -> tuple[int, int]:
    return x.shape[0], x.shape[2 if x.ndim == 4 else 1]


def _rotate_input(node: NodeSpec, x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """Rotate with angles ``[batch, seq, half]``; the heads are the input's, the attribute's, or as wide as the angles."""
    interleaved = bool(node.attr("interleaved", 0))
    if x.ndim == 4:
        y = rotated(widened(x), cos[:, None], sin[:, None], interleaved=interleaved)
        return y.astype(x.dtype, copy=False)
    batch, seq, hidden = x.shape
    heads = node.attr("num_heads", 0) or hidden // (2 * cos.shape[-1])
    if hidden % heads:
        raise KernelError(f"{node}: input {x.shape} does not have {heads} heads of one size")
    split = widened(x).reshape(batch, seq, heads, hidden // heads)
    y = rotated(split, cos[:, :, None], sin[:, :, None], interleaved=interleaved)
    return y.reshape(x.shape).astype(x.dtype, copy=False)


@TABLE.operator("GemmaRotaryEmbedding", 1, domain=MICROSOFT)
def gemma_rotary_embedding(node: NodeSpec) -> Kernel:
    """Query and key times the cosine of the angles, plus their rotated halves times the sine."""

    def run(
        angles: np.ndarray,
        query: np.ndarray,
        query_rotated: np.ndarray,
        key: np.ndarray,
        key_rotated: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        cos, sin = (np.expand_dims(f(angles), 1).astype(query.dtype) for f in (np.cos, np.sin))
        return query * cos + query_rotated * sin, key * cos + key_rotated * sin

    return Kernel(run)

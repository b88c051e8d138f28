"""Rotary embeddings of ``com.microsoft``.

How much of a head is rotated follows from the width of the caches. The attributes ``rotary_embedding_dim``, ``scale`` and
``is_packed_batching`` change nothing beside that, as in ONNX Runtime.
"""

from __future__ import annotations

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_indices
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.rotary import rotate_heads
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("RotaryEmbedding", 1, domain=MICROSOFT)
def rotary_embedding(node: NodeSpec) -> Kernel:
    """Rotates ``[batch, seq, hidden]`` or ``[batch, heads, seq, head_dim]``; one position id is that of the first token."""

    def into(x: np.ndarray, positions: np.ndarray, cos: np.ndarray, sin: np.ndarray, y: np.ndarray) -> None:
        batch, seq = _batch_and_seq(x)
        if positions.size == 1 and positions.ndim < 2:
            positions = int(positions.reshape(-1)[0]) + np.broadcast_to(np.arange(seq), (batch, seq))
        if positions.shape != (batch, seq):
            raise KernelError(f"{node}: position_ids {positions.shape} do not fit input {x.shape}")
        _rotate_input(node, x, cos, sin, checked_indices(node, positions, len(cos)), y)

    def run(x: np.ndarray, positions: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
        y = np.empty(x.shape, x.dtype)
        into(x, positions, cos, sin, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))


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
        angles, y = np.arange(half), np.empty(x.shape, x.dtype)
        cos, sin = (
            table[np.moveaxis(places, 0, -1), angles].reshape(-1, half) for table in (cos, sin)
        )  # a row for each token
        _rotate_input(node, x, cos, sin, np.arange(len(cos)).reshape(_batch_and_seq(x)), y)
        return y

    return Kernel(run)


def _batch_and_seq(x: np.ndarray) -> tuple[int, int]:
    return x.shape[0], x.shape[2 if x.ndim == 4 else 1]


def _rotate_input(
    node: NodeSpec, x: np.ndarray, cos: np.ndarray, sin: np.ndarray, positions: np.ndarray, y: np.ndarray
) -> None:
    """Rotate by tables ``[rows, half]``; the heads are the input's, the attribute's, or as wide as the angles."""
    half, interleaved = cos.shape[1], bool(node.attr("interleaved", 0))
    source, target = x, y
    if x.ndim == 4:
        source, target = x.swapaxes(1, 2), y.swapaxes(1, 2)
    else:
        batch, seq, hidden = x.shape
        heads = node.attr("num_heads", 0) or hidden // (2 * half)
        if not heads or hidden % heads:
            raise KernelError(f"{node}: input {x.shape} does not have {heads} heads of one size")
        source, target = (v.reshape(batch, seq, heads, hidden // heads) for v in (x, y))
    if cos.shape != sin.shape or 2 * half > source.shape[3]:
        raise KernelError(f"{node}: caches {cos.shape} and {sin.shape} do not fit heads of {source.shape[3]}")
    rotate_heads(source, cos, sin, positions, target, interleaved=interleaved)


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

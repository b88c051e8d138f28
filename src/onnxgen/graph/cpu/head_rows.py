"""Heads of queries, keys and values on their way to attention: normed, rotated, cached."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from onnxgen.graph.cpu.team import share

ELEMENT_KINDS = {
    np.dtype(np.float32): 0,
    np.dtype(np.float16): 1,
    np.dtype(ml_dtypes.bfloat16): 2,
    np.dtype(np.int8): 3,
    np.dtype(np.uint8): 4,
}
"""Element types as `compiled.widening` counts them; uint8 is two 4-bit numbers."""

FLOAT_TYPES = frozenset(np.dtype(kind) for kind in (np.float32, np.float16, ml_dtypes.bfloat16))
"""What heads come in."""

_ELEMENTS_PER_S = 1.5e9
"""Of one thread, roughly: to tell what is worth sharing."""

_ELEMENTS_OF_A_PART = 16384


@dataclass(frozen=True, slots=True)
class Angles:
    """How pairs are rotated.

    Attributes:
        cos: ``[positions, half]`` of a type of `FLOAT_TYPES`, C-contiguous.
        sin: Likewise.
        positions: int64 ``[batch, seq]``, each within ``cos``; C-contiguous.
        interleaved: Whether pairs are neighbours; otherwise an element of the first half and one of the second.
        offset: Where in a head the rotated elements begin.
    """

    cos: np.ndarray
    sin: np.ndarray
    positions: np.ndarray
    interleaved: bool = False
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A tensor and where it goes; last axes lie side by side, the others may have any strides.

    Attributes:
        source: ``[batch, seq, heads, dim]`` of a type of `FLOAT_TYPES`.
        target: ``[batch, rows, heads, dim]`` of a type of `ELEMENT_KINDS`, perhaps the source; 4-bit rows are half as long.
        places: int64 ``[batch, seq]``, C-contiguous: the row of each token, nowhere where negative; in order by default.
        weight: float32 ``[dim]`` of an RMS norm before all else.
        epsilon: Of that norm.
        angles: The rotation, if any.
        scale: float32 ``[heads, dim]``, C-contiguous, where the target holds whole numbers.
    """

    source: np.ndarray
    target: np.ndarray
    places: np.ndarray | None = None
    weight: np.ndarray | None = None
    epsilon: float = 0.0
    angles: Angles | None = None
    scale: np.ndarray | None = None


def move_heads(*moves: Move) -> None:
    """Carry out moves, none of which reads what another writes."""
    from onnxgen.graph.cpu.compiled.head_rows import HEADS
    from onnxgen.graph.cpu.compiled.head_rows import move_heads as compiled_move

    records = np.empty(len(moves), HEADS)
    for i, move in enumerate(moves):
        records[i] = _record(move)
    elements = max(move.source.size for move in moves)
    if not elements:
        return
    tokens = max(move.source.shape[0] * move.source.shape[1] for move in moves)
    each = max(1, _ELEMENTS_OF_A_PART * tokens // elements)
    parts_each = -(-tokens // each)
    seconds = sum(move.source.size for move in moves) / _ELEMENTS_PER_S
    share(compiled_move(), records, each, parts_each, parts=parts_each * len(moves), seconds=seconds)


def _record(move: Move) -> tuple[float, ...]:
    source, target, angles = move.source, move.target, move.angles
    source_batch, source_row, source_head, _ = source.strides
    target_batch, target_row, target_head, _ = target.strides
    turns: tuple[int, ...] = (0, 0, 0, 0, 0, 0, 0)
    if angles is not None:
        turns = (
            *(angles.cos.ctypes.data, angles.sin.ctypes.data, ELEMENT_KINDS[angles.cos.dtype]),
            *(angles.positions.ctypes.data, angles.cos.shape[1], angles.offset, angles.interleaved),
        )
    return (
        *(source.ctypes.data, source_batch, source_row, source_head, ELEMENT_KINDS[source.dtype]),
        *(target.ctypes.data, target_batch, target_row, target_head, ELEMENT_KINDS[target.dtype]),
        *source.shape,
        *(0 if x is None else x.ctypes.data for x in (move.places, move.scale, move.weight)),
        *turns,
        move.epsilon,
    )

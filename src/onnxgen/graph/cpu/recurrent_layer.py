"""Recurrent layers of float32 with their usual activations, by compiled loops; weights are packed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu import tiled_products
from onnxgen.graph.cpu.compiled.products import packed_columns
from onnxgen.graph.cpu.compiled.recurrent import GATES, Cell, recurrence, recurrent_tile
from onnxgen.graph.cpu.team import num_threads, share

_OPERATIONS_PER_S = 20e9
"""Of one thread, roughly: to tell what is worth sharing."""


@dataclass(frozen=True, slots=True)
class PackedRecurrence:
    """Weights of a layer as its loops read them.

    Attributes:
        cell: Which layer it is.
        hidden: Elements of the state.
        inputs: For each direction the packed input weights.
        input_bias: float32 ``[directions, gates * hidden]``: what is added for all steps at once.
        recurrent: float32 ``[directions, panels, hidden, columns]``, for a sequence alone and for more.
        hidden_bias: float32 ``[directions, hidden]``: GRU's of the hidden gate, which reset may scale.
    """

    cell: Cell
    hidden: int
    inputs: tuple[np.ndarray, ...]
    input_bias: np.ndarray
    recurrent: tuple[np.ndarray, np.ndarray]
    hidden_bias: np.ndarray

    @classmethod
    def of(
        cls, cell: Cell, w: np.ndarray, r: np.ndarray, b: np.ndarray | None, *, linear: bool = False
    ) -> PackedRecurrence:
        """Pack float32 ``w [directions, gates * hidden, features]``, ``r [.., hidden]`` and ``b [.., 2 * gates * hidden]``.

        ``linear`` says that GRU resets after the recurrent weights.
        """
        hidden, gates = r.shape[2], GATES[cell] * r.shape[2]
        if r.shape[1] != gates or w.shape[:2] != r.shape[:2]:
            raise KernelError(
                f"weights {w.shape} and {r.shape} are not those of a {cell} of {hidden} elements"
            )
        biases = np.zeros((len(r), 2, gates), np.float32) if b is None else b.reshape(len(r), 2, gates)
        input_bias, hidden_bias = biases.sum(1), np.zeros((len(r), hidden), np.float32)
        if cell == "GRU" and linear:
            hidden_bias = np.ascontiguousarray(biases[:, 1, 2 * hidden :])
            input_bias[:, 2 * hidden :] = biases[:, 0, 2 * hidden :]
        return cls(
            cell,
            hidden,
            tuple(tiled_products.pack(matrix.T) for matrix in w),
            input_bias,
            (_packed_recurrent(cell, r, batch=1), _packed_recurrent(cell, r, batch=2)),
            hidden_bias,
        )


def _packed_recurrent(cell: Cell, r: np.ndarray, *, batch: int) -> np.ndarray:
    columns, hidden = recurrent_tile(batch).columns, r.shape[2]
    cuts = (slice(0, 2 * hidden), slice(2 * hidden, None)) if cell == "GRU" else (slice(None),)
    return np.stack([np.concatenate([packed_columns(m[cut].T, columns) for cut in cuts]) for m in r])


def run_layer(
    weights: PackedRecurrence,
    x: np.ndarray,
    *,
    reverse: Sequence[bool],
    lengths: np.ndarray | None,
    states: Sequence[np.ndarray | None],
    linear: bool = False,
) -> list[np.ndarray]:
    """Run all directions of a layer, whose inputs fit each other.

    Args:
        weights: Its weights.
        x: float32 ``[steps, batch, features]``.
        reverse: For each direction whether it runs from the end.
        lengths: Steps of each sequence, ``[batch]``; None when all have every step.
        states: Before the first step, ``[directions, batch, hidden]`` each; None for zeros.
        linear: Whether GRU resets after the recurrent weights.

    Returns:
        Hidden states ``[steps, directions, batch, hidden]`` and the states after the last step.
    """
    steps, batch, _ = x.shape
    directions, hidden = len(reverse), weights.hidden
    rows = np.ascontiguousarray(x).reshape(steps * batch, -1)
    projected = np.empty((directions, steps, batch, GATES[weights.cell] * hidden), np.float32)
    for matrix, bias, target in zip(weights.inputs, weights.input_bias, projected, strict=True):
        target[...] = bias
        tiled_products.multiply_packed(rows, matrix, target.reshape(steps * batch, -1), fresh=False)
    y = np.empty((steps, directions, batch, hidden), np.float32)
    final = [
        np.zeros((directions, batch, hidden), np.float32) if s is None else np.array(s, np.float32, order="C")
        for s in states
    ]
    shape = recurrent_tile(batch)
    each = shape.rows * -(-batch // (shape.rows * num_threads()))
    share(
        recurrence(weights.cell, shape),
        projected,
        weights.recurrent[batch > 1],
        weights.hidden_bias,
        np.array(reverse, np.bool_),
        np.full(batch, steps, np.int64) if lengths is None else lengths.astype(np.int64),
        linear,
        y,
        final[0],
        final[-1],
        each,
        parts=directions * -(-batch // each),
        seconds=2 * projected.size * hidden / _OPERATIONS_PER_S,
    )
    return [y, *final]

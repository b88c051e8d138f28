"""The recurrence of linear attention: a matrix for each head that every token decays, corrects and reads.

state *= exp(decay)                     where the rule is gated
v = beta * (v - state^T k)              where it is a delta rule
state += k v^T;  y = scale * state^T q
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.team import share

RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}
"""By name: whether the state decays, and whether values are corrected."""

_ELEMENTS_PER_S = 16e9
"""Elements of states that one thread passes, roughly: to tell what is worth sharing."""


@dataclass(frozen=True, slots=True)
class Unrolled:
    """What the recurrence gives.

    Attributes:
        output: ``[tokens, max(q_heads, heads), v_head_dim]``.
        state: ``[sequences, heads, head_dim, v_head_dim]`` after the last token of each sequence.
        states: ``[window, sequences, heads, head_dim, v_head_dim]``: after each of the last tokens; zeros before the first.
        added: ``[sequences, capacity, heads, v_head_dim]``: what the first tokens added to the values' side of the state;
            zeros beyond those that were asked for.
    """

    output: np.ndarray
    state: np.ndarray
    states: np.ndarray
    added: np.ndarray


def unroll(
    past: np.ndarray,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    bounds: Sequence[int],
    *,
    scale: float,
    decay: np.ndarray | None,
    beta: np.ndarray | None,
    window: int = 0,
    captures: Sequence[int] | None = None,
    capacity: int = 0,
    output: np.ndarray | None = None,
    state: np.ndarray | None = None,
) -> Unrolled:
    """Run the recurrence over the tokens of each sequence, in float32.

    Args:
        past: ``[sequences, heads, head_dim, v_head_dim]``, the states before.
        query: ``[tokens, q_heads, head_dim]``; one of ``q_heads`` and ``heads`` is a multiple of the other.
        key: ``[tokens, k_heads, head_dim]``; ``heads`` is a multiple of ``k_heads``.
        value: ``[tokens, heads, v_head_dim]``.
        bounds: Where sequences begin among the tokens, and where the last one ends.
        scale: Of queries.
        decay: ``[tokens, heads, 1 or head_dim]``, in log space; None where the rule is not gated.
        beta: ``[tokens, 1 or heads]``; None where it is no delta rule.
        window: After how many of the last tokens states are wanted.
        captures: Of how many first tokens of each sequence updates are wanted, at most ``capacity``.
        capacity: How many fit.
        output: Where the output goes, float32 and C-contiguous; new memory by default.
        state: Where the state goes, likewise; perhaps the memory of ``past``.

    Raises:
        KernelError: shapes do not fit each other.
    """
    from onnxgen.graph.cpu.compiled.delta_rule import PANEL, recurrence

    sequences, heads, dim, width = past.shape
    tokens = len(query)
    _check(past, query, key, value, decay, beta, bounds)
    output = np.empty((tokens, max(query.shape[1], heads), width), np.float32) if output is None else output
    states = np.zeros((window, *past.shape), np.float32)
    added = np.zeros((sequences, capacity, heads, width), np.float32)
    state = np.empty(past.shape, np.float32) if state is None else state
    if not state.size:
        output[...] = 0
    else:
        share(
            recurrence(),
            *(np.ascontiguousarray(past, np.float32), state),
            *(np.ascontiguousarray(x, np.float32) for x in (query, key, value)),
            np.empty((0, heads, 1), np.float32) if decay is None else np.ascontiguousarray(decay, np.float32),
            np.empty((0, 1), np.float32) if beta is None else np.ascontiguousarray(beta, np.float32),
            np.float32(scale),
            np.array(bounds, np.int64),
            output,
            states,
            added,
            np.array([0] * sequences if captures is None else captures, np.int64),
            parts=sequences * heads * -(-width // PANEL),
            seconds=max(1, tokens) * heads * dim * width / _ELEMENTS_PER_S,
        )
    return Unrolled(output, state, states, added)


def _check(
    past: np.ndarray,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    decay: np.ndarray | None,
    beta: np.ndarray | None,
    bounds: Sequence[int],
) -> None:
    (sequences, heads, dim, width), tokens = past.shape, len(query)
    groups = query.shape[1] % heads == 0 or heads % query.shape[1] == 0
    fits = groups and heads % key.shape[1] == 0 and query.shape[2] == key.shape[2] == dim
    fits &= key.shape[0] == tokens and value.shape == (tokens, heads, width)
    fits &= len(bounds) == sequences + 1
    if decay is not None:
        fits &= decay.shape in ((tokens, heads, 1), (tokens, heads, dim))
    if beta is not None:
        fits &= beta.shape in ((tokens, 1), (tokens, heads))
    if not fits:
        raise KernelError(
            f"states {past.shape} of {len(bounds) - 1} sequences do not fit query {query.shape}, key {key.shape}, "
            f"value {value.shape}, decay {None if decay is None else decay.shape}, beta {None if beta is None else beta.shape}"
        )

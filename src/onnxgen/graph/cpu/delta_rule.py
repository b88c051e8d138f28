"""The recurrence of linear attention: a matrix for each head that every token decays, corrects and reads.

state *= exp(decay)                     where the rule is gated
v = beta * (v - state^T k)              where it is a delta rule
state += k v^T;  y = scale * state^T q
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

RULES = {
    "linear": (False, False),
    "gated": (True, False),
    "delta": (False, True),
    "gated_delta": (True, True),
}
"""By name: whether the state decays, and whether values are corrected."""


def unroll(
    state: np.ndarray,
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *,
    decay: np.ndarray | None,
    beta: np.ndarray | None,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Run the recurrence over the tokens, changing the state in place.

    Args:
        state: ``[..., heads, head_dim, v_head_dim]`` float32.
        query: ``[..., seq, q_heads, head_dim]``, scaled; one of ``q_heads`` and ``heads`` is a multiple of the other.
        key: ``[..., seq, k_heads, head_dim]``; ``heads`` is a multiple of ``k_heads``.
        value: ``[..., seq, heads, v_head_dim]``.
        decay: ``[..., seq, heads, 1 or head_dim]``, in log space.
        beta: ``[..., seq, heads, 1]``.

    Yields:
        For each token the output ``[..., max(q_heads, heads), v_head_dim]``, the decay ``[..., heads, 1 or head_dim]``
        (1 without one), and what was added to the values' side of the state ``[..., heads, v_head_dim]``.
    """
    heads = state.shape[-3]
    key = np.repeat(key, heads // key.shape[-2], axis=-2)
    query = np.repeat(query, max(1, heads // query.shape[-2]), axis=-2)
    group = query.shape[-2] // heads
    kept = np.ones((*key.shape[:-1], 1), state.dtype) if decay is None else np.exp(decay)
    for token in range(key.shape[-3]):
        keep, row, update = (x[..., token, :, :] for x in (kept, key, value))
        if decay is not None:
            state *= keep[..., :, None]
        if beta is not None:
            update = beta[..., token, :, :] * (update - (row[..., None, :] @ state)[..., 0, :])
        state += row[..., :, None] * update[..., None, :]
        q = query[..., token, :, :]
        grouped = q.reshape(*q.shape[:-2], heads, group, q.shape[-1])
        output = (grouped @ state).reshape(*q.shape[:-1], state.shape[-1])
        yield output, keep, update

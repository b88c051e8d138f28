"""The compiled recurrence against its definition in float64."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.delta_rule import unroll


def defined(state, query, key, value, scale, decay, beta):
    """Of one sequence: outputs, and the states and updates after each token."""
    state, heads = state.astype(np.float64), len(state)
    outputs, states, updates = [], [], []
    for token in range(len(query)):
        q = query[token].astype(np.float64) * scale
        k = np.repeat(key[token].astype(np.float64), heads // key.shape[1], axis=0)
        q = np.repeat(q, max(1, heads // len(q)), axis=0)
        if decay is not None:
            state = state * np.exp(decay[token].astype(np.float64))[:, :, None]
        update = value[token].astype(np.float64)
        if beta is not None:
            rate = np.broadcast_to(beta[token], heads)[:, None]
            update = rate * (update - np.einsum("hd,hdw->hw", k, state))
        state = state + k[:, :, None] * update[:, None]
        owners = np.repeat(state, len(q) // heads, axis=0)
        outputs.append(np.einsum("hd,hdw->hw", q, owners))
        states.append(state)
        updates.append(update)
    return outputs, states, updates


@pytest.mark.parametrize(("dim", "width"), [(1, 1), (3, 33), (16, 32), (64, 100), (128, 128), (40, 200)])
@pytest.mark.parametrize(("q_heads", "k_heads", "heads"), [(1, 1, 1), (4, 2, 2), (2, 1, 4), (2, 2, 4)])
@pytest.mark.parametrize("wide", [False, True])
def test_sequences_of_any_length(dim, width, q_heads, k_heads, heads, wide):
    rng = fresh_rng()
    bounds = np.cumsum([0, *rng.integers(0, 9, 4), 1]).tolist()
    tokens, sequences, window, capacity = bounds[-1], 5, 3, 4
    past, query, key, value = (
        rng.standard_normal(shape).astype(np.float32)
        for shape in (
            *((sequences, heads, dim, width), (tokens, q_heads, dim)),
            *((tokens, k_heads, dim), (tokens, heads, width)),
        )
    )
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    decay = -rng.random((tokens, heads, dim if wide else 1)).astype(np.float32)
    beta = rng.random((tokens, int(rng.choice([1, heads])))).astype(np.float32)
    captures = [min(int(rng.integers(0, capacity + 1)), b - a) for a, b in pairwise(bounds)]
    for gates in ((None, None), (decay, None), (None, beta), (decay, beta)):
        kept, rate = gates
        found = unroll(
            *(past, query, key, value, bounds),
            scale=0.3,
            decay=kept,
            beta=rate,
            window=window,
            captures=captures,
            capacity=capacity,
        )
        for index in range(sequences):
            span = slice(bounds[index], bounds[index + 1])
            parts = [None if x is None else x[span] for x in (query, key, value, kept, rate)]
            outputs, states, updates = defined(past[index], *parts[:3], 0.3, *parts[3:])
            states = [past[index], *states]
            close = {"rtol": 1e-4, "atol": 1e-4}
            if outputs:
                np.testing.assert_allclose(found.output[span], outputs, **close)
            np.testing.assert_allclose(found.state[index], states[-1], **close)
            for back in range(1, window + 1):
                want = states[-back] if back < len(states) else np.zeros_like(past[index])
                np.testing.assert_allclose(found.states[window - back, index], want, **close)
            assert not found.added[index, captures[index] :].any()
            if captures[index]:
                np.testing.assert_allclose(
                    found.added[index, : captures[index]], updates[: captures[index]], **close
                )


def test_what_does_not_fit_is_told():
    past, rows = np.zeros((1, 2, 4, 4), np.float32), np.zeros((3, 2, 4), np.float32)
    with pytest.raises(KernelError, match="do not fit query"):
        unroll(past, rows, rows[:, :, :3], rows, [0, 3], scale=1, decay=None, beta=None)

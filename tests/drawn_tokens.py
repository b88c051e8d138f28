"""What a token drawn from logits is by definition, in float64: sort everything, cut, cut, walk to the random number."""

import numpy as np

NOTHING_BETWEEN = 1e-6
"""Shares of the weight that rounding may confuse."""


def within_bounds(temperature):
    """A temperature that tells banned tokens apart from others."""
    return min(max(temperature, 1e-15), 1e12)


def candidates(row, *, temperature, top_k, top_p):
    """Ids in the order in which they are walked, their shares, and how near the nucleus' end is to falling elsewhere."""
    vocab = len(row)
    weights = np.exp((row.astype(np.float64) - row.max()) / within_bounds(temperature))
    if not 0 < top_k < vocab and top_p >= 1:
        return np.arange(vocab), weights / weights.sum(), 1.0
    ids = np.argsort(-row, kind="stable")
    if 0 < top_k < vocab:
        ids = ids[:top_k]
    shares = weights[ids] / weights[ids].sum()
    if top_p >= 1:
        return ids, shares, 1.0
    reached = np.cumsum(shares)
    size = min(int(np.searchsorted(reached, top_p)) + 1, len(ids))
    return ids[:size], shares[:size] / reached[size - 1], np.abs(reached - top_p).min()


def number_at(seed, stream, position):
    """The random number of a position of a stream."""
    generator = np.random.Philox(key=seed | (stream << 64), counter=position)
    return (int(generator.random_raw()) >> 11) * 2.0**-53


def expected_tokens(row, draw):
    """The token by definition, of a draw without filters; and, where rounding decides, those beside it."""
    if draw.temperature == 0 or draw.top_k == 1 or draw.top_p == 0:
        return {int(row.argmax())}
    ids, shares, margin = candidates(row, temperature=draw.temperature, top_k=draw.top_k, top_p=draw.top_p)
    number = number_at(draw.seed, draw.stream, draw.position)
    if margin < NOTHING_BETWEEN:
        return set(ids.tolist())  # one more candidate or one less moves every goal
    reached = np.cumsum(shares)
    first, last = np.searchsorted(reached, [number - NOTHING_BETWEEN, number + NOTHING_BETWEEN], side="right")
    return set(ids[first : last + 1].tolist()) or {int(ids[np.flatnonzero(shares)[-1]])}

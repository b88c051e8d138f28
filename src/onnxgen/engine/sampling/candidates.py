"""Which tokens may be drawn, and how likely each is: temperature, top-k and top-p.

Everything here is about one row and exact: the candidates of a row never depend on how many there are to
look at first, nor on other rows. Ties go to the lower token id.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Row = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]
Weights = npt.NDArray[np.float64]

_FIRST_LOOK = 256
_LOOK_GROWTH = 8


def best_tokens(row: Row, count: int) -> Ids:
    """The ``count`` best tokens of ``row`` ``[vocab]``, best first; ties go to the lower id."""
    vocab = row.shape[0]
    if count < vocab:
        threshold = np.partition(row, vocab - count)[vocab - count]
        ids = np.flatnonzero(row >= threshold)
    else:
        ids = np.arange(vocab)
    order = np.argsort(-row[ids], kind="stable")
    return ids[order[:count]]


def weights_of(row: Row, temperature: float) -> Weights:
    """Unnormalized probabilities ``exp((row - max) / temperature)``, float64; the best token weighs 1."""
    shifted = row.astype(np.float64)
    with np.errstate(over="ignore"):  # tiny temperatures: -inf, weight 0
        return np.exp((shifted - shifted.max()) / temperature)


def nucleus_size(weights: Weights, top_p: float, *, total: float | None = None) -> int | None:
    """How many leading entries of descending ``weights`` reach ``top_p`` of ``total`` (default: their sum).

    None when all of them together do not reach it. At least 1.
    """
    reached = np.cumsum(weights)
    target = top_p * (reached[-1] if total is None else total)
    size = int(np.searchsorted(reached, target)) + 1
    return size if size <= weights.shape[0] else None


def candidates(row: Row, *, temperature: float, top_k: int, top_p: float) -> tuple[Ids, Weights]:
    """Tokens that may be drawn and their unnormalized probabilities.

    Args:
        row: Logits, float32 ``[vocab]``.
        temperature: Above 0.
        top_k: 0, or at least the vocabulary's size, is off.
        top_p: 1 is off. Applies to what ``top_k`` left over.
    """
    vocab = row.shape[0]
    if 0 < top_k < vocab:
        ids = best_tokens(row, top_k)
        weights = weights_of(row[ids], temperature)
        if top_p < 1:
            # rounding may leave the running sum just short of its own total
            size = nucleus_size(weights, top_p) or top_k
            ids, weights = ids[:size], weights[:size]
        return ids, weights
    if top_p >= 1:
        return np.arange(vocab), weights_of(row, temperature)
    return _nucleus(row, temperature, top_p)


def _nucleus(row: Row, temperature: float, top_p: float) -> tuple[Ids, Weights]:
    """Candidates for top-p alone: sort only as many of the best tokens as the nucleus needs."""
    vocab = row.shape[0]
    every = weights_of(row, temperature)
    total = float(every.sum())
    look = _FIRST_LOOK
    while True:
        ids = best_tokens(row, min(look, vocab))
        weights = every[ids]
        size = nucleus_size(weights, top_p, total=total)
        if size is not None:
            return ids[:size], weights[:size]
        if look >= vocab:
            return ids, weights
        look *= _LOOK_GROWTH

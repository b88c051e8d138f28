"""Rows of logits of several shapes, float32 ``[width]``."""

import numpy as np

LOWEST = np.finfo(np.float32).min


def normal(rng, width, scale):
    """As random as can be."""
    return rng.normal(scale=scale, size=width).astype(np.float32)


def rounded(rng, width, scale):
    """With many equal logits."""
    return np.round(2 * normal(rng, width, scale)) / 2


def peaked(rng, width, scale):
    """A few far above the rest, as a sure model has them."""
    row = normal(rng, width, scale)
    row[rng.integers(width, size=20)] += rng.uniform(3, 15, size=20).astype(np.float32)
    return row


def masked(rng, width, scale):
    """Most of them forbidden, in either way."""
    row = normal(rng, width, scale)
    row[rng.random(width) < 0.6] = -np.inf
    row[rng.random(width) < 0.2] = LOWEST
    row[rng.integers(width)] = 0
    return row


SHAPES = [normal, rounded, peaked, masked]


def good_and_broken(rng, width, broken):
    """A row as random as can be, and one that no token can be chosen of: for a NaN or infinity in it, or None for no logits."""
    good, bad = normal(rng, width, 1), normal(rng, width, 1)
    if broken is None:
        bad[:] = -np.inf
    else:
        bad[rng.integers(width)] = broken
    return good, bad

"""How far observed counts are from a distribution, for tests of random draws with fixed seeds."""

from __future__ import annotations

import math

import numpy as np


def chi_square_deviation(counts, expected):
    """How far chi-square is off in standard deviations of a normal variable (Wilson and Hilferty).

    Outcomes that are expected fewer than 5 times count as one; those that are not expected at all must not occur.
    """
    counts, expected = np.asarray(counts, np.float64), np.asarray(expected, np.float64)
    assert counts[expected == 0].sum() == 0, "something occurred that cannot"
    common = expected >= 5
    counts = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    used = expected > 0
    freedom = used.sum() - 1
    if freedom == 0:
        return 0.0
    square = ((counts[used] - expected[used]) ** 2 / expected[used]).sum()
    spread = 2 / (9 * freedom)
    return ((square / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)

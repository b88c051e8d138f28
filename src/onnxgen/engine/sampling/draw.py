"""Random numbers that depend on a sequence's seed and a position, and on nothing else.

The generator is counter-based (Philox, Salmon et al., SC 2011): the number for a position is computed, not
reached by drawing all numbers before it. So a sequence draws the same tokens alone, in a batch, and again
after it was rewound.
"""

from __future__ import annotations

import secrets

import numpy as np
import numpy.typing as npt

_TO_UNIT = 2.0**-53


def fresh_seed() -> int:
    """A seed from the operating system's entropy, in ``[0, 2**64)``."""
    return secrets.randbits(64)


def uniform(seed: int, stream: int, position: int) -> float:
    """The number in ``[0, 1)`` that belongs to a position of a stream.

    Args:
        seed: 0 to 2**64 - 1.
        stream: 0 to 2**64 - 1; streams of one seed are independent.
        position: 0 or more.
    """
    generator = np.random.Philox(key=seed | (stream << 64), counter=position)
    return (int(generator.random_raw()) >> 11) * _TO_UNIT


def pick(ids: npt.NDArray[np.int64], weights: npt.NDArray[np.float64], number: float) -> int:
    """The entry of ``ids`` at which the running sum of ``weights`` passes ``number`` times the whole.

    Args:
        ids: Candidates ``[n]``, n at least 1.
        weights: Unnormalized probabilities ``[n]``, not all 0.
        number: In ``[0, 1)``.
    """
    reached = np.cumsum(weights)
    at = int(np.searchsorted(reached, number * reached[-1], side="right"))
    # number * total may round up to total: fall back to the last candidate that has any weight
    if at >= ids.shape[0]:
        at = int(np.flatnonzero(weights)[-1])
    return int(ids[at])

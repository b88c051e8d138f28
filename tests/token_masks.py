"""Bit masks of tokens, made in the slow and obvious way."""

from __future__ import annotations

import numpy as np


def mask_of(allowed) -> np.ndarray:
    """The mask of the tokens that are True, uint32 ``[words]``: bit ``t % 32`` of word ``t // 32`` is token ``t``'s."""
    mask = np.zeros(-(-len(allowed) // 32), np.uint32)
    for token in np.flatnonzero(allowed).tolist():
        mask[token // 32] |= np.uint32(1 << token % 32)
    return mask

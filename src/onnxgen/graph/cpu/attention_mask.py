"""What queries may see, as attention operators describe it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Mask:
    """Both parts broadcast to (batch, heads, seq, total).

    Attributes:
        allowed: Which keys a query sees; None for all.
        bias: What is added to the scores; None for nothing.
    """

    allowed: np.ndarray | None = None
    bias: np.ndarray | None = None

    def restricted(self, allowed: np.ndarray | None) -> Mask:
        """The same with fewer keys."""
        if allowed is None or self.allowed is None:
            return Mask(self.allowed if allowed is None else allowed, self.bias)
        return Mask(self.allowed & allowed, self.bias)


def mask_of_input(mask: np.ndarray, total: int) -> Mask:
    """The mask that a tensor says: booleans are what is allowed, numbers are added.

    Keys beyond a short last axis are hidden, and so is what has ``-inf`` added.
    """
    missing = total - mask.shape[-1]
    allowed = mask if mask.dtype == np.bool_ else np.asarray(mask > -np.inf)
    bias = None if mask.dtype == np.bool_ else mask
    if missing > 0:
        ends = [(0, 0)] * (mask.ndim - 1) + [(0, missing)]
        allowed = np.pad(allowed, ends)
        bias = None if bias is None else np.pad(bias, ends)
    return Mask(None if allowed.all() else allowed, bias)


def window_of(
    seq: int,
    total: int,
    offset: int | np.ndarray,
    *,
    causal: bool = False,
    left: int | None = None,
    right: int | None = None,
) -> np.ndarray | None:
    """Which keys lie in the window of each query, (batch or 1, 1, seq, total); None for all.

        position of query i   p = offset + i
        keys j that it sees   p - left <= j <= min(p, if causal; p + right)

    Args:
        seq: Number of queries.
        total: Number of keys.
        offset: Keys before the first query: one number, or one for each batch (batch).
        causal: Whether later keys are hidden.
        left: How far back it sees; None for no bound.
        right: How far forward; None for no bound.
    """
    if not causal and left is None and right is None:
        return None
    position = np.reshape(offset, (-1, 1, 1, 1)) + np.arange(seq).reshape(1, 1, seq, 1)
    ahead = np.arange(total) - position  # (batch or 1, 1, seq, total)
    bounds = [bound for bound in (0 if causal else None, right) if bound is not None]
    seen = ahead <= min(bounds) if bounds else np.ones(ahead.shape, bool)
    return seen if left is None else seen & (ahead >= -left)

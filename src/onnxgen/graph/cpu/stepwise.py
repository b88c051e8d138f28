"""float16 and bfloat16 step by step: the standard's own functions round after each of their operators.

Its tests expect that of softmax and attention, to the last bit of bfloat16.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
HALVES = frozenset({BFLOAT16, np.dtype(np.float16)})

_EXACT_COUNT = 256  # beyond it a running sum of ones in bfloat16 grows no more


def rounded(x: np.ndarray) -> np.ndarray:
    """The float32 values with bfloat16's precision."""
    return x.astype(BFLOAT16).astype(np.float32)


def softmax_in_steps(x: np.ndarray, axis: int) -> np.ndarray:
    """The softmax of a float16 or bfloat16 tensor, each step rounded; sums of long rows are held in float32.

    Rows that are ``-inf`` alone become NaN, as the formula says.
    """
    powers = np.exp(x - x.max(axis, keepdims=True))
    if x.shape[axis] <= _EXACT_COUNT:
        return powers / powers.sum(axis, keepdims=True)
    return powers / powers.astype(np.float32).sum(axis, keepdims=True).astype(x.dtype)

"""Multi-head attention of ``com.microsoft``: how caches grow, and what is added to the scores."""

from __future__ import annotations

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.ep.node import NodeSpec

_LOWEST = np.finfo(np.float32).min
"""What hides keys of later tokens; the scores that are an output show it."""


def grown(
    cache: np.ndarray | None, new: np.ndarray, length: int, *, dtype: np.dtype, shares: bool
) -> np.ndarray:
    """The cache ``[batch, heads, past, head_dim]`` with new rows.

    Args:
        cache: What was there; None for nothing.
        new: ``[batch, heads, seq, head_dim]``.
        length: Where the new rows begin.
        dtype: Of the cache.
        shares: Whether the cache is a buffer of maximal length; otherwise they go behind it.

    Raises:
        KernelError: the buffer is too short.
    """
    new = new.astype(dtype, copy=False)
    if cache is None:
        return new
    if not shares:
        return np.concatenate([cache, new], axis=2)
    if not 0 <= length <= cache.shape[2] - new.shape[2]:
        raise KernelError(f"{new.shape[2]} new rows from {length} on do not fit a cache of {cache.shape[2]}")
    y = cache.copy()
    y[:, :, length : length + new.shape[2]] = new
    return y


def score_bias(
    node: NodeSpec,
    mask: np.ndarray | None,
    attention_bias: np.ndarray | None,
    seq: int,
    total: int,
    batch: int,
    *,
    causal: bool,
) -> np.ndarray | None:
    """What is added to the scores ``[batch, heads, seq, total]``: the mask's filter, the bias, and the causal mask if asked."""
    bias = None if mask is None else _mask_bias(node, mask, seq, total, batch)
    if causal:
        unseen = np.tri(seq, total, total - seq, dtype=bool)
        bias = np.where(unseen, np.float32(0) if bias is None else bias, _LOWEST)
    if attention_bias is not None:
        bias = widened(attention_bias) if bias is None else bias + widened(attention_bias)
    return bias


def _mask_bias(node: NodeSpec, mask: np.ndarray, seq: int, total: int, batch: int) -> np.ndarray:
    """The filter value where a key is hidden, 0 elsewhere; broadcasts to ``[batch, heads, seq, total]``."""
    columns = np.arange(total)
    if mask.ndim == 4:  # [batch, 1, longest, longest]: the rows of the new tokens
        seen = mask[:, :, total - seq : total, :total] > 0
    elif mask.ndim == 3:  # [batch, seq, total]
        seen = mask[:, None] > 0
    elif mask.ndim == 2:  # [batch, total]
        seen = mask[:, None, None] > 0
    else:  # ends; behind them starts ([2 * batch]), or offsets that repeat what the ends say ([3 * batch + 2])
        seen = columns < mask[:batch, None]
        if len(mask) == 2 * batch:
            seen &= columns >= mask[batch:, None]
        elif len(mask) not in (batch, 3 * batch + 2):
            raise KernelError(f"{node}: a mask of {len(mask)} numbers does not fit a batch of {batch}")
        seen = seen[:, None, None]
    if seen.shape[-1] != total or seen.shape[0] != batch:
        raise KernelError(f"{node}: mask {mask.shape} does not fit a batch of {batch} with {total} keys")
    return np.where(seen, np.float32(0), np.float32(node.attr("mask_filter_value", -10000.0)))

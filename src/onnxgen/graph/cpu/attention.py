"""Scaled dot-product attention in float32, as every attention operator needs it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxgen.graph.cpu.products import matmul

MASKED = np.float32(-np.inf)
"""The score of a key that a query must not see."""


@dataclass(frozen=True, slots=True)
class Attended:
    """What attention computed.

    Attributes:
        output: ``[..., heads, seq, v_head_dim]``.
        scores: ``[..., heads, seq, keys]``, scaled, capped, with the bias.
        weights: The softmax of the scores.
    """

    output: np.ndarray
    scores: np.ndarray
    weights: np.ndarray


def attend(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *,
    scale: float,
    bias: np.ndarray | None = None,
    softcap: float = 0.0,
    sink: np.ndarray | None = None,
) -> Attended:
    """Attend with each query head to the keys of its group.

    Args:
        query: ``[..., heads, seq, head_dim]``, float32 or float64.
        key: ``[..., kv_heads, keys, head_dim]``; ``heads`` is a multiple of ``kv_heads``.
        value: ``[..., kv_heads, keys, v_head_dim]``.
        scale: Factor of the scores.
        bias: Added to the scores after the cap; broadcasts to ``[..., heads, seq, keys]``; `MASKED` hides a key.
        softcap: ``softcap * tanh(scores / softcap)`` where it is positive.
        sink: ``[heads]``: a score more in each row's denominator, without a value.
    """
    scores = grouped_matmul(query, key.swapaxes(-1, -2)) * query.dtype.type(scale)
    if softcap > 0:
        scores = softcap * np.tanh(scores / query.dtype.type(softcap))
    if bias is not None:
        scores = scores + bias
    weights = softmax(scores, None if sink is None else sink[:, None, None])
    return Attended(grouped_matmul(weights, value), scores, weights)


def grouped_matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``x [..., heads, m, k] @ y [..., kv_heads, k, n]``, each kv head with the heads of its group."""
    *batch, heads, rows, inner = x.shape
    kv_heads = y.shape[-3]
    together = x.reshape(*batch, kv_heads, heads // kv_heads * rows, inner)
    return matmul(together, y).reshape(*batch, heads, rows, y.shape[-1])


def softmax(scores: np.ndarray, sink: np.ndarray | None = None) -> np.ndarray:
    """Softmax of the last axis; rows without a key to see are zeros.

    Args:
        scores: Any shape.
        sink: A score more in each row's denominator; broadcasts to ``scores`` with a last axis of 1.
    """
    if not scores.shape[-1]:
        return scores
    highest = scores.max(axis=-1, keepdims=True)
    highest = np.where(np.isneginf(highest), 0, highest) if sink is None else np.maximum(highest, sink)
    weights = np.exp(scores - highest)
    total = weights.sum(axis=-1, keepdims=True)
    total = np.where(total == 0, 1, total) if sink is None else total + np.exp(sink - highest)
    return weights / total


def causal_bias(queries: np.ndarray, keys: np.ndarray, *, window: int | None = None) -> np.ndarray:
    """0 where a query at that position sees the key at that position, `MASKED` elsewhere.

    Args:
        queries: Positions ``[seq]``.
        keys: Positions ``[keys]``.
        window: How many keys, its own included, a query sees; None for all before it.

    Returns:
        ``[seq, keys]`` float32.
    """
    distance = queries[:, None] - keys[None, :]
    seen = distance >= 0
    if window is not None:
        seen &= distance < window
    return np.where(seen, np.float32(0), MASKED)


def to_heads(x: np.ndarray, heads: int) -> np.ndarray:
    """``[batch, seq, heads * head_dim]`` as ``[batch, heads, seq, head_dim]``; a view."""
    batch, seq, width = x.shape
    return x.reshape(batch, seq, heads, width // heads).swapaxes(1, 2)


def from_heads(x: np.ndarray) -> np.ndarray:
    """``[batch, heads, seq, head_dim]`` as ``[batch, seq, heads * head_dim]``."""
    batch, heads, seq, width = x.shape
    return x.swapaxes(1, 2).reshape(batch, seq, heads * width)

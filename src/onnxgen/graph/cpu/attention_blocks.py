"""Attention of any operator in compiled blocks, where these serve: types, masks and strides that they can read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.graph.cpu.attention import MASKED, attend
from onnxgen.graph.cpu.flash import Scoring, can_attend, flash_attend
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.half_conversion import converted

_FLOATS = frozenset(np.dtype(kind) for kind in (np.float32, np.float16))


def attend_in_blocks(
    queries: np.ndarray,
    keys: np.ndarray,
    values: np.ndarray,
    output: np.ndarray,
    mask: np.ndarray | None = None,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    left: int | None = None,
    right: int | None = None,
    num_keys: Sequence[int],
    first_positions: Sequence[int],
) -> bool:
    """Attend, unless blocks do not serve.

    Args:
        queries: ``[batch, heads, seq, head_dim]``, float32 or float16.
        keys: ``[batch, kv_heads, keys, head_dim]``, of these types; ``heads`` is a multiple of ``kv_heads``.
        values: ``[batch, kv_heads, keys, v_head_dim]``.
        output: ``[batch, heads, seq, v_head_dim]`` of the queries' type, whose heads may lie anywhere.
        mask: Bool or float, broadcasts to ``[batch, heads, seq, keys]``; keys beyond a short last axis are hidden.
        scale: Factor of the scores; ``1 / sqrt(head_dim)`` by default.
        softcap: See `Scoring`.
        left: See `Scoring`.
        right: See `Scoring`.
        num_keys: Keys that each sequence has.
        first_positions: Where the first query of each sequence is among its keys.

    Returns:
        Whether the output is there.
    """
    batch, heads, seq, head_dim = queries.shape
    if not all(x.dtype in _FLOATS for x in (queries, keys, values)):
        return False
    shape = (batch, heads, seq, keys.shape[2])
    extra = None if mask is None else _broadcast_mask(mask, shape)
    if mask is not None and extra is None:
        return False
    if queries.shape[3] != keys.shape[3] or keys.shape[:3] != values.shape[:3] or len(keys) != batch:
        return False
    factor: float = head_dim**-0.5 if scale is None else scale
    if queries.dtype == np.float16 and factor > 0:
        # Both sides are defined to take the root of the scale, which is rounded.
        factor = float(np.float16(factor**0.5)) ** 2
    rows = _readable(widened(queries.swapaxes(1, 2)))
    wide = (
        output
        if output.dtype == np.float32 and output.strides[3] == 4
        else np.empty(output.shape, np.float32)
    )
    flash_attend(
        rows,
        keys if can_attend(keys) else np.ascontiguousarray(keys),
        values if can_attend(values) else np.ascontiguousarray(values),
        wide.swapaxes(1, 2),
        Scoring(scale=factor, softcap=softcap, left=left, right=right),
        num_keys=num_keys,
        first_positions=first_positions,
        bias=extra if extra is not None and extra.dtype == np.float32 else None,
        mask=extra if extra is not None and extra.dtype == np.bool_ else None,
    )
    if wide is not output:
        converted(wide, output.dtype, output)
    return True


def attended(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    *,
    scale: float,
    mask: np.ndarray | None = None,
    causal: bool = False,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """The output of attention whose scores nobody asks for, in blocks where these serve.

    Args:
        query: ``[batch, heads, seq, head_dim]``, float32 or float64.
        key: ``[batch, kv_heads, keys, head_dim]``; ``heads`` is a multiple of ``kv_heads``.
        value: ``[batch, kv_heads, keys, v_head_dim]``.
        scale: Factor of the scores.
        mask: Float that is added to them, or bool that says which keys are seen; broadcasts to ``[batch, heads, seq, keys]``.
        causal: Whether the last queries are those of the last keys, and no query sees a later key.
        out: ``[batch, heads, seq, v_head_dim]`` that it is written into, of any float type and strides.
    """
    (batch, _, seq, _), keys = query.shape, key.shape[2]
    y = np.empty((*query.shape[:3], value.shape[3]), query.dtype) if out is None else out
    in_blocks = query.dtype == np.float32 and attend_in_blocks(
        query,
        key,
        value,
        y,
        mask,
        scale=scale,
        right=0 if causal else None,
        num_keys=[keys] * batch,
        first_positions=[keys - seq] * batch,
    )
    if not in_blocks:
        bias = mask
        if mask is not None and mask.dtype == np.bool_:
            bias = np.where(mask, np.float32(0), MASKED)
        if causal:
            seen = np.where(np.tri(seq, keys, keys - seq, dtype=bool), np.float32(0), MASKED)
            bias = seen if bias is None else bias + seen
        y[...] = attend(query, widened(key), widened(value), scale=scale, bias=bias).output
    return y


def _broadcast_mask(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """The mask as bool or float32 of four axes, whose last lies side by side and is long enough; None where that is not all it takes."""
    if mask.ndim > 4 or mask.ndim < 1 or mask.dtype not in (np.bool_, *_FLOATS):
        return None
    full = mask.reshape(*(1,) * (4 - mask.ndim), *mask.shape)
    if any(size not in (1, wanted) for size, wanted in zip(full.shape[:3], shape[:3], strict=True)):
        return None
    missing = shape[3] - full.shape[3]
    if missing < 0:
        return None
    if missing:
        ends = [(0, 0)] * 3 + [(0, missing)]
        full = np.pad(full, ends, constant_values=False if mask.dtype == np.bool_ else -np.inf)
    return _readable(widened(full))


def _readable(x: np.ndarray) -> np.ndarray:
    return x if x.strides[-1] == x.itemsize else np.ascontiguousarray(x)

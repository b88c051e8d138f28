"""Depthwise convolution that sees no later position: of the last axis, or of the first one of packed tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.half_conversion import converted
from onnxgen.graph.cpu.team import share


def convolve_causally(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, *, dilation: int = 1
) -> np.ndarray:
    """Convolve each channel with a kernel of its own: causal on the last axis, centred on the others.

    Args:
        x: ``[batch, channels, ..., (taps - 1) * dilation + seq]``: what came before is in front.
        weight: ``[channels, 1, ..., taps]``.
        bias: ``[channels]``.
        dilation: Of the last axis.

    Returns:
        ``[batch, channels, ..., seq]``, float32 or float64.
    """
    wide, kernel = widened(x), widened(weight)[:, 0]
    seq = x.shape[-1] - (kernel.shape[-1] - 1) * dilation
    pads = [(size // 2, size - 1 - size // 2) for size in kernel.shape[1:-1]]
    wide = np.pad(wide, [(0, 0), (0, 0), *pads, (0, 0)])
    y = np.zeros((*x.shape[:-1], seq), wide.dtype)
    for taps in product(*map(range, kernel.shape[1:])):
        part = [slice(tap, tap + size) for tap, size in zip(taps[:-1], x.shape[2:-1], strict=True)]
        part.append(slice(taps[-1] * dilation, taps[-1] * dilation + seq))
        y += kernel[(slice(None), *taps)].reshape(-1, *(1,) * (x.ndim - 2)) * wide[(..., *part)]
    if bias is not None:
        y += widened(bias).reshape(-1, *(1,) * (x.ndim - 2))
    return y


_PRODUCTS_PER_S = 2e9
"""Of one thread, roughly: to tell what is worth sharing."""

_ELEMENTS_OF_A_PART = 16384
_FLOAT32 = np.dtype(np.float32)


def convolve_rows(
    x: np.ndarray,
    past: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    present: np.ndarray,
    *,
    dilation: int = 1,
    gated: bool = False,
) -> None:
    """Convolve ``[batch, channels, seq]``, each channel with a kernel of its own, into ``y``, of the same shape and type.

    Args:
        x: float32, float16 or bfloat16.
        past: ``[batch, channels, (taps - 1) * dilation]``; None for zeros.
        weight: ``[channels, 1, taps]``.
        bias: ``[channels]``.
        y: C-contiguous.
        present: Like ``past``: the last positions of both, C-contiguous.
        dilation: From one tap to the next.
        gated: Whether results go through SiLU.

    Raises:
        KernelError: shapes do not fit each other.
    """
    from onnxgen.graph.cpu.compiled.causal_convolution import along_rows

    batch, channels, seq = x.shape
    kept = (batch, channels, (weight.shape[-1] - 1) * dilation)
    _check(x.shape, past, kept, weight, bias, channels)
    if not x.size:
        present[...] = 0 if past is None else past
        return
    rows, each = batch * channels, max(1, _ELEMENTS_OF_A_PART // seq)
    wide, last = _wide(y), _wide(present)
    share(
        along_rows(),
        _rows(x, rows),
        np.zeros((rows, kept[2]), _FLOAT32) if past is None else _rows(past, rows),
        _rows(weight, channels),
        np.zeros(channels, _FLOAT32) if bias is None else np.ascontiguousarray(widened(bias)),
        dilation,
        gated,
        wide.reshape(rows, seq),
        last.reshape(rows, kept[2]),
        each,
        parts=-(-rows // each),
        seconds=x.size * weight.shape[-1] / _PRODUCTS_PER_S,
    )
    _narrow(wide, y)
    _narrow(last, present)


def convolve_tokens(
    x: np.ndarray,
    past: np.ndarray | None,
    weight: np.ndarray,
    bias: np.ndarray | None,
    bounds: Sequence[int],
    y: np.ndarray,
    present: np.ndarray,
    *,
    dilation: int = 1,
    gated: bool = False,
) -> None:
    """The same for tokens ``[tokens, channels]`` of sequences that begin at ``bounds``, of which the last is the end.

    Args:
        x: float32, float16 or bfloat16.
        past: ``[sequences, (taps - 1) * dilation, channels]``; None for zeros.
        weight: ``[channels, 1, taps]``.
        bias: ``[channels]``.
        bounds: One more than there are sequences.
        y: C-contiguous.
        present: Like ``past``: the last positions of each sequence, C-contiguous.
        dilation: From one tap to the next.
        gated: Whether results go through SiLU.

    Raises:
        KernelError: shapes do not fit each other.
    """
    from onnxgen.graph.cpu.compiled.causal_convolution import PANEL, across_rows

    channels, sequences = x.shape[1], len(bounds) - 1
    kept = (sequences, (weight.shape[-1] - 1) * dilation, channels)
    _check(x.shape, past, kept, weight, bias, channels)
    wide, last = _wide(y), _wide(present)
    share(
        across_rows(),
        np.ascontiguousarray(widened(x)),
        np.zeros(kept, _FLOAT32) if past is None else np.ascontiguousarray(widened(past)),
        np.ascontiguousarray(_rows(weight, channels).T),
        np.zeros(channels, _FLOAT32) if bias is None else np.ascontiguousarray(widened(bias)),
        np.array(bounds, np.int64),
        dilation,
        gated,
        wide,
        last,
        parts=sequences * -(-channels // PANEL),
        seconds=x.size * weight.shape[-1] / _PRODUCTS_PER_S,
    )
    _narrow(wide, y)
    _narrow(last, present)


def _check(
    shape: tuple[int, ...],
    past: np.ndarray | None,
    kept: tuple[int, ...],
    weight: np.ndarray,
    bias: np.ndarray | None,
    channels: int,
) -> None:
    fits = weight.ndim == 3 and weight.shape[:2] == (channels, 1) and weight.shape[2] > 0
    fits &= past is None or past.shape == kept
    fits &= bias is None or bias.shape == (channels,)
    if not fits:
        raise KernelError(
            f"past_state {None if past is None else past.shape}, kernel {weight.shape} and "
            f"bias {None if bias is None else bias.shape} do not fit input {shape}: a state of {kept} was expected"
        )


def _rows(x: np.ndarray, count: int) -> np.ndarray:
    return np.ascontiguousarray(widened(x)).reshape(count, x.shape[-1])


def _wide(x: np.ndarray) -> np.ndarray:
    return x if x.dtype == _FLOAT32 else np.empty(x.shape, _FLOAT32)


def _narrow(wide: np.ndarray, target: np.ndarray) -> None:
    if wide is not target:
        converted(wide, target.dtype, target)

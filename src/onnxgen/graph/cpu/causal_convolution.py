"""Depthwise convolution that sees no later position of the last axis."""

from __future__ import annotations

from itertools import product

import numpy as np

from onnxgen.graph.cpu.half import widened


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

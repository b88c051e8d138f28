"""Transposed convolution: onnx.reference fails for groups with padding."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxgen.graph.reference.own.table import OwnOperators

OWN = OwnOperators()


@OWN.operator("ConvTranspose", 1, 11, 22)
class ConvTranspose(OpRun):
    """Each input position adds its kernel, weighted, to the output."""

    def _run(
        self,
        x: np.ndarray,
        w: np.ndarray,
        b: np.ndarray | None = None,
        *,
        auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None,
        group: int = 1,
        kernel_shape: Sequence[int] | None = None,
        output_padding: Sequence[int] | None = None,
        output_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> Any:
        spatial, kernel = x.shape[2:], w.shape[2:]
        rank = len(spatial)
        strides, dilations = strides or [1] * rank, dilations or [1] * rank
        extra = output_padding or [0] * rank
        batch, per_group = len(x), w.shape[1]
        grouped = x.astype(np.float64).reshape(batch, group, -1, *spatial)  # [batch, group, channels, ...]
        weights = w.astype(np.float64).reshape(group, -1, per_group, *kernel)  # [group, channels, out, ...]
        full = [
            (n - 1) * s + (k - 1) * d + 1 + e
            for n, s, k, d, e in zip(spatial, strides, kernel, dilations, extra, strict=True)
        ]
        sums = np.zeros((batch, group, per_group, *full))
        for tap in itertools.product(*map(range, kernel)):
            at = tuple(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, n, s in zip(tap, dilations, spatial, strides, strict=True)
            )
            sums[(..., *at)] += np.einsum("bgc...,gco->bgo...", grouped, weights[(..., *tap)])
        cut = [
            _cut(size, axis, rank, auto_pad, pads, n * s, output_shape)
            for axis, (size, n, s) in enumerate(zip(full, spatial, strides, strict=True))
        ]
        missing = [(0, max(part.stop - size, 0)) for part, size in zip(cut, full, strict=True)]
        sums = np.pad(sums.reshape(batch, group * per_group, *full), [(0, 0), (0, 0), *missing])
        y = sums[(slice(None), slice(None), *cut)]
        if b is not None:
            y = y + b.reshape(-1, *[1] * rank)
        return (y.astype(x.dtype),)


def _cut(
    size: int,
    axis: int,
    rank: int,
    auto_pad: str,
    pads: Sequence[int] | None,
    same: int,
    output_shape: Sequence[int] | None,
) -> slice:
    """What remains of the full output along an axis: padding removes both ends, a greater wanted size adds zeros."""
    wanted = output_shape[axis - rank] if output_shape else same if auto_pad.startswith("SAME") else None
    if wanted is None:
        before, behind = (pads[axis], pads[axis + rank]) if pads and auto_pad == "NOTSET" else (0, 0)
        return slice(before, size - behind)
    total = max(size - wanted, 0)
    before = total // 2 if auto_pad == "SAME_UPPER" else total - total // 2
    return slice(before, before + wanted)

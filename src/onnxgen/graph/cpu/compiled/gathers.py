"""Weighted sums of elements at given places: resampling along an axis, and sampling of images.

Places are trusted: whoever makes them has brought them inside.
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, given, written
from onnxgen.graph.cpu.compiled.primitives import claim


@cache
def along_axis(dtype: np.dtype) -> Callable[..., None]:
    """``along_axis(x, indices, weights, y, blocks_each, parts, claims)`` for float32 or float64.

    ``y[b, i] = sum(weights[i, t] * x[b, indices[i, t]] over t)`` for ``x [blocks, size, inner]``,
    ``y [blocks, out, inner]`` and int64 ``indices [out, taps]``. Fast for many inner elements.
    """

    def resample(
        x: Any, indices: Any, weights: Any, y: Any, blocks_each: int, parts: int, claims: Any
    ) -> None:
        inner = x.shape[2]
        out, taps = indices.shape
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for block in range(part * blocks_each, min(len(x), (part + 1) * blocks_each)):
                for i in range(out):
                    line, first, factor = y[block, i], x[block, indices[i, 0]], weights[i, 0]
                    for j in range(inner):
                        line[j] = first[j] * factor
                    for tap in range(1, taps):
                        further, factor = x[block, indices[i, tap]], weights[i, tap]
                        for j in range(inner):
                            line[j] += further[j] * factor

    return compiled(
        resample,
        [
            *(given(dtype, 3), given(np.int64, 2), given(dtype, 2), written(dtype, 3)),
            *(types.intp, types.intp, written(np.int64, 1)),
        ],
    )


@cache
def at_points(dtype: np.dtype) -> Callable[..., None]:
    """``at_points(x, places, weights, y, channels_each, parts, claims)`` for float32 or float64.

    ``y[c, p] = sum(weights[t, p] * x[c, places[t, p]] over t)`` for ``x [channels, size]`` and uint64
    ``places [taps, points]``: with signed ones each would be looked at for counting from the end.
    """

    def sample(
        x: Any, places: Any, weights: Any, y: Any, channels_each: int, parts: int, claims: Any
    ) -> None:
        taps = len(places)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            for channel in range(part * channels_each, min(len(x), (part + 1) * channels_each)):
                source, target, where, factors = x[channel], y[channel], places[0], weights[0]
                for p in range(target.size):
                    target[p] = source[where[p]] * factors[p]
                for tap in range(1, taps):
                    where, factors = places[tap], weights[tap]
                    for p in range(target.size):
                        target[p] += source[where[p]] * factors[p]

    return compiled(
        sample,
        [
            *(given(dtype, 2), given(np.uint64, 2), given(dtype, 2), written(dtype, 2)),
            *(types.intp, types.intp, written(np.int64, 1)),
        ],
    )

"""Depthwise convolution that sees nothing later, with what came before as a state: channels before positions, or behind.

positions of a row   [ past: (taps - 1) * dilation ][ x ]
                       ^ tap 0 of the first output    ^ its last tap
"""

# pyright: reportUntypedFunctionDecorator=false
# Reason: numba's decorators are not typed.

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from onnxgen.graph.cpu.compiled.function import address, compiled, given, leaf, written
from onnxgen.graph.cpu.compiled.lane_floats import fma, load, load_first, silu, splat, store, store_first
from onnxgen.graph.cpu.compiled.primitives import claim
from onnxgen.graph.cpu.compiled.vector_math import LANES

PANEL = 64
"""Channels that pass together where they lie side by side."""

_BYTES = 4
_VECTOR_BYTES = _BYTES * LANES
_FLOAT = np.dtype(np.float32)
_ZERO = np.float32(0)


@cache
def along_rows() -> Callable[..., None]:
    """``convolve(x, past, weight, bias, dilation, gated, y, present, rows_each, parts, claims)``, all float32.

    x        [rows, length]: row r is of channel r % channels
    past     [rows, (taps - 1) * dilation]
    weight   [channels, taps]
    bias     [channels]
    gated    whether results go through SiLU
    y        [rows, length]
    present  like past: the last positions
    """

    def convolve(
        x: Any,
        past: Any,
        weight: Any,
        bias: Any,
        dilation: int,
        gated: bool,
        y: Any,
        present: Any,
        rows_each: int,
        parts: int,
        claims: Any,
    ) -> None:
        rows, length = x.shape
        kept, channels = past.shape[1], len(weight)
        memory = np.empty(kept + length + LANES, np.float32)
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            first, last = part * rows_each, min(rows, (part + 1) * rows_each)
            if length < LANES:
                _few_positions(x, past, weight, bias, dilation, y, present, first, last)
            else:
                for r in range(first, last):
                    memory[:kept] = past[r]
                    memory[kept : kept + length] = x[r]
                    channel = r % channels
                    _row(address(memory), weight[channel], bias[channel], dilation, length, address(y[r]))
                    present[r] = memory[length : length + kept]
            if gated:
                _gate(address(y) + _BYTES * first * length, (last - first) * length)

    return compiled(
        convolve,
        [
            *(given(_FLOAT, 2), given(_FLOAT, 2), given(_FLOAT, 2), given(_FLOAT, 1)),
            *(types.intp, types.boolean, written(_FLOAT, 2), written(_FLOAT, 2)),
            *(types.intp, types.intp, written(np.int64, 1)),
        ],
    )


@leaf
def _row(source: int, weight: Any, bias: Any, dilation: int, length: int, target: int) -> None:
    for i in range(0, length, LANES):
        summed = splat(bias)
        for tap in range(len(weight)):
            at = source + _BYTES * (i + tap * dilation)
            summed = fma(splat(weight[tap]), load_first(at, length - i, _ZERO), summed)
        store_first(target + _BYTES * i, length - i, summed)


@leaf
def _few_positions(
    x: Any, past: Any, weight: Any, bias: Any, dilation: int, y: Any, present: Any, first: int, last: int
) -> None:
    """Rows that are shorter than a vector."""
    length, kept, (channels, taps) = x.shape[1], past.shape[1], weight.shape
    channel = first % channels
    for r in range(first, last):
        for i in range(length):
            summed = bias[channel] + weight[channel, taps - 1] * x[r, i]
            for tap in range(taps - 1):
                place = i + tap * dilation
                summed += weight[channel, tap] * (past[r, place] if place < kept else x[r, place - kept])
            y[r, i] = summed
        for i in range(kept):
            place = length + i
            present[r, i] = past[r, place] if place < kept else x[r, place - kept]
        channel = channel + 1 if channel + 1 < channels else 0


@leaf
def _gate(start: int, count: int) -> None:
    whole = count // LANES * LANES
    for at in range(start, start + _BYTES * whole, _VECTOR_BYTES):
        store(at, silu(load(at)))
    if whole < count:
        at = start + _BYTES * whole
        store_first(at, count - whole, silu(load_first(at, count - whole, _ZERO)))


@cache
def across_rows() -> Callable[..., None]:
    """``convolve(x, past, weight, bias, bounds, dilation, gated, y, present, parts, claims)``, float32 but for the bounds.

    x        [tokens, channels]
    past     [sequences, (taps - 1) * dilation, channels]
    weight   [taps, channels]
    bias     [channels]
    bounds   int64 [sequences + 1]: where sequences begin among the tokens, and where the last one ends
    gated    whether results go through SiLU
    y        [tokens, channels]
    present  like past: the last positions of each sequence

    A part is `PANEL` channels of a sequence.
    """

    def convolve(
        x: Any,
        past: Any,
        weight: Any,
        bias: Any,
        bounds: Any,
        dilation: int,
        gated: bool,
        y: Any,
        present: Any,
        parts: int,
        claims: Any,
    ) -> None:
        _, kept, channels = past.shape
        taps = len(weight)
        panels = (channels + PANEL - 1) // PANEL
        while True:
            part = claim(address(claims))
            if part >= parts:
                break
            index, panel = part // panels, part % panels * PANEL
            first, length = bounds[index], bounds[index + 1] - bounds[index]
            for channel in range(panel, min(channels, panel + PANEL), LANES):
                rest, offset = channels - channel, _BYTES * channel
                before = address(past) + _BYTES * index * kept * channels + offset
                new = address(x) + _BYTES * first * channels + offset
                for token in range(length):
                    summed = load_first(address(bias) + offset, rest, _ZERO)
                    for tap in range(taps):
                        place = token + tap * dilation
                        at = before + _BYTES * place * channels
                        if place >= kept:
                            at = new + _BYTES * (place - kept) * channels
                        factor = load_first(address(weight) + _BYTES * tap * channels + offset, rest, _ZERO)
                        summed = fma(factor, load_first(at, rest, _ZERO), summed)
                    if gated:
                        summed = silu(summed)
                    target = address(y) + _BYTES * (first + token) * channels + offset
                    store_first(target, rest, summed)
                for i in range(kept):
                    place = length + i
                    at = before + _BYTES * place * channels
                    if place >= kept:
                        at = new + _BYTES * (place - kept) * channels
                    target = address(present) + _BYTES * (index * kept + i) * channels + offset
                    store_first(target, rest, load_first(at, rest, _ZERO))

    return compiled(
        convolve,
        [
            *(given(_FLOAT, 2), given(_FLOAT, 3), given(_FLOAT, 2), given(_FLOAT, 1), given(np.int64, 1)),
            *(types.intp, types.boolean, written(_FLOAT, 2), written(_FLOAT, 3)),
            *(types.intp, written(np.int64, 1)),
        ],
    )

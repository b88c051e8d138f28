"""Small windows over planes of float32, row by row: what `sliding_windows` does with the shapes that most models have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np

from onnxgen.graph.cpu.step.kernel import step_kernel
from onnxgen.graph.cpu.step.node_calls import NodeCalls
from onnxgen.graph.cpu.windows import Axis

_ELEMENTS_PER_S = 10e9
"""Elements of windows that one thread takes, roughly: to tell what is worth sharing."""

_FEWEST_PLANES = 16
"""Fewer planes are cut into blocks of rows, to be shared."""

_FEWEST_ROWS = 4
"""Rows of windows that are computed at once."""

_ARGUMENTS = (
    *("x", "height", "width", "y", "planes", "out_height", "out_width", "multiplier", "row_blocks"),
    *("kernel_height", "kernel_width", "stride_y", "dilation_y", "pad_y", "dilation_x", "pad_x"),
    *("weights", "weight_channels", "bias", "bias_channels", "divisors"),
)

_LEAST = {"sum": np.zeros(1, np.float32), "max": np.full(1, -np.inf, np.float32)}


def fits_rows(axes: Sequence[Axis]) -> bool:
    """Whether `slide_rows` takes windows of these axes."""
    return len(axes) == 2 and axes[0].out >= _FEWEST_ROWS and axes[1].stride in (1, 2)


def slide_rows(
    kind: Literal["sum", "max"],
    x: np.ndarray,
    axes: Sequence[Axis],
    y: np.ndarray,
    *,
    w: np.ndarray | None,
    bias: np.ndarray | None,
    divisors: np.ndarray | None,
) -> None:
    """See `sliding_windows.slide`, whose arguments are checked there."""
    high, wide = axes
    planes = y.shape[0] * y.shape[1]
    source = np.ascontiguousarray(x)
    begin = np.ascontiguousarray(_LEAST[kind] if bias is None else bias)
    weights = begin if w is None else np.ascontiguousarray(w)
    blocks = 1 if planes >= _FEWEST_PLANES else max(1, min(high.out, _FEWEST_PLANES // planes))
    arguments = (
        *(source.ctypes.data, high.size, wide.size, y.ctypes.data, planes, high.out, wide.out),
        *(y.shape[1] // x.shape[1], blocks, high.kernel, wide.kernel, high.stride, high.dilation),
        *(high.pad_begin, wide.dilation, wide.pad_begin, weights.ctypes.data, len(weights)),
        *(begin.ctypes.data, len(begin), 0 if divisors is None else divisors.ctypes.data),
    )
    elements = math.prod(axis.kernel for axis in axes)
    _calls(kind, wide.stride, w is not None, divisors is not None).run(
        (arguments,), (planes * blocks,), seconds=y.size * elements / _ELEMENTS_PER_S
    )


@cache
def _calls(kind: str, stride: int, weighted: bool, divided: bool) -> NodeCalls:
    return NodeCalls(
        step_kernel(
            "window_rows:window_rows",
            _ARGUMENTS,
            kind=kind,
            stride=stride,
            weighted=weighted,
            divided=divided,
        )
    )

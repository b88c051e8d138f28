"""Depthwise convolution and pooling of float32 over up to three axes, by compiled sweeps over planes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.compiled.planes import Kind, sliding
from onnxgen.graph.cpu.team import share
from onnxgen.graph.cpu.tiled_convolution import MOST_AXES, axis_table
from onnxgen.graph.cpu.window_rows import fits_rows, slide_rows
from onnxgen.graph.cpu.windows import Axis, out_shape

_OPERATIONS_PER_S = 5e9
"""Elements of windows that one thread takes a second, roughly: to tell what is worth sharing."""

_ELEMENTS_OF_A_PART = 20_000

_NONE = np.zeros((0, 0), np.float32)

_BEGIN: dict[Kind, np.ndarray] = {
    "sum": np.zeros(1, np.float32),
    "max": np.full(1, -np.inf, np.float32),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the elements of a window lie once a plane is laid out; see `compiled.planes`.

    Attributes:
        table: The axes as numbers; see `tiled_convolution.axis_table`.
        phases: int64 ``[phases, 3]``.
        sizes: Of a phase, int64 ``[3]``.
        offsets: Of the window's elements, int64 ``[elements]``.
        ones: Weights for plain sums, float32 ``[1, elements]``.
    """

    table: np.ndarray
    phases: np.ndarray
    sizes: np.ndarray
    offsets: np.ndarray
    ones: np.ndarray

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, axes: tuple[Axis, ...]) -> Layout:
        """The layout for the windows of those axes."""
        all_axes = (*[Axis(1, 1, out=1)] * (MOST_AXES - len(axes)), *axes)
        sizes = [a.out + (a.kernel - 1) * a.dilation // a.stride for a in all_axes]
        phases: list[tuple[int, ...]] = []
        offsets: list[int] = []
        for element in np.ndindex(*(axis.kernel for axis in all_axes)):
            away = [k * a.dilation for k, a in zip(element, all_axes, strict=True)]
            phase = tuple(d % a.stride for d, a in zip(away, all_axes, strict=True))
            if phase not in phases:
                phases.append(phase)
            z, y, x = (d // a.stride for d, a in zip(away, all_axes, strict=True))
            offsets.append(((phases.index(phase) * sizes[0] + z) * sizes[1] + y) * sizes[2] + x)
        ones = np.ones((1, len(offsets)), np.float32)
        lists = [np.array(values, np.int64) for values in (phases, sizes, offsets)]
        return cls(axis_table(axes), lists[0], lists[1], lists[2], ones)


def can_slide(dtype: np.dtype, axes: Sequence[Axis], *, most_elements: int) -> bool:
    """Whether `slide` takes these windows of at most so many elements."""
    elements = math.prod(axis.kernel for axis in axes)
    return dtype == np.float32 and 1 <= len(axes) <= MOST_AXES and 0 < elements <= most_elements


def slide(
    kind: Kind,
    x: np.ndarray,
    axes: Sequence[Axis],
    y: np.ndarray,
    *,
    w: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    divisors: np.ndarray | None = None,
) -> None:
    """Combine the elements of each window of ``x [batch, channels, *size]`` into ``y [batch, out, *axes.out]``.

    Args:
        kind: ``sum``, or ``max`` where NaN wins; elements outside count as 0, or as nothing.
        x: float32.
        axes: Of the windows.
        y: float32, C-contiguous; as many channels as ``x`` or a multiple.
        w: What the elements are multiplied by, ``[out, elements]`` float32; nothing without.
        bias: What is added, ``[out]`` float32.
        divisors: What sums are divided by, float32 ``[product of all axes but the last, last axis]``.

    Raises:
        KernelError: weights or bias do not fit the windows or the channels.
    """
    if y.size == 0:
        return
    _check(x, axes, y, w, bias)
    if fits_rows(axes):
        slide_rows(kind, x, axes, y, w=w, bias=bias, divisors=divisors)
        return
    layout = Layout.of(tuple(axes))
    elements = len(layout.offsets)
    planes, outs = x.shape[0] * x.shape[1], y.shape[0] * y.shape[1]
    w = layout.ones if w is None else w
    begin = _BEGIN[kind] if bias is None else bias
    each = max(1, _ELEMENTS_OF_A_PART * planes // (y.size * elements))
    share(
        sliding(kind),
        np.ascontiguousarray(x).reshape(planes, -1),
        _for_each_image(w, x.shape[0]),
        _for_each_image(begin, x.shape[0]),
        _NONE if divisors is None else divisors,
        y.reshape(outs, -1),
        layout.table,
        layout.phases,
        layout.sizes,
        layout.offsets,
        each,
        parts=-(-planes // each),
        seconds=y.size * elements / _OPERATIONS_PER_S,
    )


def _check(
    x: np.ndarray, axes: Sequence[Axis], y: np.ndarray, w: np.ndarray | None, bias: np.ndarray | None
) -> None:
    elements, channels = math.prod(axis.kernel for axis in axes), y.shape[1]
    if channels % x.shape[1] or (w is not None and w.shape not in ((1, elements), (channels, elements))):
        raise KernelError(
            f"weights {None if w is None else w.shape} do not fit {x.shape[1]} input and {channels} output channels and"
            f" windows of {elements} elements"
        )
    if bias is not None and len(bias) not in (1, channels):
        raise KernelError(f"a bias of {len(bias)} elements does not fit {channels} output channels")


def _for_each_image(values: np.ndarray, batch: int) -> np.ndarray:
    return values if len(values) == 1 or batch == 1 else np.concatenate([values] * batch)


def slide_weights(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, axes: Sequence[Axis], out: np.ndarray | None = None
) -> np.ndarray:
    """Convolution of float32 with one input channel a group: ``w [in * multiplier, 1, *kernel]``, ``bias [out]``."""
    y = np.empty((x.shape[0], w.shape[0], *out_shape(axes)), np.float32) if out is None else out
    slide("sum", x, axes, y, w=np.ascontiguousarray(w).reshape(w.shape[0], -1), bias=bias)
    return y


def counts(axes: Sequence[Axis], *, pads: bool) -> np.ndarray:
    """How many elements each window has, as `slide` divides by them; at least 1."""
    spatial = out_shape(axes)
    total = np.ones(spatial, np.float32)
    for index, axis in enumerate(axes):
        number = np.maximum(axis.counts(pads=pads), 1).astype(np.float32)
        total *= number.reshape(-1, *(1,) * (len(axes) - index - 1))
    return total.reshape(math.prod(spatial[:-1]), spatial[-1])

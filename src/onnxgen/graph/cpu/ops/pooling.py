"""Pooling over windows: maximum, average, Lp norm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.half import widened
from onnxgen.graph.cpu.indexing import checked_indices, integers
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.windows import Axis, WindowSpec, out_shape
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

if TYPE_CHECKING:
    from onnxgen.graph.cpu.compiled.planes import Kind

TABLE = KernelTable()

_MOST_ELEMENTS = 64
"""Larger windows take less time axis by axis."""


def reduce_windows(x: np.ndarray, axes: Sequence[Axis], ufunc: np.ufunc, start: float) -> np.ndarray:
    """Reduce each window of the last axes, one axis after the other; elements outside count as ``start``."""
    for index, axis in enumerate(axes):
        x = _reduce_axis(np.moveaxis(x, index - len(axes), 0), axis, ufunc, start)
        x = np.moveaxis(x, 0, index - len(axes))
    return x


def _reduce_axis(x: np.ndarray, axis: Axis, ufunc: np.ufunc, start: float) -> np.ndarray:
    y = np.full((axis.out, *x.shape[1:]), start, x.dtype)
    if axis.out < axis.kernel:
        for window in range(axis.out):
            first = window * axis.stride - axis.pad_begin
            low = max(0, -(first // axis.dilation))
            high = min(axis.kernel, -((first - axis.size) // axis.dilation))
            if low < high:
                inside = slice(
                    first + low * axis.dilation, first + (high - 1) * axis.dilation + 1, axis.dilation
                )
                y[window] = ufunc.reduce(x[inside], axis=0)
        return y
    for offset in axis.offsets:
        seen_by, seen = axis.meet(offset)
        ufunc(y[seen_by], x[seen], out=y[seen_by])
    return y


def lowest(dtype: np.dtype) -> float | int:
    """What is below every value of a type."""
    return -np.inf if np.issubdtype(dtype, np.floating) else int(np.iinfo(dtype).min)


@TABLE.operator("MaxPool", 1, 8, 10, 11, 12, 22)
def max_pool(node: NodeSpec) -> Kernel:
    """The largest element of each window; NaN wins. The second output is its index in the flattened input."""
    spec, column_major = WindowSpec.of(node, partial=True), node.attr("storage_order", 0) == 1

    def by_axes(x: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
        return reduce_windows(x, axes, np.maximum, lowest(x.dtype))

    values = _pool(node, spec, "max", by_axes)

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        if not node.wants_output(1):
            return values.run(x), None
        axes = spec.axes(x.shape[2:])
        require_memory(node, (*x.shape[:2], *out_shape(axes)), np.dtype(np.int64))
        found, indices = _max_with_indices(widened(x), axes, column_major=column_major)
        return found.astype(x.dtype, copy=False), indices

    return values if len(node.outputs) == 1 else Kernel(run)


@TABLE.operator("NhwcMaxPool", 1, domain=MICROSOFT)
def nhwc_max_pool(node: NodeSpec) -> Kernel:
    """The largest element of each window of ``[batch, *size, channels]``."""
    pool = max_pool(node).run

    def run(x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.moveaxis(pool(np.moveaxis(x, -1, 1)), 1, -1))

    return Kernel(run)


def _pool(
    node: NodeSpec,
    spec: WindowSpec,
    kind: Kind,
    by_axes: Callable[[np.ndarray, tuple[Axis, ...]], np.ndarray],
    divisors: Callable[[tuple[Axis, ...]], np.ndarray] | None = None,
) -> Kernel:
    """By a compiled sweep where windows of float32 are small, else axis by axis."""
    from onnxgen.graph.cpu.sliding_windows import can_slide, slide

    axes_of = lru_cache(maxsize=64)(spec.axes)
    divisors_of = lru_cache(maxsize=64)(divisors) if divisors else None

    def into(x: np.ndarray, y: np.ndarray) -> None:
        axes, wide = axes_of(x.shape[2:]), widened(x)
        if not can_slide(wide.dtype, axes, most_elements=_MOST_ELEMENTS):
            y[...] = by_axes(wide, axes)
            return
        target = y if y.dtype == np.float32 else np.empty(y.shape, np.float32)
        slide(kind, wide, axes, target, divisors=divisors_of(axes) if divisors_of else None)
        if target is not y:
            y[...] = target

    def run(x: np.ndarray) -> np.ndarray:
        shape = (*x.shape[:2], *out_shape(axes_of(x.shape[2:])))
        require_memory(node, shape, x.dtype)
        y = np.empty(shape, x.dtype)
        into(x, y)
        return y

    return Kernel(run, into)


def _max_with_indices(
    x: np.ndarray, axes: Sequence[Axis], *, column_major: bool
) -> tuple[np.ndarray, np.ndarray]:
    order = "F" if column_major else "C"
    plane = int(np.prod(x.shape[2:]))
    places = np.arange(plane).reshape(x.shape[2:], order=order)
    starts = plane * np.arange(x.shape[0] * x.shape[1]).reshape(*x.shape[:2], *(1,) * len(axes))
    values, indices = x, starts + places
    # The last axis first, so that the first of equal elements in row-major order wins.
    for index in reversed(range(len(axes))):
        values, indices = _max_axis(values, indices, axes[index], index + 2)
    return np.ascontiguousarray(values), np.ascontiguousarray(indices)


def _max_axis(
    values: np.ndarray, indices: np.ndarray, axis: Axis, position: int
) -> tuple[np.ndarray, np.ndarray]:
    values, indices = np.moveaxis(values, position, 0), np.moveaxis(indices, position, 0)
    best = np.full((axis.out, *values.shape[1:]), lowest(values.dtype), values.dtype)
    where = np.full(best.shape, -1, np.int64)
    for offset in axis.offsets:
        seen_by, seen = axis.meet(offset)
        old, new = best[seen_by], values[seen]
        better = (where[seen_by] < 0) | (~(new <= old) & ~np.isnan(old))
        np.copyto(old, new, where=better)
        np.copyto(where[seen_by], indices[seen], where=better)
    return np.moveaxis(best, 0, position), np.moveaxis(where, 0, position)


@TABLE.operator("AveragePool", 1, 7, 10, 11, 19, 22)
def average_pool(node: NodeSpec) -> Kernel:
    """The mean of each window, over the elements inside the input or, as the node says, the padded input."""
    from onnxgen.graph.cpu.sliding_windows import counts

    spec, include_pads = WindowSpec.of(node, partial=True), bool(node.attr("count_include_pad", 0))

    def by_axes(x: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
        return average(x, axes, include_pads=include_pads)

    return _pool(node, spec, "sum", by_axes, lambda axes: counts(axes, pads=include_pads))


def average(x: np.ndarray, axes: Sequence[Axis], *, include_pads: bool) -> np.ndarray:
    """Means over the windows of the last axes; 0 for a window without elements. C-contiguous."""
    y = np.ascontiguousarray(reduce_windows(x, axes, np.add, 0))
    for index, axis in enumerate(axes):
        counts = np.maximum(axis.counts(pads=include_pads), 1).astype(x.dtype)
        y /= counts.reshape(-1, *(1,) * (len(axes) - index - 1))
    return y


@TABLE.operator("LpPool", 1, 2, 11, 18, 22)
def lp_pool(node: NodeSpec) -> Kernel:
    """``sum(abs(x) ** p) ** (1 / p)`` of each window."""
    spec, p = WindowSpec.of(node, partial=True), node.attr("p", 2)

    def run(x: np.ndarray) -> np.ndarray:
        axes = spec.axes(x.shape[2:])
        require_memory(node, (*x.shape[:2], *out_shape(axes)), x.dtype)
        y = reduce_windows(np.abs(widened(x)) ** p, axes, np.add, 0) ** (1 / p)
        return np.ascontiguousarray(y.astype(x.dtype, copy=False))

    return Kernel(run)


@TABLE.operator("GlobalAveragePool", 1, 22)
def global_average_pool(node: NodeSpec) -> Kernel:
    """The mean over all spatial axes."""
    return _global(lambda x, axes: x.mean(axes, keepdims=True))


@TABLE.operator("GlobalMaxPool", 1, 22)
def global_max_pool(node: NodeSpec) -> Kernel:
    """The largest element over all spatial axes."""
    return _global(lambda x, axes: x.max(axes, keepdims=True))


@TABLE.operator("GlobalLpPool", 1, 2, 22)
def global_lp_pool(node: NodeSpec) -> Kernel:
    """``sum(abs(x) ** p) ** (1 / p)`` over all spatial axes."""
    p = node.attr("p", 2)
    return _global(lambda x, axes: (np.abs(x) ** p).sum(axes, keepdims=True) ** (1 / p))


def _global(reduce: Callable[[np.ndarray, tuple[int, ...]], np.ndarray]) -> Kernel:
    def run(x: np.ndarray) -> np.ndarray:
        return reduce(widened(x), tuple(range(2, x.ndim))).astype(x.dtype, copy=False)

    return Kernel(run)


@TABLE.operator("MaxUnpool", 9, 11, 22)
def max_unpool(node: NodeSpec) -> Kernel:
    """Put each element at the index ``MaxPool`` found it at, zeros elsewhere.

    Indices count in the tensor that the window attributes imply, ``output_shape`` may enlarge it at the ends.
    """
    spec = WindowSpec.of(node)

    def run(x: np.ndarray, indices: np.ndarray, output_shape: np.ndarray | None = None) -> np.ndarray:
        sizes = tuple(
            (size - 1) * axis.stride + axis.kernel - axis.pad_begin - axis.pad_end
            for size, axis in zip(x.shape[2:], spec.axes(x.shape[2:]), strict=True)
        )
        shape = (*x.shape[:2], *sizes)
        wanted = shape if output_shape is None else tuple(integers(output_shape))
        if (
            len(wanted) != len(shape)
            or any(n < m for n, m in zip(wanted, shape, strict=True))
            or min(shape) < 0
        ):
            raise KernelError(f"{node}: output_shape {list(wanted)} does not hold {list(shape)}")
        require_memory(node, wanted, x.dtype)
        y = np.zeros(shape, x.dtype)
        y.reshape(-1)[checked_indices(node, indices.reshape(-1), y.size, from_end=False)] = x.reshape(-1)
        if wanted == shape:
            return y
        larger = np.zeros(wanted, x.dtype)
        larger[tuple(slice(size) for size in y.shape)] = y
        return larger

    return Kernel(run)

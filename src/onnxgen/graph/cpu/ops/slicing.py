"""Parts of a tensor: Slice and Trilu."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axes, filled, integers, scalar, zero_of
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.cpu.views import view_kernel
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Slice", 1)
def slice_by_attributes(node: NodeSpec) -> Kernel:
    """Starts, ends and axes are attributes; every step is 1."""
    starts, ends, axes = node.attr("starts", ()), node.attr("ends", ()), node.attr("axes")

    def run(x: np.ndarray) -> np.ndarray:
        return _sliced(node, x, starts, ends, axes, None)

    return view_kernel(run)


@TABLE.operator("Slice", 10, 11, 13)
def slice_by_inputs(node: NodeSpec) -> Kernel:
    """Starts, ends, axes and steps are inputs; positions outside the axis mean its ends."""

    def run(
        x: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        axes: np.ndarray | None = None,
        steps: np.ndarray | None = None,
    ) -> np.ndarray:
        return _sliced(
            node,
            x,
            integers(starts),
            integers(ends),
            None if axes is None else integers(axes),
            None if steps is None else integers(steps),
        )

    return view_kernel(run)


def _sliced(
    node: NodeSpec,
    x: np.ndarray,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> np.ndarray:
    axes = range(len(starts)) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise KernelError(
            f"{node}: {len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps; "
            "give as many of each"
        )
    if 0 in steps:
        raise KernelError(f"{node}: steps {list(steps)} have a 0")
    parts = [slice(None)] * x.ndim
    for axis, start, end, step in zip(checked_axes(node, axes, x.ndim), starts, ends, steps, strict=True):
        parts[axis] = _part(start, end, step, x.shape[axis])
    return x[(*parts, ...)]


def _part(start: int, end: int, step: int, size: int) -> slice:
    """A Python slice of that meaning; it differs where a backward slice starts before the first element."""
    return slice(0 if step < 0 and start < -size else start, end, step)


@TABLE.operator("Trilu", 14)
@TABLE.operator("Trilu", 1, domain=MICROSOFT)
def trilu(node: NodeSpec) -> Kernel:
    """The upper or lower triangle of the last two axes, zeros elsewhere."""
    upper = node.attr("upper", 1)

    def into(x: np.ndarray, *rest: np.ndarray) -> None:
        y = rest[-1]
        if x.ndim < 2:
            raise KernelError(f"{node}: needs a matrix or a batch of them, its input is of shape {x.shape}")
        rows, columns = x.shape[-2:]
        given = node.has_input(1)
        k = min(max(scalar(node, rest[0], "k"), -rows), columns) if given else 0
        lower = np.tri(rows, columns, k - 1 if upper else k, dtype=bool)
        y[...] = np.where(lower != bool(upper), x, zero_of(x.dtype))

    def run(x: np.ndarray, *rest: np.ndarray) -> np.ndarray:
        y = filled(x.shape, x.dtype)
        into(x, *rest, y)
        return y

    return Kernel(run, into, in_place=((0, 0),))

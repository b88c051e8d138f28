"""Pad: more (or, with negative pads, fewer) elements at the ends of axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.indexing import checked_axes, filled, integers, zero_of
from onnxgen.graph.cpu.memory import require_memory
from onnxgen.graph.cpu.registry import MICROSOFT, KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_MODES = ("constant", "reflect", "edge", "wrap")


@TABLE.operator("Pad", 1, 2)
def pad_by_attributes(node: NodeSpec) -> Kernel:
    """Pads and value are attributes (version 1 calls the former ``paddings``)."""
    pads = node.attr("paddings" if node.since_version == 1 else "pads", ())
    mode, value = _mode(node), node.attr("value", 0.0)

    def run(x: np.ndarray) -> np.ndarray:
        return padded(node, x, pads, None, mode=mode, value=x.dtype.type(value))

    return Kernel(run, may_alias=((0, 0),))


@TABLE.operator("Pad", 11, 13, 18, 19, 21, 23, 24, 25)
@TABLE.operator("Pad", 1, domain=MICROSOFT)
def pad(node: NodeSpec) -> Kernel:
    """Pads, the constant value and the axes are inputs."""
    mode = _mode(node)

    def run(
        x: np.ndarray, pads: np.ndarray, value: np.ndarray | None = None, axes: np.ndarray | None = None
    ) -> np.ndarray:
        fill = zero_of(x.dtype) if value is None or not value.size else value.reshape(-1)[0]
        return padded(
            node, x, integers(pads), None if axes is None else integers(axes), mode=mode, value=fill
        )

    return Kernel(run, may_alias=((0, 0),))


def _mode(node: NodeSpec) -> str:
    mode = node.attr("mode", "constant")
    if mode not in _MODES:
        raise InvalidGraphError(f"{node}: mode {mode!r} is none of {', '.join(_MODES)}")
    return mode


def padded(
    node: NodeSpec, x: np.ndarray, pads: Sequence[int], axes: Sequence[int] | None, *, mode: str, value: Any
) -> np.ndarray:
    """Crop by the negative pads, then add what the positive ones say.

    Args:
        node: For messages.
        x: Any shape and type.
        pads: Those before each axis, then those behind.
        axes: Which axes; None for all.
        mode: ``constant``, ``reflect``, ``edge`` or ``wrap``.
        value: The constant.

    Returns:
        New memory, or a view of ``x`` when nothing is added.
    """
    axes = range(x.ndim) if axes is None else checked_axes(node, axes, x.ndim)
    if len(pads) != 2 * len(axes):
        raise KernelError(f"{node}: {len(pads)} pads for {len(axes)} axes; two for each are needed")
    before, after = [0] * x.ndim, [0] * x.ndim
    for axis, front, back in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[axis], after[axis] = front, back
    for axis, size in enumerate(x.shape):
        if size + before[axis] + after[axis] < 0:
            raise KernelError(
                f"{node}: pads {before[axis]} and {after[axis]} leave less than nothing of {size} elements"
            )
    require_memory(node, (n + f + b for n, f, b in zip(x.shape, before, after, strict=True)), x.dtype)
    front_cut = [max(0, -n) for n in before]
    back_cut = [max(0, -n) for n in after]
    # A cut that passes the other end would also remove padding of that end: only constant padding has a meaning there.
    overcut = any(f + b > n for f, b, n in zip(front_cut, back_cut, x.shape, strict=True)) or any(
        max(f, b) > n for f, b, n in zip(front_cut, back_cut, x.shape, strict=True)
    )
    if overcut:
        if mode != "constant":
            raise KernelError(
                f"{node}: negative pads {list(pads)} remove all of {x.shape}, mode {mode!r} then has no source"
            )
        return filled(
            tuple(n + f + b for n, f, b in zip(x.shape, before, after, strict=True)), x.dtype, value
        )
    x = x[(*(slice(f, n - b) for f, b, n in zip(front_cut, back_cut, x.shape, strict=True)), ...)]
    widths = [(max(0, f), max(0, b)) for f, b in zip(before, after, strict=True)]
    if mode == "constant":
        return _with_constant(x, widths, value)
    for axis, (front, back) in enumerate(widths):
        if front or back:
            x = np.take(x, _sources(node, front, back, x.shape[axis], mode), axis=axis)
    return x


def _with_constant(x: np.ndarray, widths: Sequence[tuple[int, int]], value: Any) -> np.ndarray:
    if not any(front or back for front, back in widths):
        return x
    y = filled(tuple(f + n + b for n, (f, b) in zip(x.shape, widths, strict=True)), x.dtype, value)
    y[(*(slice(f, f + n) for n, (f, _) in zip(x.shape, widths, strict=True)), ...)] = x
    return y


def _sources(node: NodeSpec, front: int, back: int, size: int, mode: str) -> np.ndarray:
    """Which element of the axis stands at each place of the padded one."""
    if not size:
        raise KernelError(f"{node}: mode {mode!r} has nothing to repeat on an axis without elements")
    places = np.arange(-front, size + back)
    if mode == "edge":
        return places.clip(0, size - 1)
    if mode == "wrap":
        return places % size
    period = max(1, 2 * (size - 1))
    places = places % period
    return np.minimum(places, period - places) if size > 1 else np.zeros_like(places)

"""The same elements in another shape: Identity, Reshape, Flatten, Squeeze, Unsqueeze, Transpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axes, checked_axis, copy_into, integers
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.cpu.views import view_kernel
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def identity(node: NodeSpec) -> Kernel:
    """The input itself: a tensor, a sequence or an optional."""

    def run(value: Any) -> Any:
        return value

    return Kernel(run, copy_reversed, may_alias=((0, 0),), in_place=((0, 0),))


def copy_reversed(source: np.ndarray, target: np.ndarray) -> None:
    """`copy_into` in the order of a kernel's arguments."""
    copy_into(target, source)


@TABLE.operator("Reshape", 1)
def reshape_by_attribute(node: NodeSpec) -> Kernel:
    """The shape is an attribute; 0 copies a dimension."""
    return view_kernel(_reshaper(node, node.attr("shape", ()), zero_copies=True))


@TABLE.operator("Reshape", 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(node: NodeSpec) -> Kernel:
    """The shape is an input; 0 copies a dimension unless ``allowzero`` says that it is empty."""
    zero_copies = not node.attr("allowzero", 0)
    if 1 in node.constants:
        fixed = _reshaper(node, integers(node.constants[1]), zero_copies=zero_copies)

        def run_fixed(x: np.ndarray, _shape: np.ndarray) -> np.ndarray:
            return fixed(x)

        return view_kernel(run_fixed)

    def run(x: np.ndarray, shape: np.ndarray) -> np.ndarray:
        return _reshaper(node, integers(shape), zero_copies=zero_copies)(x)

    return view_kernel(run)


def _reshaper(
    node: NodeSpec, wanted: Sequence[int], *, zero_copies: bool
) -> Callable[[np.ndarray], np.ndarray]:
    if min(wanted, default=0) < -1 or list(wanted).count(-1) > 1:
        raise KernelError(f"{node}: shape {list(wanted)} may have one -1 and nothing below it")
    if not zero_copies and 0 in wanted and -1 in wanted:
        raise KernelError(f"{node}: shape {list(wanted)} has 0 and -1, which with allowzero is ambiguous")
    copies = zero_copies and 0 in wanted

    def reshaped(x: np.ndarray) -> np.ndarray:
        shape = _copy_zeros(node, wanted, x.shape) if copies else tuple(wanted)
        if not x.size:
            shape = _resolve_empty(node, shape, x.shape)
        try:
            return x.reshape(shape)
        except ValueError as cause:
            raise KernelError(
                f"{node}: {x.shape} has {x.size} elements, shape {list(wanted)} another number"
            ) from cause

    return reshaped


def _copy_zeros(node: NodeSpec, wanted: Sequence[int], found: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(dim or found[axis] for axis, dim in enumerate(wanted))
    except IndexError as cause:
        raise KernelError(
            f"{node}: shape {list(wanted)} copies a dimension that {found} does not have"
        ) from cause


def _resolve_empty(node: NodeSpec, shape: tuple[int, ...], found: tuple[int, ...]) -> tuple[int, ...]:
    """Replace -1 in the shape of an array without elements, where NumPy finds every answer as good."""
    if -1 not in shape:
        return shape
    if 0 in shape:
        raise KernelError(
            f"{node}: shape {list(shape)} of {found} has -1 beside a 0, which could be any number"
        )
    return tuple(0 if dim == -1 else dim for dim in shape)


@TABLE.operator("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(node: NodeSpec) -> Kernel:
    """Two dimensions: the product of those before ``axis``, and of the others."""
    axis = node.attr("axis", 1)

    def run(x: np.ndarray) -> np.ndarray:
        split = axis if axis == x.ndim else checked_axis(node, axis, x.ndim)
        return x.reshape(prod(x.shape[:split]), prod(x.shape[split:]))

    return view_kernel(run)


@TABLE.operator("Squeeze", 1, 11)
def squeeze_by_attribute(node: NodeSpec) -> Kernel:
    """Axes of size 1 are dropped: those of the attribute, or all."""
    axes: Sequence[int] | None = node.attr("axes")

    def run(x: np.ndarray) -> np.ndarray:
        return _squeezed(node, x, axes)

    return view_kernel(run)


@TABLE.operator("Squeeze", 13, 21, 23, 24, 25)
def squeeze(node: NodeSpec) -> Kernel:
    """Axes of size 1 are dropped: those of the input, or all."""

    def run(x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
        return _squeezed(node, x, None if axes is None else integers(axes))

    return view_kernel(run)


def _squeezed(node: NodeSpec, x: np.ndarray, axes: Sequence[int] | None) -> np.ndarray:
    if axes is None:
        return x.reshape([dim for dim in x.shape if dim != 1])
    dropped = checked_axes(node, axes, x.ndim)
    if any(x.shape[axis] != 1 for axis in dropped):
        raise KernelError(f"{node}: axes {list(dropped)} of {x.shape} are not all of size 1")
    return x.reshape([dim for axis, dim in enumerate(x.shape) if axis not in dropped])


@TABLE.operator("Unsqueeze", 1, 11)
def unsqueeze_by_attribute(node: NodeSpec) -> Kernel:
    """Axes of size 1 appear where the attribute says."""
    axes: Sequence[int] = node.attr("axes", ())

    def run(x: np.ndarray) -> np.ndarray:
        return _unsqueezed(node, x, axes)

    return view_kernel(run)


@TABLE.operator("Unsqueeze", 13, 21, 23, 24, 25)
def unsqueeze(node: NodeSpec) -> Kernel:
    """Axes of size 1 appear where the input says."""

    def run(x: np.ndarray, axes: np.ndarray) -> np.ndarray:
        return _unsqueezed(node, x, integers(axes))

    return view_kernel(run)


def _unsqueezed(node: NodeSpec, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    rank = x.ndim + len(axes)
    added = checked_axes(node, axes, rank)
    old = iter(x.shape)
    return x.reshape([1 if axis in added else next(old) for axis in range(rank)])


@TABLE.operator("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(node: NodeSpec) -> Kernel:
    """Axes in another order; reversed where ``perm`` is left out."""
    perm: Sequence[int] | None = node.attr("perm")

    def run(x: np.ndarray) -> np.ndarray:
        if perm is None:
            return x.T
        if len(perm) != x.ndim:
            raise KernelError(f"{node}: perm {list(perm)} does not fit an input of rank {x.ndim}")
        return x.transpose(checked_axes(node, perm, x.ndim))

    return view_kernel(run)

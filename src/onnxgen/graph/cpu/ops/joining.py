"""Tensors joined and split along an axis: Concat and Split."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, integers
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()


@TABLE.operator("Concat", 1, 4, 11, 13)
def concat(node: NodeSpec) -> Kernel:
    """Inputs one after the other along an axis (1 where version 1 leaves it out)."""
    axis = node.attr("axis", 1)

    def run(*parts: np.ndarray) -> np.ndarray:
        try:
            return np.concatenate(parts, axis=checked_axis(node, axis, parts[0].ndim))
        except ValueError as cause:
            raise _misfit(parts) from cause

    def into(*arrays: np.ndarray) -> None:
        parts, joined = arrays[:-1], arrays[-1]
        try:
            np.concatenate(parts, axis=checked_axis(node, axis, joined.ndim), out=joined)
        except ValueError as cause:
            raise _misfit(parts) from cause

    def _misfit(parts: Sequence[np.ndarray]) -> KernelError:
        shapes = ", ".join(str(part.shape) for part in parts)
        return KernelError(f"{node}: shapes {shapes} differ elsewhere than on axis {axis}")

    return Kernel(run, into)


@TABLE.operator("Split", 1, 2, 11)
def split_by_attribute(node: NodeSpec) -> Kernel:
    """Lengths from the attribute (or an input, which version 1 also allows), equal ones where there are none."""
    return _split_kernel(node, node.attr("split"), equal_only=True)


@TABLE.operator("Split", 13)
def split_evenly(node: NodeSpec) -> Kernel:
    """Lengths from the second input, equal ones where it is left out."""
    return _split_kernel(node, None, equal_only=True)


@TABLE.operator("Split", 18)
def split(node: NodeSpec) -> Kernel:
    """Lengths from the second input, or ``num_outputs`` parts of which the last may be smaller."""
    return _split_kernel(node, None, equal_only=False)


def _split_kernel(node: NodeSpec, fixed: Sequence[int] | None, *, equal_only: bool) -> Kernel:
    axis: int = node.attr("axis", 0)
    count = node.attr("num_outputs", len(node.outputs))
    if count != len(node.outputs):
        raise KernelError(f"{node}: num_outputs is {count}, the node has {len(node.outputs)} outputs")

    def parts(x: np.ndarray, given: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        at = checked_axis(node, axis, x.ndim)
        size = x.shape[at]
        lengths = fixed if given is None else integers(given)
        if lengths is None:
            lengths = _even_lengths(node, size, count, equal_only=equal_only)
        if len(lengths) != count or sum(lengths) != size or min(lengths) < 0:
            raise KernelError(f"{node}: lengths {list(lengths)} do not make {count} parts of {size} elements")
        before = (slice(None),) * at
        ends = np.cumsum(lengths).tolist()
        return tuple(x[(*before, slice(end - n, end))] for n, end in zip(lengths, ends, strict=True))

    def run(x: np.ndarray, given: np.ndarray | None = None) -> np.ndarray | tuple[np.ndarray, ...]:
        found = parts(x, given)
        return found if count > 1 else found[0]

    def into(*arrays: np.ndarray) -> None:
        for target, part in zip(arrays[-count:], parts(*arrays[:-count]), strict=True):
            np.copyto(target, part)

    return Kernel(run, into, may_alias=tuple((index, 0) for index in range(count)))


def _even_lengths(node: NodeSpec, size: int, count: int, *, equal_only: bool) -> list[int]:
    each = -(-size // count)
    lengths = [max(0, min(each, size - each * index)) for index in range(count)]
    if equal_only and size % count:
        raise KernelError(f"{node}: {size} elements cannot be split into {count} equal parts")
    return lengths

"""Sequences and optionals, which are lists and None. Their elements are shared with the inputs, never copied."""

from __future__ import annotations

from typing import Any

import numpy as np

from onnxgen.errors import KernelError
from onnxgen.graph.cpu.indexing import checked_axis, integers, scalar
from onnxgen.graph.cpu.registry import KernelTable
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec

TABLE = KernelTable()

_SHARED = ((0, 0),)


@TABLE.operator("SequenceConstruct", 11)
def sequence_construct(node: NodeSpec) -> Kernel:
    """A list of the inputs."""

    def run(*tensors: np.ndarray) -> list[np.ndarray]:
        return list(tensors)

    return Kernel(run, may_alias=tuple((0, index) for index in range(len(node.inputs))))


@TABLE.operator("SequenceEmpty", 11)
def sequence_empty(node: NodeSpec) -> Kernel:
    """A list of nothing; the element type is the type's business."""

    def run() -> list[np.ndarray]:
        return []

    return Kernel(run)


@TABLE.operator("SequenceAt", 11)
def sequence_at(node: NodeSpec) -> Kernel:
    """The element at a position, counted from the back where it is negative."""

    def run(sequence: list[np.ndarray], position: np.ndarray) -> np.ndarray:
        return sequence[_position(node, position, len(sequence), extra=0)]

    return Kernel(run, may_alias=_SHARED)


@TABLE.operator("SequenceInsert", 11)
def sequence_insert(node: NodeSpec) -> Kernel:
    """A list with the tensor before the position, or at the end."""

    def run(sequence: list[Any], tensor: np.ndarray, position: np.ndarray | None = None) -> list[Any]:
        size = len(sequence)
        at = size if position is None else _position(node, position, size, extra=1)
        return [*sequence[:at], tensor, *sequence[at:]]

    return Kernel(run, may_alias=((0, 0), (0, 1)))


@TABLE.operator("SequenceErase", 11)
def sequence_erase(node: NodeSpec) -> Kernel:
    """A list without the element at the position, or without the last."""

    def run(sequence: list[Any], position: np.ndarray | None = None) -> list[Any]:
        place = np.array(-1) if position is None else position
        at = _position(node, place, len(sequence), extra=0)
        return sequence[:at] + sequence[at + 1 :]

    return Kernel(run, may_alias=_SHARED)


def _position(node: NodeSpec, position: np.ndarray, size: int, *, extra: int) -> int:
    at = scalar(node, position, "position")
    if not -size <= at < size + extra:
        raise KernelError(f"{node}: position {at} is outside [{-size}, {size + extra}) of a list of {size}")
    return at + size if at < 0 else at


@TABLE.operator("SequenceLength", 11)
def sequence_length(node: NodeSpec) -> Kernel:
    """The number of elements, as an int64 scalar."""

    def run(sequence: list[Any]) -> np.ndarray:
        return np.array(len(sequence), np.int64)

    return Kernel(run)


@TABLE.operator("SplitToSequence", 11, 24)
def split_to_sequence(node: NodeSpec) -> Kernel:
    """Parts along an axis: of the lengths given, of one length (the last may be shorter), or single slices."""
    axis, keepdims = node.attr("axis", 0), node.attr("keepdims", 1)

    def run(x: np.ndarray, split: np.ndarray | None = None) -> list[np.ndarray]:
        at = checked_axis(node, axis, x.ndim)
        before, size = (slice(None),) * at, x.shape[at]
        if split is None:
            single = (slice(i, i + 1) if keepdims else i for i in range(size))
            return [x[(*before, part, ...)] for part in single]
        if split.ndim:
            lengths = integers(split)
        elif (each := int(split)) > 0:
            lengths = [min(each, size - start) for start in range(0, size, each)]
        else:
            raise KernelError(f"{node}: parts of length {each} are asked for")
        if sum(lengths) != size or min(lengths, default=0) < 0:
            raise KernelError(f"{node}: lengths {lengths} do not make parts of {size} elements")
        ends = np.cumsum(lengths).tolist()
        return [x[(*before, slice(end - n, end))] for n, end in zip(lengths, ends, strict=True)]

    return Kernel(run, may_alias=_SHARED)


@TABLE.operator("ConcatFromSequence", 11)
def concat_from_sequence(node: NodeSpec) -> Kernel:
    """The elements one after the other along an axis, or stacked on a new one."""
    axis, stacks = node.attr("axis"), node.attr("new_axis", 0)

    def run(sequence: list[np.ndarray]) -> np.ndarray:
        if not sequence:
            raise KernelError(f"{node}: a list of no tensors has no shape to concatenate")
        at = checked_axis(node, axis, sequence[0].ndim + (1 if stacks else 0))
        try:
            return np.stack(sequence, at) if stacks else np.concatenate(sequence, at)
        except ValueError as cause:
            shapes = ", ".join(str(part.shape) for part in sequence)
            raise KernelError(f"{node}: shapes {shapes} cannot be joined on axis {axis}") from cause

    return Kernel(run)


@TABLE.operator("Optional", 15, 28)
def optional(node: NodeSpec) -> Kernel:
    """The input as an optional that has it; an empty one without input."""

    def run(value: Any = None) -> Any:
        return value

    return Kernel(run, may_alias=_SHARED if node.inputs else ())


@TABLE.operator("OptionalHasElement", 15, 18, 28)
def optional_has_element(node: NodeSpec) -> Kernel:
    """Whether there is a value, as a bool scalar."""

    def run(value: Any = None) -> np.ndarray:
        return np.array(value is not None)

    return Kernel(run)


@TABLE.operator("OptionalGetElement", 15, 18, 28)
def optional_get_element(node: NodeSpec) -> Kernel:
    """The value of an optional that has one."""

    def run(value: Any) -> Any:
        if value is None:
            raise KernelError(f"{node}: the optional is empty; ask OptionalHasElement first")
        return value

    return Kernel(run, may_alias=_SHARED)

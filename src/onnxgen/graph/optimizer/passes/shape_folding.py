"""Shape, Size and what picks from Shape, where the sizes asked for are known."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import Dim
from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, constant, dims, input_at, ints, maker, static_dims
from onnxgen.graph.optimizer.level import OptimizationLevel


def shape(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Shape(x)`` as an initializer."""
    yield from _folded(node, _shape_of(node.outputs[0]), context)


def size(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Size(x)`` as an initializer."""
    known = static_dims(input_at(node, 0))
    if known is not None:
        yield _constant(node, np.asarray(prod(known), np.int64), context)


def gather(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Gather(Shape(x), i)`` as an initializer: the other sizes need not be known."""
    sizes, indices = _shape_of(input_at(node, 0)), constant(input_at(node, 1))
    if sizes is None or indices is None or indices.dtype.kind not in "iu":
        return
    if indices.size and not (-len(sizes) <= indices.min() and indices.max() < len(sizes)):
        return
    picked = [sizes[int(i)] for i in indices.reshape(-1)]
    yield from _folded(node, picked, context, indices.shape)


def slice_(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Slice(Shape(x), starts, ends)`` as an initializer."""
    sizes = _shape_of(input_at(node, 0))
    starts, ends = ints(input_at(node, 1)), ints(input_at(node, 2))
    steps = (1,) if input_at(node, 4) is None else ints(input_at(node, 4))
    if (
        sizes is None
        or starts is None
        or ends is None
        or not (len(starts) == len(ends) == 1)
        or steps != (1,)
    ):
        return
    yield from _folded(node, sizes[starts[0] : ends[0]], context)


def _folded(
    node: ir.Node, sizes: list[Dim] | None, context: Context, form: tuple[int, ...] | None = None
) -> Iterator[Edit]:
    if sizes is None or not all(isinstance(d, int) for d in sizes):
        return
    array = np.asarray(sizes, np.int64)
    yield _constant(node, array if form is None else array.reshape(form), context)


def _constant(node: ir.Node, array: np.ndarray, context: Context) -> Edit:
    edit = Edit(context, node, shapes_folded=1)
    return edit.replace(node.outputs[0], edit.constant(array, node.outputs[0].name or "shape"))


def _shape_of(value: ir.Value | None) -> list[Dim] | None:
    """Sizes that a Shape node puts into the value."""
    node = maker(value)
    if node is None or node.op_type != "Shape" or node.domain:
        return None
    sizes = dims(input_at(node, 0))
    return None if sizes is None else list(sizes[attr(node, "start", 0) : attr(node, "end", None)])


SHAPE_FOLDING = rewriting(
    "shape_folding",
    OptimizationLevel.BASIC,
    {"Shape": shape, "Size": size, "Gather": gather, "Slice": slice_},
)

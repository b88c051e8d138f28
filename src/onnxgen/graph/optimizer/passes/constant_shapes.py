"""Reshape to a shape that is put together from sizes at run time becomes Reshape to a constant.

Sizes that the input's own axis has by construction are copied (0). That an exporter gives two dimensions one symbol proves nothing;
that a product with a constant matrix keeps the axes of its rows does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.axes import Axis, elements, origins
from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, constant, input_at, rank, static_dim
from onnxgen.graph.optimizer.level import OptimizationLevel


def reshape(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Reshape(x, [size of x's own axis, ..., 12, 64])`` as ``Reshape(x, [0, ..., 12, 64])``."""
    x, shape = input_at(node, 0), input_at(node, 1)
    if x is None or shape is None or constant(shape) is not None or attr(node, "allowzero", 0):
        return
    wanted = elements(shape)
    known = rank(x)
    if wanted is None or known is None:
        return
    target = [
        _constant(item, x, position) if position < known else _number(item)
        for position, item in enumerate(wanted)
    ]
    unknown = [position for position, size in enumerate(target) if size is None]
    others = [size for size in target if size is not None]
    if len(unknown) == 1 and all(size > 0 for size in others):
        # What is left follows from the number of elements; beside a size that may be zero it would not.
        target[unknown[0]] = -1
    elif unknown:
        return
    edit = Edit(context, node, shapes_made_constant=1)
    yield edit.replace(node.outputs[0], edit.op("Reshape", x, np.asarray(target, np.int64)))


def _constant(item: int | Axis | None, x: ir.Value, position: int) -> int | None:
    if item is None or isinstance(item, int):
        return item
    size = static_dim(*item)
    if size is not None:
        return size if size > 0 else None
    mine = set(origins((x, position)))
    return 0 if any(axis in mine for axis in origins(item)) else None


def _number(item: int | Axis | None) -> int | None:
    size = static_dim(*item) if isinstance(item, tuple) else item
    return size if size != 0 else None


CONSTANT_SHAPES = rewriting("constant_shapes", OptimizationLevel.BASIC, {"Reshape": reshape})

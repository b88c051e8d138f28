"""Nodes over half floats that nobody runs, but somebody runs in float32, become float32 islands between casts.

The island rounds to half floats where the node would have; what it computes inside is more exact. Casts to half floats and back that
a file has stay (see the pass on casts): what they round is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting_all
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, dims, dtype, has_graphs
from onnxgen.graph.optimizer.level import OptimizationLevel

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


def widen(node: ir.Node, context: Context) -> Iterator[Edit]:
    """The node between casts to float32 and back."""
    values = [value for value in (*node.inputs, *node.outputs) if value is not None and value.name]
    if not any(dtype(value) in _HALF for value in values) or node.op_type in ("Cast", "CastLike"):
        return
    names_type = any(name in node.attributes for name in ("to", "dtype", "stash_type", "softmax_precision"))
    if node.version is not None or names_type or has_graphs(node) or context.can_run(node):
        return
    edit = Edit(context, node, nodes_widened_to_float=1)
    inputs = [_widened(edit, value) for value in node.inputs]
    unwanted = [i for i, output in enumerate(node.outputs) if not output.name]
    attributes = {name: attr(node, name) for name in node.attributes}
    outputs = edit.ops(
        node.op_type, inputs, attributes, outputs=len(node.outputs), unwanted=unwanted, domain=node.domain
    )
    for old, new in zip(node.outputs, outputs, strict=True):
        element = dtype(old)
        if not old.name:
            continue
        if element not in _HALF or element is None:
            edit.replace(old, new)
            continue
        new.type, new.shape = ir.TensorType(ir.DataType.FLOAT), old.shape
        edit.replace(old, edit.op("Cast", new, to=element.value))
    yield edit


def _widened(edit: Edit, value: ir.Value | None) -> ir.Value | None:
    if value is None or dtype(value) not in _HALF:
        return value
    return edit.op("Cast", value, to=ir.DataType.FLOAT.value, dtype=ir.DataType.FLOAT, shape=dims(value))


FLOAT16_ISLANDS = rewriting_all("float16_islands", OptimizationLevel.BASIC, widen)

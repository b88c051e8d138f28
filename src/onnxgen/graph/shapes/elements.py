"""Elements of the small tensors that shapes are computed from, node by node: what moves them, and what begins them."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.element_arithmetic import ARITHMETIC
from onnxgen.graph.shapes.known_elements import MOST_DIMS, Elements, Rule, constants_of, elements_of, repeated
from onnxgen.graph.shapes.rules.tools import input_at, integer, integers


def propagate_elements(context: Context, node: ir.Node) -> None:
    """Keep what is known of the elements of a node's first output (of all outputs of Split)."""
    if node.domain not in ("", "ai.onnx") or not node.outputs:
        return
    if node.op_type == "Split":
        _split(context, node)
        return
    rule = _RULES.get(node.op_type)
    out = node.outputs[0]
    if rule is None or out.shape is None or len(out.shape) > 1 or out.dtype is None:
        return
    elements = rule(context, node)
    if elements is not None and any(item is not None for item in elements):
        length = out.shape[0] if len(out.shape) else 1
        if not isinstance(length, int) or length == len(elements):
            context.set_elements(out, elements)


def _shape(context: Context, node: ir.Node) -> Elements | None:
    data = input_at(node, 0)
    if data is None or data.shape is None or not isinstance(data.type, ir.TensorType):
        return None
    dims = list(data.shape)
    return dims[integer(node, "start", 0) : integer(node, "end", len(dims))]


def _size(context: Context, node: ir.Node) -> Elements | None:
    data = input_at(node, 0)
    return None if data is None or data.shape is None else [algebra.product(data.shape)]


def _concat(context: Context, node: ir.Node) -> Elements | None:
    parts = [elements_of(context, node, index) for index in range(len(node.inputs))]
    known = [part for part in parts if part is not None]
    return [item for part in known for item in part] if len(known) == len(parts) else None


def _gather(context: Context, node: ir.Node) -> Elements | None:
    data, indices = context.elements(input_at(node, 0)), constants_of(context, node, 1)
    if data is None or indices is None or len(getattr(node.inputs[0], "shape", None) or ()) != 1:
        return None
    return [data[index] if -len(data) <= index < len(data) else None for index in indices]


def _slice(context: Context, node: ir.Node) -> Elements | None:
    data = context.elements(input_at(node, 0))
    if context.opset_of(node) < 10:
        starts, ends, steps = integers(node, "starts"), integers(node, "ends"), None
    else:
        starts, ends = constants_of(context, node, 1), constants_of(context, node, 2)
        steps = constants_of(context, node, 4) if input_at(node, 4) is not None else [1]
        if steps is None:
            return None
    if data is None or starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    start, end, step = starts[0], ends[0], steps[0] if steps else 1
    if step < 0 and end < -len(data):
        return data[start::step]
    return data[start:end:step] if step else None


def _split(context: Context, node: ir.Node) -> None:
    data = context.elements(input_at(node, 0))
    at = 0
    for out in node.outputs:
        length = out.shape[0] if out.shape is not None and len(out.shape) == 1 else None
        if data is None or not isinstance(length, int):
            return
        context.set_elements(out, data[at : at + length])
        at += length


def _same(context: Context, node: ir.Node) -> Elements | None:
    return context.elements(input_at(node, 0))


def _expand(context: Context, node: ir.Node) -> Elements | None:
    found, out = context.elements(input_at(node, 0)), node.outputs[0].shape
    if found is None or out is None:
        return None
    if len(found) != 1 or len(out) == 0:
        return found
    length = out[0]
    return repeated(found, length) if isinstance(length, int) and length <= MOST_DIMS else None


def _constant_of_shape(context: Context, node: ir.Node) -> Elements | None:
    out = node.outputs[0].shape
    length = 1 if out is not None and len(out) == 0 else out[0] if out is not None else None
    attribute = node.attributes.get("value")
    tensor = attribute.as_tensor() if attribute is not None else None
    if not isinstance(length, int) or length > MOST_DIMS or tensor is None or not tensor.dtype.is_integer():
        return None
    return [int(tensor.numpy().reshape(-1)[0])] * length


def _range(context: Context, node: ir.Node) -> Elements | None:
    bounds = [constants_of(context, node, index) for index in range(3)]
    if any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    start, limit, step = (bound[0] for bound in bounds if bound is not None)
    if step == 0 or abs(limit - start) > MOST_DIMS * abs(step):
        return None
    return list(range(start, limit, step))


_RULES: Mapping[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"), _same),
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    **ARITHMETIC,
}

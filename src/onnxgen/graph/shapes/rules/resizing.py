"""Resize with a policy for the aspect ratio; the library knows the other forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import onnx_ir as ir
from onnx_shape_inference import registry

from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.rules.tools import (
    Rule,
    axis_in,
    constant,
    input_at,
    integers,
    required,
    set_output,
    sizes,
    text,
)


def _resize(context: Context, node: ir.Node) -> None:
    policy = text(node, "keep_aspect_ratio_policy", "stretch")
    if policy == "stretch" or input_at(node, 3) is None:
        rule = registry.get("", "Resize", context.opset)
        assert rule is not None
        rule(context, node)
        return
    data = required(node, 0)
    shape, wanted = sizes(data), constant(context, input_at(node, 3))
    set_output(context, node, 0, None, data.dtype)
    if shape is None:
        return
    axes = [axis_in(axis, len(shape)) for axis in integers(node, "axes") or range(len(shape))]
    now = [shape[axis] for axis in axes]
    known = [size for size in now if isinstance(size, int) and size > 0]
    new: list[Size] = [context.new_symbolic_dim() for _ in axes]
    if wanted is not None and len(known) == len(axes) == len(wanted):
        choose = min if policy == "not_larger" else max
        scale = choose(Fraction(to, size) for to, size in zip(wanted, known, strict=True))
        new = [math.floor(scale * size + Fraction(1, 2)) for size in known]
    for axis, size in zip(axes, new, strict=True):
        shape[axis] = size
    set_output(context, node, 0, shape, None)


RULES: Mapping[tuple[str, str], Rule] = {("", "Resize"): _resize}

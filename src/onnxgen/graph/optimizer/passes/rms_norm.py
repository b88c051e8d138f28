"""RMS normalization written out becomes RMSNormalization, or SimplifiedLayerNormalization before opset 23."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    broadcasts_into,
    computes_in_float,
    dtype,
    rank,
    reduces_last,
    scalar,
)
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pattern import Const, Var, either, matches, maybe, op

_X = Var("x")
_WIDE = maybe("Cast", _X)
_SQUARED = either(op("Pow", _WIDE, 2), op("Mul", _WIDE, _WIDE))
_MEAN = op("Add", op("ReduceMean", _SQUARED, name="mean"), Const(name="epsilon"))
_RMS = op("Sqrt", _MEAN)
_NORMALIZED = either(
    op("Div", _WIDE, _RMS),
    op("Mul", _WIDE, op("Reciprocal", _RMS)),
    op("Mul", _WIDE, op("Div", 1, _RMS)),
    op("Mul", _WIDE, op("Pow", _MEAN, -0.5)),
)
_SCALED = op("Mul", maybe("Cast", _NORMALIZED), Var("scale"))


def scaled(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``x / sqrt(mean(x * x) + epsilon) * scale``."""
    for match in matches(_SCALED, node.outputs[0]):
        x, scale, epsilon = match["x"], match["scale"], scalar(match["epsilon"])
        mean = match["mean"].producer()
        axes = None if mean is None else reduces_last(mean, context.opset())
        if axes is None or epsilon is None or (rank(match["epsilon"]) or 0) > 1 or not match.closed():
            continue
        same = dtype(x) is dtype(scale) is dtype(node.outputs[0])
        if not (same and computes_in_float(x, match.nodes) and broadcasts_into(scale, x)):
            continue
        attributes = {"axis": -axes, "epsilon": float(epsilon)}
        if context.opset() >= 23:
            yield _edit("RMSNormalization", "", node, context, x, scale, attributes)
        yield _edit("SimplifiedLayerNormalization", "", node, context, x, scale, attributes)


def _edit(
    op_type: str,
    domain: str,
    node: ir.Node,
    context: Context,
    x: ir.Value,
    scale: ir.Value,
    attributes: dict[str, Any],
) -> Edit:
    edit = Edit(context, node, rms_normalizations_fused=1)
    return edit.replace(node.outputs[0], edit.op(op_type, x, scale, domain=domain, **attributes))


RMS_NORM = rewriting("rms_norm", OptimizationLevel.EXTENDED, {"Mul": scaled})

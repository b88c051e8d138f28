"""RMS normalization written out becomes RMSNormalization, or SimplifiedLayerNormalization before opset 23."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import numpy_dtype
from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    broadcasts_into,
    computes_in_float,
    dims,
    dtype,
    maker,
    rank,
    reduces_last,
    scalar,
)
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pattern import Const, Pattern, Var, either, matches, maybe, op

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
    yield from _fused(_SCALED, node, context)


def unscaled(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``x / sqrt(mean(x * x) + epsilon)``, as with a scale of ones."""
    yield from _fused(_NORMALIZED, node, context)


def _fused(pattern: Pattern, node: ir.Node, context: Context) -> Iterator[Edit]:
    for match in matches(pattern, node.outputs[0]):
        x, epsilon = match["x"], scalar(match["epsilon"])
        mean = maker(match["mean"])
        axes = None if mean is None else reduces_last(mean, context.opset())
        if axes is None or epsilon is None or (rank(match["epsilon"]) or 0) > 1 or not match.closed():
            continue
        scale = match["scale"] if "scale" in match else _ones(x, axes)
        if scale is None or dtype(x) is not dtype(node.outputs[0]) or not computes_in_float(x, match.nodes):
            continue
        if isinstance(scale, ir.Value) and not (dtype(scale) is dtype(x) and broadcasts_into(scale, x)):
            continue
        attributes: dict[str, Any] = {"axis": -axes, "epsilon": float(epsilon)}
        for op_type in ("RMSNormalization", "SimplifiedLayerNormalization"):
            if op_type != "RMSNormalization" or context.opset() >= 23:
                edit = Edit(context, node, rms_normalizations_fused=1)
                yield edit.replace(node.outputs[0], edit.op(op_type, x, scale, **attributes))


def _ones(x: ir.Value, axes: int) -> np.ndarray | None:
    sizes = dims(x)
    if sizes is None or not all(isinstance(d, int) for d in sizes[-axes:]):
        return None
    return np.ones(
        [int(d) for d in sizes[-axes:] if isinstance(d, int)], numpy_dtype(x.dtype or ir.DataType.FLOAT)
    )


RMS_NORM = rewriting(
    "rms_norm", OptimizationLevel.EXTENDED, {"Mul": scaled}, {"Div": unscaled, "Mul": unscaled}
)

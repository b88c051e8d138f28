"""GELU written out, with erf or its tanh approximation, becomes Gelu."""

from __future__ import annotations

from collections.abc import Iterator
from math import pi, sqrt
from typing import Any

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import MICROSOFT, rank
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pattern import Pattern, Var, either, matches, op

_X = Var("x")
_CUBE = either(op("Pow", _X, 3), op("Mul", _X, either(op("Mul", _X, _X), op("Pow", _X, 2))))
_INNER = either(
    op("Mul", op("Add", _X, op("Mul", _CUBE, 0.044715)), sqrt(2 / pi)),
    # the same, with x taken out of the sum
    op("Mul", op("Mul", _X, sqrt(2 / pi)), op("Add", op("Mul", op("Mul", _X, 0.044715), _X), 1)),
    op("Mul", op("Mul", _X, sqrt(2 / pi)), op("Add", op("Mul", op("Mul", _X, _X), 0.044715), 1)),
    op("Mul", _X, op("Mul", op("Add", op("Mul", op("Mul", _X, _X), 0.044715), 1), sqrt(2 / pi))),
)
_ERF = op("Erf", either(op("Div", _X, sqrt(2)), op("Mul", _X, 1 / sqrt(2))))
_TANH = op("Tanh", _INNER)


def _around(curve: Pattern) -> Pattern:
    """``0.5 * x * (1 + curve)`` in any order."""
    bell = op("Add", curve, 1)
    half = either(op("Mul", _X, 0.5), op("Div", _X, 2))
    return either(
        op("Mul", half, bell),
        op("Mul", op("Mul", _X, bell), 0.5),
        op("Div", op("Mul", _X, bell), 2),
        op("Mul", _X, either(op("Mul", bell, 0.5), op("Div", bell, 2))),
    )


_FORMS: tuple[tuple[Pattern, dict[str, Any], str], ...] = (
    (_around(_ERF), {}, "Gelu"),
    (_around(_TANH), {"approximate": "tanh"}, "FastGelu"),
)


def gelu(node: ir.Node, context: Context) -> Iterator[Edit]:
    """Gelu of opset 20, else of the contrib operators."""
    for pattern, attributes, contrib in _FORMS:
        for match in matches(pattern, node.outputs[0]):
            if not match.closed() or not rank(match["x"]):  # a constant of rank 1 would widen a scalar
                continue
            if context.opset() >= 20:
                edit = Edit(context, node, gelus_fused=1)
                yield edit.replace(node.outputs[0], edit.op("Gelu", match["x"], **attributes))
            edit = Edit(context, node, gelus_fused=1)
            yield edit.replace(node.outputs[0], edit.op(contrib, match["x"], domain=MICROSOFT))


GELU = rewriting("gelu", OptimizationLevel.EXTENDED, {"Mul": gelu, "Div": gelu})

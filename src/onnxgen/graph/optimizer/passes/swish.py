"""``x * sigmoid(alpha * x)`` becomes Swish or QuickGelu, with a gate SwiGLU; with HardSigmoid it becomes HardSwish."""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    MICROSOFT,
    attr,
    dims,
    fits_attribute,
    input_at,
    is_real,
    maker,
    rank,
    scalar,
    used_once,
)
from onnxgen.graph.optimizer.level import OptimizationLevel
from onnxgen.graph.optimizer.pattern import Const, Var, either, matches, op

_X = Var("x")
_SWISH = op("Mul", _X, op("Sigmoid", either(_X, op("Mul", _X, Const(name="alpha")))))


def swish(node: ir.Node, context: Context) -> Iterator[Edit]:
    """Swish of opset 24 where somebody runs it, else QuickGelu (SiLU is QuickGelu with alpha 1)."""
    for match in matches(_SWISH, node.outputs[0]):
        x, alpha = match["x"], scalar(match["alpha"]) if "alpha" in match else 1
        if alpha is None or not match.closed() or not is_real(x) or not fits_attribute(alpha, x):
            continue
        if "alpha" in match and (rank(x) is None or (rank(match["alpha"]) or 0) > (rank(x) or 0)):
            continue
        if context.opset() >= 24:
            edit = Edit(context, node, swishes_fused=1)
            yield edit.replace(node.outputs[0], edit.op("Swish", x, alpha=float(alpha)))
        edit = Edit(context, node, swishes_fused=1)
        yield edit.replace(node.outputs[0], edit.op("QuickGelu", x, domain=MICROSOFT, alpha=float(alpha)))
    yield from _hard_swish(node, context)


def _hard_swish(node: ir.Node, context: Context) -> Iterator[Edit]:
    for match in matches(op("Mul", _X, op("HardSigmoid", _X, name="gate")), node.outputs[0]):
        gate = maker(match["gate"])
        if gate is None or context.opset() < 14 or not match.closed():
            continue
        if isclose(attr(gate, "alpha", 0.2), 1 / 6, rel_tol=1e-6) and attr(gate, "beta", 0.5) == 0.5:
            edit = Edit(context, node, hard_swishes_fused=1)
            yield edit.replace(node.outputs[0], edit.op("HardSwish", match["x"]))


def swiglu(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Swish(gate) * up`` for equal shapes, as SwiGLU of opset 28, else of the contrib operators."""
    if len(node.inputs) != 2:
        return
    for activated, up in (tuple(node.inputs), tuple(reversed(node.inputs))):
        swish_node = maker(activated, node)
        if swish_node is None or activated is None or not used_once(activated):
            continue
        if (swish_node.domain, swish_node.op_type) not in (("", "Swish"), (MICROSOFT, "QuickGelu")):
            continue
        gate = input_at(swish_node, 0)
        shape = dims(gate)
        if shape is None or None in shape or shape != dims(up):
            continue
        alpha = attr(swish_node, "alpha", 1.0 if swish_node.op_type == "Swish" else 1.702)
        if context.opset() >= 28:
            edit = Edit(context, node, swiglus_fused=1)
            yield edit.replace(node.outputs[0], edit.op("SwiGLU", gate, up, alpha=alpha))
        edit = Edit(context, node, swiglus_fused=1)
        yield edit.replace(
            node.outputs[0], edit.op("SwiGLU", gate, up, domain=MICROSOFT, activation_alpha=alpha)
        )


SWISH = rewriting("swish", OptimizationLevel.EXTENDED, {"Mul": swish}, {"Mul": swiglu})

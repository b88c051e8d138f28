"""An activation after a convolution or a matrix product runs inside of it: FusedConv, FusedGemm."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import MICROSOFT, attr, dtype, input_at, maker, rank, scalar, used_once
from onnxgen.graph.optimizer.level import OptimizationLevel


def activation(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``activation(Conv(x))`` and ``activation(Gemm(a, b, c))``, of float32."""
    value = input_at(node, 0)
    producer = maker(value, node)
    parameters = _parameters(node, context)
    if value is None or producer is None or producer.domain or parameters is None or not used_once(value):
        return
    if dtype(value) is not ir.DataType.FLOAT:
        return
    if producer.op_type == "Conv":
        extra: dict[str, Any] = {"activation": node.op_type, "activation_params": parameters or None}
        yield _fused("FusedConv", producer, node, context, extra)
    elif node.op_type in ("Relu", "Sigmoid", "Tanh", "LeakyRelu") and _is_gemm(producer):
        extra = {"activation": node.op_type, "activation_alpha": parameters[0] if parameters else None}
        yield _fused("FusedGemm", producer, node, context, extra)


def _is_gemm(node: ir.Node) -> bool:
    if node.op_type == "MatMul":
        return rank(node.inputs[0]) == rank(node.inputs[1]) == 2
    return node.op_type == "Gemm" and "broadcast" not in node.attributes


def _fused(op_type: str, producer: ir.Node, node: ir.Node, context: Context, extra: dict[str, Any]) -> Edit:
    attributes = {name: attr(producer, name) for name in producer.attributes} | extra
    edit = Edit(context, node, **{f"{node.op_type}_fused_into_{producer.op_type}": 1})
    return edit.replace(node.outputs[0], edit.op(op_type, *producer.inputs, domain=MICROSOFT, **attributes))


def _parameters(node: ir.Node, context: Context) -> tuple[float, ...] | None:
    """The activation's parameters as the fused operators take them; None where they are not constants."""
    match node.op_type:
        case "LeakyRelu":
            return (float(attr(node, "alpha", 0.01)),)
        case "HardSigmoid":
            return (float(attr(node, "alpha", 0.2)), float(attr(node, "beta", 0.5)))
        case "Clip":
            bounds = [
                attr(node, name) if context.opset() < 11 else scalar(input_at(node, i))
                for i, name in ((1, "min"), (2, "max"))
            ]
            # A bound left out is the end of float's range: fused operators have no word for none.
            return None if None in bounds else tuple(float(bound) for bound in bounds if bound is not None)
        case _:
            return ()


ACTIVATIONS = rewriting(
    "activations",
    OptimizationLevel.EXTENDED,
    dict.fromkeys(("Relu", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Clip"), activation),
)

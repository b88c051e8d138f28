"""A bias and the GELU of the sum become one operator."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import MICROSOFT, attr, input_at, maker, rank, static_dim, used_once
from onnxgen.graph.optimizer.level import OptimizationLevel


def bias_gelu(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Gelu(x + bias)`` as BiasGelu, or FastGelu with a bias for the tanh form."""
    total = node.inputs[0]
    add = maker(total, node)
    if total is None or add is None or add.op_type != "Add" or add.domain or not used_once(total):
        return
    is_tanh = node.op_type == "FastGelu" or attr(node, "approximate", "none") == "tanh"
    if input_at(node, 1) is not None:  # it has one already
        return
    for x, bias in (tuple(add.inputs), tuple(reversed(add.inputs))):
        if (
            rank(bias) != 1
            or (rank(x) or 0) < 2
            or static_dim(bias, 0) is None
            or static_dim(bias, 0) != static_dim(x, -1)
        ):
            continue
        edit = Edit(context, node, biases_fused_into_gelu=1)
        op_type = "FastGelu" if is_tanh else "BiasGelu"
        yield edit.replace(node.outputs[0], edit.op(op_type, x, bias, domain=MICROSOFT))


BIAS_GELU = rewriting(
    "bias_gelu",
    OptimizationLevel.EXTENDED,
    dict.fromkeys(("Gelu", f"{MICROSOFT}.Gelu", f"{MICROSOFT}.FastGelu"), bias_gelu),
)

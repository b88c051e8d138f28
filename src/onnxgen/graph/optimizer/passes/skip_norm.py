"""A residual sum and the normalization over it become one operator, which also returns the sum."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import (
    MICROSOFT,
    attr,
    computes_in_float,
    dims,
    dtype,
    input_at,
    maker,
    rank,
    used_once,
)
from onnxgen.graph.optimizer.level import OptimizationLevel

_FUSED = {
    "LayerNormalization": "SkipLayerNormalization",
    "SimplifiedLayerNormalization": "SkipSimplifiedLayerNormalization",
    "RMSNormalization": "SkipSimplifiedLayerNormalization",
}


def skip(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``norm(a + b)`` with ``a + b``, for equal shapes."""
    total, parameters = node.inputs[0], [input_at(node, 1), input_at(node, 2)]
    add = maker(total, node)
    if total is None or add is None or add.op_type != "Add" or add.domain or add.graph is not node.graph:
        return
    # The new node goes where the sum was: there, everything computed later is not known yet.
    computed = any(p is not None and p.producer() is not None for p in parameters)
    extra = any(output.name for output in node.outputs[1:])
    if (
        computed
        or extra
        or not computes_in_float(total, ())
        or not _last_axis_only(node, total)
        or attr(node, "stash_type", 1) != 1
    ):
        return
    left, right = add.inputs
    if (
        left is None
        or right is None
        or not _same_form(left, right)
        or any(dtype(p) not in (None, dtype(total)) for p in parameters)
    ):
        return
    keep_sum = not used_once(total)
    edit = Edit(context, add, residual_sums_and_norms_fused=1)
    outputs = edit.ops(
        _FUSED[node.op_type],
        [left, right, *parameters],
        {"epsilon": attr(node, "epsilon", 1e-5)},
        outputs=4 if keep_sum else 1,
        unwanted=(1, 2),
        domain=MICROSOFT,
    )
    edit.replace(node.outputs[0], outputs[0])
    if keep_sum:
        edit.replace(total, outputs[3])
    yield edit


def _last_axis_only(node: ir.Node, total: ir.Value) -> bool:
    known = rank(total)
    return known in (2, 3) and attr(node, "axis", -1) in (-1, known - 1) and rank(input_at(node, 1)) == 1


def _same_form(left: ir.Value, right: ir.Value) -> bool:
    """Equal sizes, or the same symbols: should a feed give one symbol two sizes, the fused operator says so."""
    first, second = dims(left), dims(right)
    return first is not None and first == second and None not in first


SKIP_NORM = rewriting("skip_norm", OptimizationLevel.EXTENDED, dict.fromkeys(_FUSED, skip))

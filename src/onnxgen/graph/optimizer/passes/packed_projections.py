"""Matrix products of one input with several constant matrices become one product and a Split (Q, K and V; gate and up)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting_all
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import constant, input_at, rank, used_once
from onnxgen.graph.optimizer.level import OptimizationLevel

MIN_PRODUCTS = 3
"""Two would pay only where the kernels have no parallel work left."""


def pack(node: ir.Node, context: Context) -> Iterator[Edit]:
    """All products like this one over its input; where each gets a bias, the biases as well."""
    x = input_at(node, 0)
    if x is None or not _is_projection(node, x):
        return
    products = [n for n in x.consumers() if n.graph is node.graph and _is_projection(n, x)]
    types = Counter(n.inputs[1].dtype for n in products if n.inputs[1] is not None)
    if (
        len(products) < MIN_PRODUCTS
        or _first(products) is not node
        or len(types) != 1
        or context.opset() < 13
    ):
        return
    weights = [_array(n.inputs[1]) for n in products]
    if len({w.shape[0] for w in weights}) != 1:
        return
    biased = [_biased(n) for n in products]
    edit = Edit(context, node, projections_packed=len(products))
    total = edit.op(
        "MatMul", x, edit.constant(np.concatenate(weights, axis=1), "packed_weight"), dtype=x.dtype
    )
    ends = [n.outputs[0] for n in products]
    if all(b is not None for b in biased):
        found = [b for b in biased if b is not None]
        bias = np.concatenate([_array(value) for _, value in found])
        total = edit.op("Add", total, edit.constant(bias, "packed_bias"), dtype=x.dtype)
        ends = [add.outputs[0] for add, _ in found]
    sizes = np.asarray([w.shape[1] for w in weights], np.int64)
    parts = edit.ops("Split", [total, sizes], {"axis": -1}, outputs=len(products))
    for end, part in zip(ends, parts, strict=True):
        edit.replace(end, part)
    yield edit


def _first(nodes: list[ir.Node]) -> ir.Node:
    graph = nodes[0].graph
    assert graph is not None
    return next(node for node in graph if node in nodes)


def _is_projection(node: ir.Node, x: ir.Value) -> bool:
    if node.op_type != "MatMul" or node.domain or node.version is not None or node.inputs[0] is not x:
        return False
    weight = node.inputs[1]
    # A weight that something else uses as well would be kept twice.
    return (
        rank(weight) == 2
        and (rank(x) or 0) >= 2
        and weight is not None
        and len(weight.uses()) == 1
        and constant(weight) is not None
    )


def _biased(product: ir.Node) -> tuple[ir.Node, ir.Value] | None:
    """The Add that gives the product its bias, and the bias: a constant vector."""
    value = product.outputs[0]
    if not used_once(value):
        return None
    (add,) = value.consumers()
    if add.op_type != "Add" or add.domain or add.version is not None or add.graph is not product.graph:
        return None
    bias = add.inputs[1] if add.inputs[0] is value else add.inputs[0]
    if (
        bias is None
        or rank(bias) != 1
        or constant(bias) is None
        or _array(bias).shape[0] != _array(product.inputs[1]).shape[1]
    ):
        return None
    return add, bias


def _array(value: ir.Value | None) -> np.ndarray:
    array = constant(value)
    assert array is not None
    return array


PACKED_PROJECTIONS = rewriting_all("packed_projections", OptimizationLevel.EXTENDED, pack)

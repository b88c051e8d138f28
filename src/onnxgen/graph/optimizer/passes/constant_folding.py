"""Nodes whose inputs are all constants are computed once, now, unless their results would take much memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting_all
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import constant, ints, is_pure, is_used, static_dims
from onnxgen.graph.optimizer.level import OptimizationLevel

MAX_GROWTH_BYTES = 1 << 20
"""By how much the results of one node may exceed the constants that go with it."""

_KEPT = frozenset(("DequantizeLinear", "QuantizeLinear"))  # kernels want to see quantized weights as they are
_GROWING = frozenset(
    ("Resize", "Upsample", "Pad", "OneHot", "EyeLike", "CenterCropPad", "MelWeightMatrix", "Col2Im", "AffineGrid",
     "MaxUnpool", "DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow")
)  # fmt: skip
"""Operators of the standard whose results have as many elements as a value or an attribute says."""


def fold(node: ir.Node, context: Context) -> Iterator[Edit]:
    """The node's results as initializers."""
    if context.evaluate is None or node.op_type in _KEPT or not is_pure(node) or not node.inputs:
        return
    arrays = [constant(value) for value in node.inputs]
    if any(a is None and value is not None for a, value in zip(arrays, node.inputs, strict=True)):
        return
    freed = sum(_nbytes(v) for v in set(node.inputs) if v is not None and len(v.consumers()) == 1)
    expected = _result_elements(node)
    if expected is None or expected > MAX_GROWTH_BYTES + freed:
        return
    results = _evaluate(node, arrays, context)
    used = [(value, array) for value, array in zip(node.outputs, results, strict=False) if is_used(value)]
    if not used or not all(isinstance(array, np.ndarray) for _, array in used):
        return
    size = sum(array.nbytes for _, array in used)
    if size - freed > MAX_GROWTH_BYTES:
        return
    edit = Edit(context, node, nodes_folded=1, bytes_of_results=size)
    for value, array in used:
        edit.replace(value, edit.constant(array, value.name or "folded"))
    yield edit


def _evaluate(node: ir.Node, arrays: list[np.ndarray | None], context: Context) -> list[Any]:
    assert context.evaluate is not None
    try:
        with np.errstate(all="ignore"):
            return list(context.evaluate(context.spec(node), list(arrays)))
    # Whatever is wrong with the node, the run that reaches it says so; many branches are never run.
    except Exception:  # noqa: BLE001
        return []


def _result_elements(node: ir.Node) -> int | None:
    """A bound on the number of elements, before anything is computed; None where there is none."""
    known = [static_dims(output) for output in node.outputs if is_used(output)]
    if all(shape is not None for shape in known):
        return sum(prod(shape) for shape in known if shape is not None)
    if node.domain:
        return None
    given = [constant(value) for value in node.inputs]
    first, second = ints(node.inputs[0]), ints(node.inputs[1]) if len(node.inputs) > 1 else None
    match node.op_type:
        case "ConstantOfShape":
            return None if first is None else prod(first)
        case "Range":
            start, limit, step = (
                float(a.reshape(-1)[0]) if a is not None and a.size == 1 else np.nan for a in given
            )
            count = (limit - start) / step if step else np.nan
            return int(max(count, 0)) + 1 if np.isfinite(count) else None
        case "Expand" | "Tile":
            return (
                None
                if second is None or given[0] is None
                else given[0].size * prod(max(n, 1) for n in second)
            )
        case name if name in _GROWING:
            return None
        case _:
            return prod(max(a.size, 1) for a in given if a is not None)


def _nbytes(value: ir.Value) -> int:
    return value.const_value.nbytes if value.const_value is not None and not value.is_graph_output() else 0


CONSTANT_FOLDING = rewriting_all("constant_folding", OptimizationLevel.BASIC, fold)

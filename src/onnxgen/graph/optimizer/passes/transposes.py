"""Transposes over transposes become one, or none."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import input_at, maker, permutation
from onnxgen.graph.optimizer.level import OptimizationLevel


def chain(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Transpose(Transpose(x))`` as one, or as ``x``."""
    inner = maker(input_at(node, 0), node)
    if inner is None or inner.op_type != "Transpose" or inner.domain:
        return
    x, first, second = input_at(inner, 0), permutation(inner), permutation(node)
    if x is None or first is None or second is None or len(first) != len(second):
        return
    both = tuple(first[axis] for axis in second)
    if both == tuple(range(len(both))):
        yield Edit(context, node, transposes_there_and_back_removed=1).replace(node.outputs[0], x)
    edit = Edit(context, node, transposes_merged=1)
    yield edit.replace(node.outputs[0], edit.op("Transpose", x, perm=both))


TRANSPOSES = rewriting("transposes", OptimizationLevel.BASIC, {"Transpose": chain})

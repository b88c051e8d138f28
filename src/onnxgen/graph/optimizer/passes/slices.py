"""Slices over slices become one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import Cut, input_at, maker, slice_cuts
from onnxgen.graph.optimizer.level import OptimizationLevel

_INT64_MAX = 2**63 - 1


def chain(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Slice(Slice(x))`` as one: on other axes as they are, on the same axis where both count from the front by 1."""
    inner = maker(input_at(node, 0), node)
    if inner is None or inner.op_type != "Slice" or inner.domain or context.opset() < 10:
        return
    x, first, second = input_at(inner, 0), slice_cuts(inner), slice_cuts(node)
    if x is None or first is None or second is None:
        return
    cuts: dict[int, Cut] = dict(first)
    for axis, cut in second.items():
        merged = _within(cuts[axis], cut) if axis in cuts else cut
        if merged is None:
            return
        cuts[axis] = merged
    edit = Edit(context, node, slices_merged=1)
    axes = sorted(cuts)
    columns = [[cuts[axis][part] for axis in axes] for part in range(3)]
    starts, ends, steps = (np.asarray(column, np.int64) for column in columns)
    merged_axes = np.asarray(axes, np.int64)
    yield edit.replace(node.outputs[0], edit.op("Slice", x, starts, ends, merged_axes, steps))


def _within(first: Cut, second: Cut) -> Cut | None:
    """The second cut of what the first one leaves, as one cut."""
    if first[2] != 1 or second[2] != 1 or min(*first, *second) < 0:
        return None
    return first[0] + second[0], min(first[1], first[0] + second[1], _INT64_MAX), 1


SLICES = rewriting("slices", OptimizationLevel.BASIC, {"Slice": chain})

"""Nodes over constants alone: the same bytes seen in another way, or small tensors worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnxgen.backends.native.lower.lengths import work_out
from onnxgen.backends.native.lower.meanings import Constant, Meaning, Sample
from onnxgen.backends.native.lower.state import FLOATS, attribute, integer, stored_constant
from onnxgen.graph.ir.types import numpy_dtype

_ONE = (Sample(0, 1),)


def fold(node: ir.Node, inputs: Sequence[Meaning | None], opsets: Mapping[str, int]) -> list[Meaning]:
    """What a node gives whose inputs are all constant.

    Raises:
        DeclineError: It cannot be computed, or is large.
    """
    first = inputs[0] if inputs else None
    if isinstance(first, Constant):
        seen = _seen_otherwise(node, first, inputs)
        if seen is not None:
            return [seen]
    return [stored_constant(known.values[0]) for known in work_out(node, inputs, samples=_ONE, opsets=opsets)]


def _seen_otherwise(node: ir.Node, x: Constant, inputs: Sequence[Meaning | None]) -> Constant | None:
    """The constant itself under another shape, type of floats or order of axes, without a copy; None for all else."""
    if node.op_type == "Identity":
        return x
    if node.op_type == "Cast" and x.array.dtype in FLOATS:
        kind = numpy_dtype(ir.DataType(integer(node, "to")))
        wider = kind in FLOATS and kind.itemsize >= x.array.dtype.itemsize and not _loses(x, kind)
        return x if wider else None
    if node.op_type == "Transpose" and x.array.ndim == 2 and attribute(node, "perm", (1, 0)) == (1, 0):
        return Constant(x.array.T, x.stored, transposed=not x.transposed)
    if node.op_type == "Reshape" and not x.transposed and isinstance(inputs[1], Constant):
        sizes = [int(s) for s in inputs[1].array]
        if 0 in sizes:
            return None
        array = x.array.reshape(sizes)
        return Constant(array, replace(x.stored, shape=array.shape))
    return None


def _loses(x: Constant, kind: object) -> bool:
    """Whether a cast between the two 16-bit types would round."""
    return x.array.dtype.itemsize == 2 and x.array.dtype != kind and getattr(kind, "itemsize", 4) == 2

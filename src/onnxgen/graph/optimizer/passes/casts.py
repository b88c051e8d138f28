"""Casts over casts: the first goes where it cannot have changed a value.

``float -> float16 -> float`` stays: it rounds. ``float16 -> float -> float16`` goes: every float16 is a float.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from onnxgen.graph.optimizer.base import rewriting
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.facts import attr, dtype, input_at, maker
from onnxgen.graph.optimizer.level import OptimizationLevel


@dataclass(frozen=True, slots=True)
class _Range:
    """Which numbers a type has: integers of ``bits`` bits beside the sign, times powers of two from 2**low to below 2**high."""

    bits: int
    signed: bool
    low: int = 0
    high: int = 0

    def holds(self, other: _Range) -> bool:
        """Whether every number of the other type is one of this type."""
        if self.high == 0:  # integers
            return other.high == 0 and self.bits >= other.bits and self.signed >= other.signed
        if other.high == 0:
            return self.bits >= other.bits and self.high > other.bits
        return self.bits >= other.bits and self.high >= other.high and self.low <= other.low


_T = ir.DataType
_RANGES = {
    _T.BOOL: _Range(1, False),
    _T.UINT4: _Range(4, False),
    _T.UINT8: _Range(8, False),
    _T.UINT16: _Range(16, False),
    _T.UINT32: _Range(32, False),
    _T.UINT64: _Range(64, False),
    _T.INT4: _Range(3, True),
    _T.INT8: _Range(7, True),
    _T.INT16: _Range(15, True),
    _T.INT32: _Range(31, True),
    _T.INT64: _Range(63, True),
    _T.FLOAT16: _Range(11, True, -24, 16),
    _T.BFLOAT16: _Range(8, True, -133, 128),
    _T.FLOAT: _Range(24, True, -149, 128),
    _T.DOUBLE: _Range(53, True, -1074, 1024),
}


def is_exact(source: ir.DataType, target: ir.DataType) -> bool:
    """Whether a cast keeps every value, NaN, infinities and the sign of zero included."""
    if source not in _RANGES or target not in _RANGES:
        return False
    return source is target or (target is not _T.BOOL and _RANGES[target].holds(_RANGES[source]))


def chain(node: ir.Node, context: Context) -> Iterator[Edit]:
    """``Cast(Cast(x))`` as ``Cast(x)``, or as ``x`` where the second leads back."""
    inner = maker(input_at(node, 0), node)
    if inner is None or inner.op_type != "Cast" or inner.domain:
        return
    x = input_at(inner, 0)
    source, middle, target = dtype(x), _T(attr(inner, "to")), _T(attr(node, "to"))
    if (
        x is None or source is None or not is_exact(source, middle) or target is _T.STRING
    ):  # texts tell types apart
        return
    if (
        source.is_integer()
        and middle.is_floating_point()
        and target.is_integer()
        and not is_exact(source, target)
    ):
        return  # integers out of range wrap, floats out of range have no defined result
    if source is target:
        yield Edit(context, node, casts_there_and_back_removed=1).replace(node.outputs[0], x)
        return
    edit = Edit(context, node, casts_merged=1)
    attributes = {name: attr(node, name) for name in node.attributes}
    yield edit.replace(node.outputs[0], edit.op("Cast", x, **attributes))


CASTS = rewriting("casts", OptimizationLevel.BASIC, {"Cast": chain})

"""Sums, products and functions of elements."""

from __future__ import annotations

import onnx_ir as ir

from onnxgen.backends.native.lower.meanings import Constant, DeclineError, Meaning, RowsOf
from onnxgen.backends.native.lower.rule import MICROSOFT, Inputs, RuleTable, at
from onnxgen.backends.native.lower.state import (
    Lowering,
    attribute,
    describe,
    integer,
    real,
    rows,
    scalar,
    vector,
)
from onnxgen.backends.native.plan import Family

TABLE = RuleTable()


@TABLE.operator("Add")
def add(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Two activations, or one and a row vector."""
    return [_binary(lowering, node, inputs, Family.ADD)]


@TABLE.operator("Mul")
def multiply(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Two activations, or one and a row vector or a number."""
    x, other = _ordered(inputs)
    factor = scalar(other)
    if factor is not None:
        return [_map(lowering, node, x, "scale", factor)]
    return [_binary(lowering, node, inputs, Family.MULTIPLY)]


@TABLE.operator("Div")
def divide(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Activations by a number."""
    x, divisor = rows(at(inputs, 0), "the dividend"), scalar(at(inputs, 1))
    if not divisor:
        raise DeclineError(f"it divides by {describe(at(inputs, 1))}")
    return [_map(lowering, node, x, "scale", 1.0 / divisor)]


@TABLE.operator("Sigmoid")
def sigmoid(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``1 / (1 + exp(-x))``."""
    return [_map(lowering, node, rows(at(inputs, 0), "the input"), "sigmoid")]


@TABLE.operator("Tanh")
def tanh(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``tanh(x)``."""
    return [_map(lowering, node, rows(at(inputs, 0), "the input"), "tanh")]


@TABLE.operator("QuickGelu", MICROSOFT)
def quick_gelu(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x * sigmoid(alpha * x)``."""
    return [_swish(lowering, node, inputs, real(node, "alpha", 1.702))]


@TABLE.operator("Swish")
def swish(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """``x * sigmoid(alpha * x)``."""
    return [_swish(lowering, node, inputs, real(node, "alpha", 1.0))]


@TABLE.operator("Gelu", "", MICROSOFT)
def gelu(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """The Gaussian error linear unit, exact or by tanh."""
    function = "gelu_tanh" if attribute(node, "approximate", "none") == "tanh" else "gelu"
    return [_map(lowering, node, rows(at(inputs, 0), "the input"), function)]


@TABLE.operator("FastGelu", MICROSOFT)
def fast_gelu(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """The one by tanh, of ``x [+ bias]``."""
    x = rows(at(inputs, 0), "the input")
    if at(inputs, 1) is not None:
        x = _with_vector(lowering, node, x, at(inputs, 1), Family.ADD)
    return [_map(lowering, node, x, "gelu_tanh")]


@TABLE.operator("BiasGelu", MICROSOFT)
def bias_gelu(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """The exact one, of ``x + bias``."""
    x = _with_vector(lowering, node, rows(at(inputs, 0), "the input"), at(inputs, 1), Family.ADD)
    return [_map(lowering, node, x, "gelu")]


@TABLE.operator("Cast")
def cast(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Nothing between types of floats: activations are computed in float32."""
    kind = ir.DataType(integer(node, "to"))
    if kind not in (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16):
        raise DeclineError(f"it casts activations to {kind.name}")
    return [rows(at(inputs, 0), "the input")]


@TABLE.operator("Identity")
def identity(lowering: Lowering, node: ir.Node, inputs: Inputs) -> list[Meaning]:
    """Nothing."""
    found = at(inputs, 0)
    assert found is not None
    return [found]


def _swish(lowering: Lowering, node: ir.Node, inputs: Inputs, alpha: float) -> RowsOf:
    x = rows(at(inputs, 0), "the input")
    return _map(lowering, node, x, "silu") if alpha == 1.0 else _map(lowering, node, x, "swish", alpha)


def _map(lowering: Lowering, node: ir.Node, x: RowsOf, function: str, amount: float = 0.0) -> RowsOf:
    return lowering.emit(
        node,
        Family.MAP,
        x,
        width=x.view.width,
        reads={"x": x},
        shapes=x.shapes,
        function=function,
        amount=amount,
    )


def _ordered(inputs: Inputs) -> tuple[RowsOf, Meaning | None]:
    first, second = at(inputs, 0), at(inputs, 1)
    if isinstance(first, RowsOf):
        return first, second
    return rows(second, "the second input"), first


def _binary(lowering: Lowering, node: ir.Node, inputs: Inputs, family: Family) -> RowsOf:
    x, other = _ordered(inputs)
    if not isinstance(other, RowsOf):
        return _with_vector(lowering, node, x, other, family)
    if x.shapes != other.shapes or x.rows is not other.rows:
        raise DeclineError(f"activations of {x.shapes[0]} and {other.shapes[0]}: only equal shapes are known")
    return lowering.emit(node, family, x, width=x.view.width, reads={"x": x, "other": other}, shapes=x.shapes)


def _with_vector(
    lowering: Lowering, node: ir.Node, x: RowsOf, other: Meaning | None, family: Family
) -> RowsOf:
    if x.last != x.view.width:
        raise DeclineError(f"rows of {x.view.width} in pieces of {x.last} with {describe(other)}")
    if isinstance(other, Constant) and other.transposed:
        raise DeclineError("the vector is transposed")
    part = vector(other, "the other input", x.last)
    name = next(
        (v.name for v in node.inputs if v is not None and v.const_value is not None and v.name), "vector"
    )
    return lowering.emit(
        node, family, x, width=x.last, reads={"x": x}, weights={"other": (part, name)}, shapes=x.shapes
    )

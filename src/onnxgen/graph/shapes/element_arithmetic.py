"""Elements that are computed from others: casts, arithmetic, comparisons, choices, sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import onnx_ir as ir
import sympy

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context, Element
from onnxgen.graph.shapes.known_elements import Elements, Rule, elements_of, repeated
from onnxgen.graph.shapes.rules.tools import axes_of, input_at

_MOST_CONSTANTS = 16
"""Longer constants are no factors of sizes."""

_MOST_PARTS = 1024
"""Largest denominator of a factor of sizes, such as 1/32."""


def _cast(context: Context, node: ir.Node) -> Elements | None:
    found = context.elements(input_at(node, 0))
    to = node.outputs[0].dtype
    if found is None or to is None or to is ir.DataType.STRING:
        return None
    if to is ir.DataType.BOOL:
        return [item != 0 if isinstance(item, int) else None for item in found]
    if not to.is_integer():
        return found
    return [_truncated(item) for item in found]


def _truncated(item: Element) -> Element:
    if item is None or isinstance(item, int):
        return None if item is None else int(item)
    value = algebra.expression(item)
    return item if value.is_integer else algebra.size_of(sympy.floor(value)) if value.is_nonnegative else None


def _floor(context: Context, node: ir.Node) -> Elements | None:
    found = context.elements(input_at(node, 0))
    rounding = sympy.floor if node.op_type == "Floor" else sympy.ceiling
    return found and [
        item if item is None else algebra.size_of(rounding(algebra.expression(item))) for item in found
    ]


def _numbers(context: Context, node: ir.Node, index: int) -> Elements | None:
    """Elements of an operand; of float constants those that float arithmetic keeps exactly."""
    value = input_at(node, index)
    found = elements_of(context, node, index)
    if value is None or value.const_value is None or context.elements(value) is not None:
        return found
    tensor = value.const_value
    if not tensor.dtype.is_floating_point() or len(tensor.shape) > 1 or tensor.size > _MOST_CONSTANTS:
        return None
    floats = [float(item) for item in tensor.numpy().reshape(-1)]
    if not all(map(math.isfinite, floats)):
        return None
    exact = [Fraction(item).limit_denominator(_MOST_PARTS) for item in floats]
    if any(float(item) != number for item, number in zip(exact, floats, strict=True)):
        return None
    return [
        int(item)
        if item.denominator == 1
        else ir.SymbolicDim(sympy.Rational(item.numerator, item.denominator))
        for item in exact
    ]


def _elementwise(function: Callable[[Size, Size], Element]) -> Rule:
    """Of two operands, element by element; a single element goes with all of the other operand's."""

    def rule(context: Context, node: ir.Node) -> Elements | None:
        operands = [_numbers(context, node, index) for index in range(len(node.inputs))]
        result = operands[0]
        for operand in operands[1:]:
            result = _pairwise(function, result, operand)
        return result

    return rule


def _pairwise(
    function: Callable[[Size, Size], Element], left: Elements | None, right: Elements | None
) -> Elements | None:
    if left is None or right is None or (len(left) != len(right) and 1 not in (len(left), len(right))):
        return None
    length = len(left) if len(right) == 1 else len(right)
    pairs = zip(repeated(left, length), repeated(right, length), strict=True)
    return [None if a is None or b is None else function(a, b) for a, b in pairs]


def _divide(a: Size, b: Size) -> Element:
    """Integer division as ONNX has it: towards zero; known for numbers and for sizes by a positive number."""
    if b == 0:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    top, bottom = algebra.expression(a), algebra.expression(b)
    if not (top.is_nonnegative and bottom.is_nonnegative):
        return None
    return algebra.quotient(a, b)


def _true_divide(a: Size, b: Size) -> Element:
    return None if b == 0 else algebra.size_of(algebra.expression(a) / algebra.expression(b))


def _modulo(a: Size, b: Size) -> Element:
    if isinstance(b, int) and b <= 0:
        return None
    return algebra.size_of(sympy.Mod(algebra.expression(a), algebra.expression(b)))


def _div(context: Context, node: ir.Node) -> Elements | None:
    dtype = node.outputs[0].dtype
    function = _divide if dtype is not None and dtype.is_integer() else _true_divide
    return _elementwise(function)(context, node)


def _comparison(decide: Callable[[sympy.Expr], bool | None]) -> Rule:
    """Of the sign of the difference, where it is the same for all sizes."""
    return _elementwise(lambda a, b: decide(algebra.expression(a) - algebra.expression(b)))


def _equal(difference: sympy.Expr) -> bool | None:
    if difference == 0:
        return True
    return False if difference.is_positive or difference.is_negative else None


def _where(context: Context, node: ir.Node) -> Elements | None:
    condition, yes, no = (elements_of(context, node, index) for index in range(3))
    if condition is None or yes is None or no is None:
        return None
    length = max(len(condition), len(yes), len(no))
    if any(len(part) not in (1, length) for part in (condition, yes, no)):
        return None
    rows = [repeated(part, length) for part in (condition, yes, no)]
    return [
        (a if a is not None and b is not None and algebra.same(a, b) else None)
        if c is None
        else a
        if c
        else b
        for c, a, b in zip(*rows, strict=False)
    ]


def _reduce(combine: Callable[[Size, Size], Size]) -> Rule:
    def rule(context: Context, node: ir.Node) -> Elements | None:
        found = context.elements(input_at(node, 0))
        axes = axes_of(context, node)
        if not found or any(item is None for item in found) or (axes is not None and axes not in ([0], [-1])):
            return None
        result = found[0]
        for item in found[1:]:
            assert result is not None and item is not None
            result = combine(result, item)
        return [result]

    return rule


def _not(context: Context, node: ir.Node) -> Elements | None:
    found = context.elements(input_at(node, 0))
    return found and [None if item is None else not item for item in found]


def _negative(context: Context, node: ir.Node) -> Elements | None:
    found = context.elements(input_at(node, 0))
    return found and [item if item is None else algebra.difference(0, item) for item in found]


def _sum(a: Size, b: Size) -> Size:
    return algebra.total((a, b))


def _times(a: Size, b: Size) -> Size:
    return algebra.product((a, b))


def _and(a: Size, b: Size) -> Element:
    return bool(a) and bool(b)


ARITHMETIC: Mapping[str, Rule] = {
    "Cast": _cast,
    **dict.fromkeys(("Floor", "Ceil"), _floor),
    "Add": _elementwise(_sum),
    "Sum": _elementwise(_sum),
    "Sub": _elementwise(algebra.difference),
    "Mul": _elementwise(_times),
    "Div": _div,
    "Mod": _elementwise(_modulo),
    "Max": _elementwise(algebra.largest),
    "Min": _elementwise(algebra.smallest),
    "And": _elementwise(_and),
    "Or": _elementwise(lambda a, b: bool(a) or bool(b)),
    "Not": _not,
    "Neg": _negative,
    "Equal": _comparison(_equal),
    "Less": _comparison(lambda d: d.is_negative),
    "LessOrEqual": _comparison(lambda d: d.is_nonpositive),
    "Greater": _comparison(lambda d: d.is_positive),
    "GreaterOrEqual": _comparison(lambda d: d.is_nonnegative),
    "Where": _where,
    "ReduceProd": _reduce(_times),
    "ReduceSum": _reduce(_sum),
    "ReduceMax": _reduce(algebra.largest),
    "ReduceMin": _reduce(algebra.smallest),
}

"""Elements of the small tensors that shapes are computed from, node by node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import onnx_ir as ir
import sympy

from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context, Element
from onnxgen.graph.shapes.rules.tools import axes_of, input_at, integer, integers

Elements = Sequence[Element]
Rule = Callable[[Context, ir.Node], Elements | None]


def propagate_elements(context: Context, node: ir.Node) -> None:
    """Keep what is known of the elements of a node's first output (of all outputs of Split)."""
    if node.domain not in ("", "ai.onnx") or not node.outputs:
        return
    if node.op_type == "Split":
        _split(context, node)
        return
    rule = _RULES.get(node.op_type)
    out = node.outputs[0]
    if rule is None or out.shape is None or len(out.shape) > 1 or out.dtype is None:
        return
    elements = rule(context, node)
    if elements is not None and any(item is not None for item in elements):
        length = out.shape[0] if len(out.shape) else 1
        if not isinstance(length, int) or length == len(elements):
            context.set_elements(out, elements)


def _of(context: Context, node: ir.Node, index: int = 0) -> Elements | None:
    """Known elements of an input; unknown ones where only its length is known."""
    value = input_at(node, index)
    found = context.elements(value)
    if found is not None or value is None or value.shape is None:
        return found
    if len(value.shape) == 0:
        return [None]
    length = value.shape[0]
    return [None] * length if len(value.shape) == 1 and isinstance(length, int) and length <= 64 else None


def _constant(context: Context, node: ir.Node, index: int) -> list[int] | None:
    """Elements of an input that are all numbers."""
    found = context.elements(input_at(node, index))
    if found is None:
        return None
    whole = [item for item in found if isinstance(item, int)]
    return whole if len(whole) == len(found) else None


def _shape(context: Context, node: ir.Node) -> Elements | None:
    data = input_at(node, 0)
    if data is None or data.shape is None or not isinstance(data.type, ir.TensorType):
        return None
    dims = list(data.shape)
    return dims[integer(node, "start", 0) : integer(node, "end", len(dims))]


def _size(context: Context, node: ir.Node) -> Elements | None:
    data = input_at(node, 0)
    return None if data is None or data.shape is None else [algebra.product(data.shape)]


def _concat(context: Context, node: ir.Node) -> Elements | None:
    parts = [_of(context, node, index) for index in range(len(node.inputs))]
    known = [part for part in parts if part is not None]
    return [item for part in known for item in part] if len(known) == len(parts) else None


def _gather(context: Context, node: ir.Node) -> Elements | None:
    data, indices = context.elements(input_at(node, 0)), _constant(context, node, 1)
    if data is None or indices is None or len(getattr(node.inputs[0], "shape", None) or ()) != 1:
        return None
    return [data[index] if -len(data) <= index < len(data) else None for index in indices]


def _slice(context: Context, node: ir.Node) -> Elements | None:
    data = context.elements(input_at(node, 0))
    if context.opset_of(node) < 10:
        starts, ends, steps = integers(node, "starts"), integers(node, "ends"), None
    else:
        starts, ends = _constant(context, node, 1), _constant(context, node, 2)
        steps = _constant(context, node, 4) if input_at(node, 4) is not None else [1]
        if steps is None:
            return None
    if data is None or starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    start, end, step = starts[0], ends[0], steps[0] if steps else 1
    if step < 0 and end < -len(data):
        return data[start::step]
    return data[start:end:step] if step else None


def _split(context: Context, node: ir.Node) -> None:
    data = context.elements(input_at(node, 0))
    at = 0
    for out in node.outputs:
        length = out.shape[0] if out.shape is not None and len(out.shape) == 1 else None
        if data is None or not isinstance(length, int):
            return
        context.set_elements(out, data[at : at + length])
        at += length


def _same(context: Context, node: ir.Node) -> Elements | None:
    return context.elements(input_at(node, 0))


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
    found = _of(context, node, index)
    if value is None or value.const_value is None or context.elements(value) is not None:
        return found
    tensor = value.const_value
    if not tensor.dtype.is_floating_point() or len(tensor.shape) > 1 or tensor.size > 16:
        return None
    floats = [float(item) for item in tensor.numpy().reshape(-1)]
    if not all(map(math.isfinite, floats)):
        return None
    exact = [Fraction(item).limit_denominator(1024) for item in floats]
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
    pairs = zip(_repeated(left, length), _repeated(right, length), strict=True)
    return [None if a is None or b is None else function(a, b) for a, b in pairs]


def _repeated(elements: Elements, length: int) -> list[Element]:
    return list(elements) * length if len(elements) == 1 else list(elements)


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
    condition, yes, no = (_of(context, node, index) for index in range(3))
    if condition is None or yes is None or no is None:
        return None
    length = max(len(condition), len(yes), len(no))
    if any(len(part) not in (1, length) for part in (condition, yes, no)):
        return None
    rows = [_repeated(part, length) for part in (condition, yes, no)]
    return [
        (a if a is not None and b is not None and _equal_elements(a, b) else None)
        if c is None
        else a
        if c
        else b
        for c, a, b in zip(*rows, strict=False)
    ]


def _equal_elements(a: Size, b: Size) -> bool:
    return algebra.same(a, b)


def _expand(context: Context, node: ir.Node) -> Elements | None:
    found, out = context.elements(input_at(node, 0)), node.outputs[0].shape
    if found is None or out is None:
        return None
    if len(found) != 1 or len(out) == 0:
        return found
    length = out[0]
    return _repeated(found, length) if isinstance(length, int) and length <= 64 else None


def _constant_of_shape(context: Context, node: ir.Node) -> Elements | None:
    out = node.outputs[0].shape
    length = 1 if out is not None and len(out) == 0 else out[0] if out is not None else None
    attribute = node.attributes.get("value")
    tensor = attribute.as_tensor() if attribute is not None else None
    if not isinstance(length, int) or length > 64 or tensor is None or not tensor.dtype.is_integer():
        return None
    return [int(tensor.numpy().reshape(-1)[0])] * length


def _range(context: Context, node: ir.Node) -> Elements | None:
    bounds = [_constant(context, node, index) for index in range(3)]
    if any(bound is None or len(bound) != 1 for bound in bounds):
        return None
    start, limit, step = (bound[0] for bound in bounds if bound is not None)
    if step == 0 or abs(limit - start) > 64 * abs(step):
        return None
    return list(range(start, limit, step))


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


_RULES: Mapping[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Concat": _concat,
    "Gather": _gather,
    "Slice": _slice,
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose"), _same),
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
    "Expand": _expand,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "ReduceProd": _reduce(_times),
    "ReduceSum": _reduce(_sum),
    "ReduceMax": _reduce(algebra.largest),
    "ReduceMin": _reduce(algebra.smallest),
}

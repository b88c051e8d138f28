"""Small things that shape rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.shapes import algebra
from onnxgen.graph.shapes.algebra import Size
from onnxgen.graph.shapes.context import Context

Rule = Callable[[Context, ir.Node], None]


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """An input; None if it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def required(node: ir.Node, index: int) -> ir.Value:
    """An input that the operator cannot do without.

    Raises:
        InvalidGraphError: It is left out.
    """
    value = input_at(node, index)
    if value is None:
        raise InvalidGraphError(f"input {index} of {node.op_type} is missing")
    return value


def sizes(value: ir.Value | None) -> list[Size] | None:
    """Dimensions of a value; None where its rank is not known."""
    return None if value is None or value.shape is None else list(value.shape)


def set_output(
    context: Context, node: ir.Node, index: int, shape: Sequence[Size] | None, dtype: ir.DataType | None
) -> None:
    """Give an output its type and shape, as far as they are known; an output that is left out is passed over."""
    if index >= len(node.outputs):
        return
    value = node.outputs[index]
    if dtype is not None:
        value.type = ir.TensorType(dtype)
    if shape is not None:
        context.set_shape(value, ir.Shape(shape))


def set_like(context: Context, node: ir.Node, index: int, value: ir.Value | None) -> None:
    """Give an output the type and shape of a value."""
    if value is not None and index < len(node.outputs):
        node.outputs[index].type = value.type
        node.outputs[index].shape = value.shape


def fresh(context: Context, count: int) -> list[Size]:
    """So many dimensions of which nothing is known."""
    return [context.new_symbolic_dim() for _ in range(count)]


def integer(node: ir.Node, name: str, default: int) -> int:
    """An integer attribute."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()


def integers(node: ir.Node, name: str) -> list[int] | None:
    """A list attribute; None if the node does not have it."""
    attribute = node.attributes.get(name)
    return None if attribute is None else list(attribute.as_ints())


def text(node: ir.Node, name: str, default: str) -> str:
    """A string attribute."""
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()


def constant(context: Context, value: ir.Value | None) -> list[int] | None:
    """Elements of an integer input that are all numbers; None otherwise."""
    found = context.elements(value)
    if found is None:
        return None
    whole = [int(item) for item in found if isinstance(item, int)]
    return whole if len(whole) == len(found) else None


def axes_of(context: Context, node: ir.Node, index: int = 1) -> list[int] | None:
    """Axes from the attribute or the input; None where there are none or their values are not known."""
    if "axes" in node.attributes:
        return integers(node, "axes")
    return constant(context, input_at(node, index))


def axis_in(axis: int, rank: int) -> int:
    """A position in ``range(rank)``.

    Raises:
        InvalidGraphError: There is none.
    """
    if not -rank <= axis < rank:
        raise InvalidGraphError(f"axis {axis} does not fit rank {rank}")
    return axis % rank


def broadcast_shapes(*shapes: Sequence[Size] | None) -> list[Size] | None:
    """NumPy's broadcast of shapes; None where one of them is not known.

    Raises:
        InvalidGraphError: They do not fit together.
    """
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known), default=0)
    result: list[Size] = [1] * rank
    for shape in known:
        for at, dim in enumerate(shape, rank - len(shape)):
            result[at] = algebra.broadcast(result[at], dim)
    return result

"""What is known of values before anything runs.

Symbols prove nothing: files repeat them for dimensions that differ at run time. Only sizes that are numbers, and values that are
constants, are facts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ep.from_graph import constant_array
from onnxgen.graph.ir.attributes import attribute_value
from onnxgen.graph.ir.types import Dim

RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli", "Sampling")
)  # fmt: skip
MICROSOFT = "com.microsoft"
_KNOWN_DOMAINS = frozenset(("", "ai.onnx.ml", MICROSOFT))
_REAL = frozenset(
    (ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
)  # fmt: skip


Cut = tuple[int, int, int]
"""Start, end and step of a slice along one axis."""


def attr(node: ir.Node, name: str, default: Any = None) -> Any:
    """The attribute as Python has it, or ``default`` where the node does not have it."""
    found = node.attributes.get(name)
    return default if found is None else attribute_value(found)


def input_at(node: ir.Node, index: int) -> ir.Value | None:
    """That input; None where it is left out."""
    return node.inputs[index] if index < len(node.inputs) else None


def maker(value: ir.Value | None, user: ir.Node | None = None) -> ir.Node | None:
    """The node that computes a value, if its operator means what the model's opset says, and in the graph of ``user``.

    Nodes of a function that imported another opset have a version of their own; rules take them for unknown. Nodes of an
    outer graph are left where they are: inside a loop they would run in every trip.
    """
    node = None if value is None else value.producer()
    if node is None or node.version is not None or (user is not None and node.graph is not user.graph):
        return None
    return node


def wants(node: ir.Node, output: int) -> bool:
    """Whether anybody uses that output of the node."""
    return output < len(node.outputs) and is_used(node.outputs[output])


def is_used(value: ir.Value) -> bool:
    """Whether a node, of this graph or of a graph inside it, or the caller of the graph uses the value."""
    return bool(value.uses()) or value.is_graph_output()


def used_once(value: ir.Value) -> bool:
    """Whether exactly one input of one node uses the value, and no caller."""
    return len(value.uses()) == 1 and not value.is_graph_output()


def has_graphs(node: ir.Node) -> bool:
    """Whether the node runs graphs of its own (If, Loop, Scan, SequenceMap)."""
    return any(a.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS) for a in node.attributes.values())


def is_pure(node: ir.Node) -> bool:
    """Whether equal inputs always give equal outputs, as far as operators we know of."""
    training = node.op_type == "Dropout" and input_at(node, 2) is not None
    return not (training or has_graphs(node) or node.op_type in RANDOM or node.domain not in _KNOWN_DOMAINS)


def dtype(value: ir.Value | None) -> ir.DataType | None:
    """Element type of a tensor; None where unknown or not a tensor."""
    if (
        value is None
        or not isinstance(value.type, ir.TensorType)
        or value.type.dtype is ir.DataType.UNDEFINED
    ):
        return None
    return value.type.dtype


def is_real(value: ir.Value | None) -> bool:
    """Whether elements are floats of 16 bits or more."""
    return dtype(value) in _REAL


def fits_attribute(number: float, x: ir.Value | None) -> bool:
    """Whether a number that was computed with as x's type may become an attribute, which is a float32."""
    return dtype(x) is not ir.DataType.DOUBLE or float(np.float32(number)) == number


def computes_in_float(x: ir.Value, nodes: Iterable[ir.Node]) -> bool:
    """Whether operators that compute in float32 whatever their type are at least as exact as these nodes over x."""
    narrow = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
    casts = {ir.DataType(attr(node, "to")) for node in nodes if node.op_type == "Cast"}
    return dtype(x) in narrow and casts <= {ir.DataType.FLOAT, dtype(x)}


def dims(value: ir.Value | None) -> tuple[Dim, ...] | None:
    """Sizes and symbols; None where the rank is unknown."""
    if value is None or value.shape is None:
        return None
    return tuple(d if isinstance(d, int) else d.value for d in value.shape.dims)


def rank(value: ir.Value | None) -> int | None:
    """Number of dimensions; None where unknown."""
    found = dims(value)
    return None if found is None else len(found)


def static_dims(value: ir.Value | None) -> tuple[int, ...] | None:
    """Sizes, where every one is a number."""
    found = dims(value)
    if found is None or not all(isinstance(d, int) for d in found):
        return None
    return tuple(int(d) for d in found if isinstance(d, int))


def static_dim(value: ir.Value | None, axis: int) -> int | None:
    """The size along an axis (which may count from the end), where it is a number."""
    found = dims(value)
    if found is None or not -len(found) <= axis < len(found):
        return None
    size = found[axis]
    return size if isinstance(size, int) else None


def constant(value: ir.Value | None) -> np.ndarray | None:
    """The value of an initializer that no feed can change; read-only."""
    return None if value is None else constant_array(value)


def ints(value: ir.Value | None) -> tuple[int, ...] | None:
    """A constant integer tensor of rank 0 or 1 as a tuple."""
    array = constant(value)
    if array is None or array.dtype.kind not in "iu" or array.ndim > 1:
        return None
    return tuple(int(item) for item in array.reshape(-1))


def scalar(value: ir.Value | None) -> float | int | None:
    """The one element of a constant number; None for other values."""
    array = constant(value)
    if array is None or array.size != 1 or array.dtype.kind in "OUSb":
        return None
    item = array.reshape(-1)[0]
    return int(item) if array.dtype.kind in "iu" else float(item)


def broadcasts_into(small: ir.Value, large: ir.Value) -> bool:
    """Whether ``small op large`` provably has the shape of ``large``."""
    inner, outer = dims(small), dims(large)
    if inner == ():
        return True
    if inner is None or outer is None or len(inner) > len(outer):
        return False
    pairs = zip(reversed(inner), reversed(outer), strict=False)
    return all(i == 1 or (isinstance(i, int) and i == o) for i, o in pairs)


def reduced_axes(node: ir.Node, opset: int) -> tuple[int, ...] | None:
    """Axes of a Reduce node; None where they are not known. Empty where it reduces all, or none, of them."""
    return (
        attr(node, "axes", ())
        if opset < 18
        else ints(input_at(node, 1))
        if input_at(node, 1) is not None
        else ()
    )


def reduces_last(node: ir.Node, opset: int) -> int | None:
    """How many of the last axes a Reduce node reduces, keeping them with size 1; None for other reductions."""
    axes, known = reduced_axes(node, opset), rank(input_at(node, 0))
    if not axes or attr(node, "keepdims", 1) != 1:
        return None
    if known is not None:
        axes = tuple(axis - known if axis >= 0 else axis for axis in axes)
    return len(axes) if sorted(axes) == list(range(-len(axes), 0)) else None


def permutation(node: ir.Node) -> tuple[int, ...] | None:
    """Which axis of the input each axis of a Transpose's output is; None where the default needs an unknown rank."""
    perm = attr(node, "perm")
    if perm is not None:
        return perm
    known = rank(input_at(node, 0))
    return None if known is None else tuple(reversed(range(known)))


def slice_cuts(node: ir.Node) -> dict[int, Cut] | None:
    """What a Slice of opset 10 or later cuts, by axis from the front; None where that is not known."""
    starts, ends, axes, steps = (ints(input_at(node, i)) for i in range(1, 5))
    if (axes is None and input_at(node, 3) is not None) or (steps is None and input_at(node, 4) is not None):
        return None
    if starts is None or ends is None:
        return None
    axes = tuple(range(len(starts))) if axes is None else axes
    if min(axes, default=0) < 0:
        known = rank(node.inputs[0])
        if known is None:
            return None
        axes = normal_axes(axes, known)
    cuts = zip(starts, ends, steps or (1,) * len(starts), strict=True)
    return dict(zip(axes, cuts, strict=True))


def normal_axes(axes: tuple[int, ...], rank_: int) -> tuple[int, ...]:
    """Axes counted from the front."""
    return tuple(axis + rank_ if axis < 0 else axis for axis in axes)

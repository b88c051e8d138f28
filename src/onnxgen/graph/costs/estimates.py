"""The cost of a node from its operator and the shapes around it."""

from __future__ import annotations

from collections.abc import Mapping

from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.costs.node_facts import NodeFacts
from onnxgen.graph.costs.operations import operations_of
from onnxgen.graph.costs.sizes import num_bytes, total
from onnxgen.graph.ir.types import TensorType, ValueType

_VIEWS = frozenset(
    ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Optional", "OptionalGetElement", "Dropout")
)
_READS_SHAPE_ONLY = frozenset(("Shape", "Size"))
_GATHERS = frozenset(("Gather", "GatherElements", "GatherND", "GatherBlockQuantized", "Slice"))


def estimate(node: NodeFacts) -> Cost:
    """Bytes and operations of a node, None where its shapes do not say.

    Every input is read and every output written once; operators that only give a value another shape move nothing,
    and those that pick elements read as much as they write. Four-bit elements count half a byte.
    """
    if node.op_type in _VIEWS or node.op_type in _READS_SHAPE_ONLY:
        return Cost(0, 0, 0)
    written = total([num_bytes(value) for value in node.outputs])
    if node.op_type in _GATHERS:
        picked = total([num_bytes(value) for value in node.inputs[1:]])
        read = None if picked is None or written is None else picked + written
        if node.op_type == "GatherBlockQuantized" and written is not None:
            read = written  # an upper bound: the stored form is smaller
    else:
        read = total([num_bytes(value) for value in node.inputs])
    return Cost(read, written, operations_of(node))


def estimate_at(node: NodeFacts, symbols: Mapping[str, int]) -> Cost:
    """The cost when symbols have those sizes; unknown symbols stay unknown."""
    return estimate(_Sized(node, symbols))


class _Sized:
    """A node whose symbols have sizes."""

    def __init__(self, node: NodeFacts, symbols: Mapping[str, int]) -> None:
        self.domain, self.op_type = node.domain, node.op_type
        self.attributes, self.constants = node.attributes, node.constants
        self.inputs = tuple(_sized(value, symbols) for value in node.inputs)
        self.outputs = tuple(_sized(value, symbols) for value in node.outputs)


def _sized(value: ValueType | None, symbols: Mapping[str, int]) -> ValueType | None:
    from onnxgen.graph.shapes.expressions import compile_sizes, symbols_in

    if not isinstance(value, TensorType) or value.shape is None:
        return value
    names = list(symbols)
    return TensorType(
        value.dtype,
        tuple(
            compile_sizes([dim], names)(*symbols.values())[0]
            if isinstance(dim, str) and (dim in symbols or symbols_in(dim) <= symbols.keys())
            else dim
            for dim in value.shape
        ),
    )

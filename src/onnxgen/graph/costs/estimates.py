"""The cost of a node from its operator and the shapes around it."""

from __future__ import annotations

from onnxgen.graph.costs.cost import Cost
from onnxgen.graph.costs.node_facts import NodeFacts
from onnxgen.graph.costs.operations import operations_of
from onnxgen.graph.costs.sizes import num_bytes, total

_MOVES_NOTHING = frozenset(
    (
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Identity",
        "Optional",
        "OptionalGetElement",
        "Shape",
        "Size",
    )
)
_GATHERS = frozenset(("Gather", "GatherElements", "GatherND", "GatherBlockQuantized", "Slice"))


def estimate(node: NodeFacts) -> Cost:
    """Bytes and operations of a node, None where its shapes do not say.

    Every input is read and every output written once; operators that only give a value another shape move nothing,
    and those that pick elements read as much as they write. Four-bit elements count half a byte.
    """
    if node.op_type in _MOVES_NOTHING:
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

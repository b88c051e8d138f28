"""What a session says of its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

from onnxgen.graph.ir.types import Dim, OptionalType, TensorType, ValueType


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input, an output or an initializer that can be fed.

    Attributes:
        name: Its name in the model.
        type: As ONNX Runtime writes it: ``tensor(float)``, ``seq(tensor(int64))``.
        shape: Sizes, symbols such as ``"batch"``, and None for dimensions of which nothing is said. Empty for scalars, for
            sequences and maps, and, as with ONNX Runtime, where the rank itself is unknown; ``rank`` tells these apart.
        rank: Number of dimensions; None where it is unknown or the value is no tensor.
    """

    name: str
    type: str
    shape: list[Dim]
    rank: int | None


def node_arg(name: str, kind: ValueType) -> NodeArg:
    """Describe a value of that name and type."""
    tensor = kind.element if isinstance(kind, OptionalType) else kind
    dims = tensor.shape if isinstance(tensor, TensorType) else None
    shape = [_dim(dim) for dim in dims or ()]
    return NodeArg(name, str(kind), shape, None if dims is None else len(dims))


def _dim(dim: Dim) -> Dim:
    if isinstance(dim, int):
        return dim if dim >= 0 else None
    return dim or None

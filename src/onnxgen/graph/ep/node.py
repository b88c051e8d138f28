"""What a provider is told of a node: everything but the graph around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ir.types import TensorType, ValueType


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One operator application, as a provider sees it.

    Attributes:
        domain: ``""`` for the standard's operators, never ``"ai.onnx"``.
        op_type: The operator.
        opset: What the model imports of ``domain``.
        since_version: The version of the operator that this opset means (`ir.schemas.since_version`).
        attributes: Values as Python has them: int, float, str (never bytes), `numpy.ndarray` for tensors,
            `onnx_ir.Graph` for graphs, tuples for lists, a `ValueType` for type attributes. Defaults of the
            schema are not filled in.
        inputs: Types of the inputs; None for an optional input that is left out. Unknown types are `UNKNOWN`.
        outputs: Types of the outputs; None for an output that nobody asked for.
        constants: Values of inputs that are known when the graph is compiled, by input index. Read-only.
        captures: Names of outer values that the graphs in ``attributes`` use, in the order in which their values
            follow the inputs when the kernel is called. Empty without graphs.
        name: The node's name in the model, for messages.
    """

    domain: str
    op_type: str
    opset: int
    since_version: int
    attributes: Mapping[str, Any]
    inputs: tuple[ValueType | None, ...]
    outputs: tuple[ValueType | None, ...]
    constants: Mapping[int, np.ndarray] = field(default_factory=dict[int, np.ndarray])
    captures: tuple[str, ...] = ()
    name: str = ""

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute's value, or ``default`` where the node does not have it."""
        return self.attributes.get(name, default)

    def has_input(self, index: int) -> bool:
        """Whether the node gives that input."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def wants_output(self, index: int) -> bool:
        """Whether anybody asked for that output."""
        return index < len(self.outputs) and self.outputs[index] is not None

    def input_dtype(self, index: int) -> ir.DataType:
        """Element type of a tensor input; ``UNDEFINED`` where unknown, left out or not a tensor."""
        return _dtype(self.inputs[index]) if self.has_input(index) else ir.DataType.UNDEFINED

    def output_dtype(self, index: int) -> ir.DataType:
        """Element type of a tensor output; ``UNDEFINED`` where unknown, unwanted or not a tensor."""
        return _dtype(self.outputs[index]) if self.wants_output(index) else ir.DataType.UNDEFINED

    def __str__(self) -> str:
        """``com.microsoft.FastGelu-1 'name'``, as messages say it."""
        prefix = f"{self.domain}." if self.domain else ""
        return f"{prefix}{self.op_type}-{self.since_version}" + (f" {self.name!r}" if self.name else "")


def _dtype(value: ValueType | None) -> ir.DataType:
    return value.dtype if isinstance(value, TensorType) else ir.DataType.UNDEFINED

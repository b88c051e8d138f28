"""`GraphBuilder`: nodes, constants and weights of a graph that grows from its inputs to its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

OPSET = 23
IR_VERSION = 11
CONTRIB = "com.microsoft"

Dim = int | str


class GraphBuilder:
    """Grows a graph. Nodes are named by path (``/model/layers.0/mlp/down_proj/MatMul``), their outputs after them.

    Args:
        activation: Element type of activations.
    """

    def __init__(self, *, activation: ir.DataType) -> None:
        self.activation = activation
        self._nodes: list[ir.Node] = []
        self._inputs: list[ir.Value] = []
        self._outputs: list[ir.Value] = []
        self._initializers: dict[str, ir.Value] = {}

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[Dim]) -> ir.Value:
        """Declare a graph input."""
        value = _value(name, dtype, shape)
        self._inputs.append(value)
        return value

    def output(self, value: ir.Value, name: str) -> None:
        """Declare a value as the graph output of that name."""
        value.name = name
        self._outputs.append(value)

    def node(
        self,
        path: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        *,
        dtype: ir.DataType | None = None,
        shape: Sequence[Dim] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> ir.Value:
        """Add a node ``path/op_type`` with one output.

        Args:
            path: Where in the model it stands.
            op_type: Operator.
            inputs: Its inputs; None where an optional one is left out.
            dtype: Element type of the output; None for that of activations.
            shape: Shape of the output, where it is worth saying.
            domain: Domain of the operator.
            attributes: Attributes; None leaves one out.
        """
        return self.nodes(
            path, op_type, inputs, [(dtype or self.activation, shape)], domain=domain, **attributes
        )[0]

    def nodes(
        self,
        path: str,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        outputs: Sequence[tuple[ir.DataType, Sequence[Dim] | None] | None],
        *,
        domain: str = "",
        **attributes: Any,
    ) -> list[ir.Value]:
        """Add a node with several outputs: a type and shape for each, None for one that is left out."""
        import onnx_ir as ir

        name = f"{path}/{op_type}"
        values = [
            ir.Value(name="") if output is None else _value(f"{name}/output_{index}", *output)
            for index, output in enumerate(outputs)
        ]
        kept = {key: value for key, value in attributes.items() if value is not None}
        self._nodes.append(ir.node(op_type, list(inputs), kept, domain=domain, outputs=values, name=name))
        return values

    def weight(self, name: str, tensor: ir.Tensor[Any] | ir.ExternalTensor) -> ir.Value:
        """A named initializer."""
        import onnx_ir as ir

        assert name not in self._initializers, name
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape), const_value=tensor
        )
        self._initializers[name] = value
        return value

    def integers(self, values: Sequence[int] | int) -> ir.Value:
        """An int64 constant, shared by all who ask for the same one."""
        return self._constant("INT64", np.asarray(values, dtype=np.int64), str(values))

    def byte(self, value: int) -> ir.Value:
        """A uint8 scalar, shared likewise."""
        return self._constant("UINT8", np.asarray(value, dtype=np.uint8), str(value))

    def scalar(self, value: float) -> ir.Value:
        """A scalar of the activations' type, shared likewise."""
        array = np.asarray(value, dtype=self.activation.numpy())
        return self._constant(self.activation.name, array, repr(float(value)))

    def finish(self, name: str) -> ir.Graph:
        """The graph, with the initializers that its nodes use."""
        import onnx_ir as ir

        return ir.Graph(
            self._inputs,
            self._outputs,
            nodes=self._nodes,
            initializers=[value for value in self._initializers.values() if value.uses()],
            opset_imports={"": OPSET, CONTRIB: 1},
            name=name,
        )

    def _constant(self, kind: str, array: np.ndarray[Any, Any], text: str) -> ir.Value:
        import onnx_ir as ir

        name = f"/model/constants/{kind}/{text}"
        if name not in self._initializers:
            self.weight(name, ir.Tensor(array, name=name))
        return self._initializers[name]


def _value(name: str, dtype: ir.DataType, shape: Sequence[Dim] | None) -> ir.Value:
    import onnx_ir as ir

    return ir.Value(
        name=name, type=ir.TensorType(dtype), shape=None if shape is None else ir.Shape(list(shape))
    )

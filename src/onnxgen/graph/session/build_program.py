"""Programs from placed graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnxgen.graph.ep.from_graph import captured_values, constant_array, type_of
from onnxgen.graph.ep.kernel import Kernel
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, ExecutionProvider
from onnxgen.graph.ir.types import TensorType
from onnxgen.graph.planner.program import Call, NamedValue, Program

EXECUTOR = "executor"


class ProgramBuilder:
    """Collects the calls of one graph; copies values to the device where they are used.

    Args:
        graph: The graph.
        outer: Values of the graphs around it that the program takes after the graph's inputs.
    """

    def __init__(self, graph: ir.Graph, outer: Sequence[ir.Value]) -> None:
        self._graph = graph
        self._values: list[NamedValue] = []
        self._constants: dict[int, np.ndarray] = {}
        self._calls: list[Call] = []
        self._numbers: dict[tuple[ir.Value, str], int] = {}
        self._makers: dict[ir.Value, ExecutionProvider] = {}
        self._inputs = [self._new(value, HOST) for value in (*graph.inputs, *outer)]
        for value in graph.initializers.values():
            array = constant_array(value)
            if array is not None:
                self._constants[self._new(value, HOST)] = array

    def add(self, node: ir.Node, spec: NodeSpec, kernel: Kernel, provider: ExecutionProvider) -> None:
        """Add a node that a provider runs."""
        inputs = tuple(None if v is None else self._on(v, provider) for v in _given(node))
        outputs = tuple(self._new(value, provider.device) for value in node.outputs)
        if provider.device != HOST:
            self._makers.update(dict.fromkeys(node.outputs, provider))
        self._calls.append(Call(spec, kernel, provider.name, provider.device, inputs, outputs))

    def add_control_flow(self, node: ir.Node, spec: NodeSpec, kernel: Kernel) -> None:
        """Add a node whose graphs the executor runs; its values are on the host."""
        inputs = tuple(
            None if v is None else self._on_host(v) for v in (*node.inputs, *captured_values(node))
        )
        outputs = tuple(self._new(value, HOST) for value in node.outputs)
        self._calls.append(Call(spec, kernel, EXECUTOR, HOST, inputs, outputs, takes_run=True))

    def program(self, name: str) -> Program:
        """What was collected."""
        outputs = tuple(self._on_host(value) for value in self._graph.outputs)
        self._let_go(outputs)
        return Program(
            name, tuple(self._values), tuple(self._inputs), self._constants, tuple(self._calls), outputs
        )

    def _let_go(self, outputs: Sequence[int]) -> None:
        """Replace constants that no kernel reads any more by something of their shape that takes no memory."""
        read = {*outputs} | {
            value
            for call in self._calls
            for index, value in enumerate(call.inputs)
            if value is not None and index not in call.kernel.absorbed
        }
        for call in self._calls:
            for index in call.kernel.absorbed:
                value = call.inputs[index] if index < len(call.inputs) else None
                if value is None or value in read or value not in self._constants:
                    continue
                array = self._constants[value]
                nothing = np.broadcast_to(np.zeros((), array.dtype), array.shape)
                self._constants[value] = nothing
                # Whoever was told of the node holds this dictionary, placement and kernels among them.
                constants = call.spec.constants
                assert isinstance(constants, dict), "a node's own constants"
                constants[index] = nothing

    def _new(self, value: ir.Value, device: str) -> int:
        number = len(self._values)
        suffix = "" if device == HOST else f" on {device}"
        self._numbers[value, device] = number
        self._values.append(NamedValue(f"{value.name}{suffix}" if value.name else "", type_of(value)))
        return number

    def _on(self, value: ir.Value, provider: ExecutionProvider) -> int:
        found = self._numbers.get((value, provider.device))
        if found is not None:
            return found
        source = self._on_host(value)
        if provider.device == HOST or not isinstance(type_of(value), TensorType):
            return source
        if source in self._constants:
            number = self._new(value, provider.device)
            self._constants[number] = provider.to_device(self._constants[source])
            return number
        return self._copy("ToDevice", Kernel(provider.to_device), value, source, provider, provider.device)

    def _on_host(self, value: ir.Value) -> int:
        found = self._numbers.get((value, HOST))
        if found is not None:
            return found
        maker = self._makers[value]
        source = self._numbers[value, maker.device]
        return self._copy("ToHost", Kernel(maker.to_host, may_alias=((0, 0),)), value, source, maker, HOST)

    def _copy(
        self,
        op_type: str,
        kernel: Kernel,
        value: ir.Value,
        source: int,
        provider: ExecutionProvider,
        device: str,
    ) -> int:
        kind = type_of(value)
        spec = NodeSpec("onnxgen", op_type, 1, 1, {}, (kind,), (kind,), name=value.name or "")
        target = self._new(value, device)
        self._calls.append(Call(spec, kernel, provider.name, device, (source,), (target,)))
        return target


def _given(node: ir.Node) -> list[ir.Value | None]:
    """What a kernel takes: the inputs up to the last one that is not left out, or all of them and outer values."""
    inputs, outer = list(node.inputs), captured_values(node)
    while inputs and inputs[-1] is None and not outer:
        inputs.pop()
    return [*inputs, *outer]

"""From a loaded model to an executable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxgen.errors import UnsupportedOperatorError
from onnxgen.foundations.tracing import OFF, Tracer
from onnxgen.graph.ep.from_graph import captured_values, constant_array, node_spec, type_of
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ep.provider import HOST, Claim, Decline, ExecutionProvider
from onnxgen.graph.planner.program import Call, NamedValue, Program
from onnxgen.graph.session.control_flow import Maker, if_kernel, loop_kernel
from onnxgen.graph.session.executor import Executable
from onnxgen.graph.session.routine import Routine
from onnxgen.graph.session.scan import scan_kernel

CONTROL_FLOW: Mapping[str, Maker] = {"If": if_kernel, "Loop": loop_kernel, "Scan": scan_kernel}


def compile_model(
    loaded: Any,
    providers: Sequence[ExecutionProvider],
    *,
    level: Any = None,
    trace: Tracer = OFF,
    memory_reuse: bool = True,
) -> Executable:
    """Make a model ready to run: infer, optimize, place, compile every node, plan."""
    graph = loaded.model.graph
    compiler = _Compiler(providers, graph.opset_imports)
    program = compiler.program(graph, ())
    defaults = {
        number: np.asarray(value.const_value.numpy())
        for number, value in zip(program.inputs, graph.inputs, strict=True)
        if value.const_value is not None
    }
    return Executable(Routine(program), defaults=defaults)


class _Compiler:
    def __init__(self, providers: Sequence[ExecutionProvider], opsets: Mapping[str, int]) -> None:
        self.providers = providers
        self.opsets = opsets

    def program(self, graph: ir.Graph, outer: Sequence[ir.Value]) -> Program:
        builder = _Builder()
        inputs = [builder.number(value) for value in (*graph.inputs, *outer)]
        for value in graph.initializers.values():
            array = constant_array(value)
            if array is not None:
                builder.constants[builder.number(value)] = array
        for node in graph:
            builder.calls.append(self.call(builder, node))
        outputs = [builder.number(value) for value in graph.outputs]
        return Program(
            graph.name or "graph", tuple(builder.values), tuple(inputs), builder.constants, tuple(builder.calls),
            tuple(outputs),
        )  # fmt: skip

    def call(self, builder: _Builder, node: ir.Node) -> Call:
        spec = node_spec(node, self.opsets)
        captures = captured_values(node)
        inputs = tuple(
            None if value is None else builder.number(value) for value in (*node.inputs, *captures)
        )
        outputs = tuple(builder.number(value) for value in node.outputs)
        if spec.domain == "" and spec.op_type in CONTROL_FLOW:
            kernel = CONTROL_FLOW[spec.op_type](spec, self.bodies(node, captures))
            return Call(spec, kernel, "executor", HOST, inputs, outputs, takes_run=True)
        provider, claim = self.claim(spec)
        return Call(spec, provider.compile(spec, claim), provider.name, provider.device, inputs, outputs)

    def bodies(self, node: ir.Node, captures: Sequence[ir.Value]) -> dict[str, Routine]:
        return {
            name: Routine(self.program(attribute.value, captures))
            for name, attribute in node.attributes.items()
            if attribute.type is ir.AttributeType.GRAPH
        }

    def claim(self, spec: NodeSpec) -> tuple[ExecutionProvider, Claim]:
        reasons: list[str] = []
        for provider in self.providers:
            claim = provider.claim(spec)
            if not isinstance(claim, Decline):
                return provider, claim
            reasons.append(f"{provider.name} declined: {claim.reason}")
        raise UnsupportedOperatorError(f"no provider runs {spec}: {'; '.join(reasons)}")


class _Builder:
    def __init__(self) -> None:
        self.values: list[NamedValue] = []
        self.constants: dict[int, np.ndarray] = {}
        self.calls: list[Call] = []
        self._numbers: dict[ir.Value, int] = {}

    def number(self, value: ir.Value) -> int:
        if value not in self._numbers:
            self._numbers[value] = len(self.values)
            self.values.append(NamedValue(value.name or "", type_of(value)))
        return self._numbers[value]

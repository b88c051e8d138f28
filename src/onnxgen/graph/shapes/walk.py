"""The way through a model's graphs, node by node."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_shape_inference import registry

from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.onnx_rules import infer_by_onnx
from onnxgen.graph.shapes.report import InferenceReport
from onnxgen.graph.shapes.schema_types import infer_types_by_schema
from onnxgen.graph.shapes.symbols import InputSymbols

Declared = tuple[ir.TypeProtocol | None, ir.Shape | None]


class Walk:
    """One inference: what it knows, and what it could not find."""

    def __init__(self, model: ir.Model) -> None:
        registry.collect()
        self.symbols = InputSymbols(model.graph.inputs)
        opsets = {normal_domain(domain): version for domain, version in model.opset_imports.items()}
        self.context = Context(opsets, self.symbols.declared)
        self._declared_kept: dict[ir.Value, None] = {}
        self._failures: dict[str, None] = {}
        self._computed: dict[ir.Value, None] = {}

    def report(self) -> InferenceReport:
        """The outcome so far."""
        unresolved = tuple(value.name or "" for value in self._computed if not is_resolved(value))
        return InferenceReport(
            resolved=len(self._computed) - len(unresolved),
            unresolved=unresolved,
            declared=tuple(value.name or "" for value in self._declared_kept),
            symbols=dict(self.symbols.declared),
            failures=tuple(self._failures),
        )

    def graph(self, graph: ir.Graph) -> None:
        """Infer every node of a graph whose inputs have their types."""
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.shape = ir.Shape(value.const_value.shape.numpy())
                value.type = ir.TensorType(value.const_value.dtype)
                if value.is_graph_input():
                    self.context.hide_default(value)
        for node in graph:
            self._node(node)

    def _node(self, node: ir.Node) -> None:
        declared = [(value.type, value.shape) for value in node.outputs]
        for value in node.outputs:
            self.context.forget(value)
            if value.name:
                self._computed[value] = None
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH:
                self.graph(attribute.as_graph())
        known = self._apply(node)
        infer_types_by_schema(node, self.context.get_opset_version(normal_domain(node.domain)))
        if not known:
            self._keep_declared(node, declared)

    def _apply(self, node: ir.Node) -> bool:
        """Run the best rule there is; False where there is none."""
        opset = self.context.get_opset_version(normal_domain(node.domain))
        rule = registry.get(node.domain, node.op_type, opset)
        if rule is None:
            return infer_by_onnx(self.context, node, opset)
        try:
            rule(self.context, node)
        except Exception as error:  # noqa: BLE001 - a rule's failure is a gap in what is known, whatever it was
            self._failures[f"{node.op_type} {node.name!r}: {error}"] = None
        if not all(is_resolved(value) for value in node.outputs if value.name):
            infer_by_onnx(self.context, node, opset)
        return True

    def _keep_declared(self, node: ir.Node, declared: Sequence[Declared]) -> None:
        for value, (kind, shape) in zip(node.outputs, declared, strict=True):
            if value.name and value.type is None and kind is not None:
                value.type = kind
                value.shape = None if shape is None else self.context.name_anonymous_dims_in_shape(shape)
                self._declared_kept[value] = None


def is_resolved(value: ir.Value) -> bool:
    """Whether a value's type is known, and its rank where it is a tensor."""
    if value.type is None:
        return False
    return not isinstance(value.type, ir.TensorType) or value.shape is not None

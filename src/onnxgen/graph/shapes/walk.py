"""The way through a model's graphs, node by node."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
from onnx_shape_inference import registry

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.ir.types import DECLARED_TYPE
from onnxgen.graph.shapes.context import Context
from onnxgen.graph.shapes.control_flow import infer_control_flow
from onnxgen.graph.shapes.elements import propagate_elements
from onnxgen.graph.shapes.onnx_rules import infer_by_onnx
from onnxgen.graph.shapes.report import InferenceReport
from onnxgen.graph.shapes.rules import RULES, old_rule
from onnxgen.graph.shapes.rules.tools import Rule
from onnxgen.graph.shapes.schema_types import infer_types_by_schema, type_contradiction
from onnxgen.graph.shapes.symbols import InputSymbols

Declared = tuple[ir.TypeProtocol | None, ir.Shape | None]

_MICROSOFT = "com.microsoft"
_CONTROL_FLOW = frozenset(("If", "Loop", "Scan"))
_VISITS_FOR_EACH_NODE = 16
"""Bodies of loops are visited again until shapes settle; nested ones not without end."""


class Walk:
    """One inference: what it knows, and what it could not find."""

    def __init__(self, model: ir.Model) -> None:
        registry.collect()
        self.symbols = InputSymbols(model.graph.inputs)
        opsets = {normal_domain(domain): version for domain, version in model.opset_imports.items()}
        self.context = Context(opsets, self.symbols.declared)
        self._visits_left = _VISITS_FOR_EACH_NODE * sum(
            1 for _ in ir.traversal.RecursiveGraphIterator(model.graph)
        )
        self._kept: dict[ir.Value, None] = {}
        self._failures: dict[ir.Node, str] = {}
        self._contradictions: dict[ir.Node, str] = {}
        self._declared: dict[ir.Value, Declared] = {}

    def report(self) -> InferenceReport:
        """The outcome.

        Raises:
            InvalidGraphError: Operators got element types that they exclude.
        """
        if self._contradictions:
            raise InvalidGraphError("\n".join(self._contradictions.values()))
        computed = [value for value in self._declared if value.name]
        unresolved = tuple(value.name or "" for value in computed if not is_resolved(value))
        return InferenceReport(
            resolved=len(computed) - len(unresolved),
            unresolved=unresolved,
            declared=tuple(value.name or "" for value in self._kept),
            symbols=dict(self.symbols.declared),
            failures=tuple(self._failures.values()),
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
            self._visits_left -= 1
            self._node(node)

    def _node(self, node: ir.Node) -> None:
        for value in node.outputs:
            self._declared.setdefault(value, (value.type, value.shape))
            self.context.forget(value)
        opset = self.context.opset_of(node)
        contradiction = type_contradiction(node, opset)
        if contradiction:
            self._contradictions[node] = contradiction
            return
        known = self._apply(node, opset)
        infer_types_by_schema(node, opset)
        try:
            propagate_elements(self.context, node)
        except Exception as error:  # noqa: BLE001 - as above
            self._failures[node] = f"elements of {node.op_type} {node.name or ''}: {error}"
        if not known:
            self._keep_declared(node.outputs)

    def _apply(self, node: ir.Node, opset: int) -> bool:
        """Run the best rule there is; False where there is none."""
        self._failures.pop(node, None)
        try:
            if node.op_type in _CONTROL_FLOW and not normal_domain(node.domain):
                infer_control_flow(self.context, node, self.graph, settle=self._visits_left > 0)
                return True
            self._infer_inner_graphs(node)
            rule = self.rule(node, opset)
            if rule is None:
                return infer_by_onnx(self.context, node, opset)
            rule(self.context, node)
            if node.op_type == "Constant" and (tensor := ir.convenience.get_const_tensor(node.outputs[0])):
                self.context.lend(node.outputs[0], tensor)
        except Exception as error:  # noqa: BLE001 - a failure of a rule, whatever it is, is a gap in what is known
            self._failures[node] = f"{node.op_type} {node.name or ''}: {error}"
        return True

    def rule(self, node: ir.Node, opset: int) -> Rule | None:
        """The best rule for a node of that opset; None where there is none."""
        domain = normal_domain(node.domain)
        found = (
            (None if domain else old_rule(node.op_type, opset))
            or RULES.get((domain, node.op_type))
            or registry.get(domain, node.op_type, opset)
        )
        if found is None and not domain:
            # ONNX Runtime's optimizer writes some of its own operators into the standard's domain
            found = RULES.get((_MICROSOFT, node.op_type)) or registry.get(_MICROSOFT, node.op_type, 1)
        return found

    def _infer_inner_graphs(self, node: ir.Node) -> None:
        for attribute in node.attributes.values():
            if attribute.type is ir.AttributeType.GRAPH:
                graph = attribute.as_graph()
                for value in graph.inputs:
                    self.symbols.rename(value)
                self.graph(graph)

    def _keep_declared(self, values: Sequence[ir.Value]) -> None:
        for value in values:
            kind, shape = self._declared[value]
            if value.name and value.type is None and kind is not None:
                value.type, value.shape = kind, shape
                self.symbols.rename(value)
                self._kept[value] = None


def is_resolved(value: ir.Value) -> bool:
    """Whether a value's type is known, and its rank where it is a tensor."""
    if value.type is None:
        return DECLARED_TYPE in value.meta
    return not isinstance(value.type, ir.TensorType) or value.shape is not None

"""What passes share while one model is optimized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from onnxgen.graph.ep.from_graph import node_spec
from onnxgen.graph.ep.node import NodeSpec
from onnxgen.graph.ir.schemas import normal_domain
from onnxgen.graph.optimizer.facts import has_graphs

Evaluate = Callable[[NodeSpec, list[Any]], Sequence[Any]]
"""Runs a node on arrays (None for an input left out) and returns its outputs."""


class Context:
    """The model, and what may be asked about it.

    Args:
        model: The model, changed in place.
        can_run: Whether some provider claims a node.
        evaluate: Runs a node; None where nothing may run, which turns constant folding off.
    """

    def __init__(
        self, model: ir.Model, *, can_run: Callable[[NodeSpec], bool], evaluate: Evaluate | None = None
    ) -> None:
        self.model = model
        self.evaluate = evaluate
        self._can_run = can_run
        self._has_inner_graphs = any(has_graphs(node) for node in model.graph)
        self._names = {value.name for value in _values(model)}

    def graphs(self) -> list[ir.Graph]:
        """Every graph of the model, outer ones first."""
        return list(self.model.graphs()) if self._has_inner_graphs else [self.model.graph]

    def opset(self, domain: str = "") -> int:
        """What the model imports of a domain; 1 for a domain it does not name."""
        return {normal_domain(name): version for name, version in self.model.opset_imports.items()}.get(
            domain, 1
        )

    def spec(self, node: ir.Node) -> NodeSpec:
        """The node as providers see it."""
        return node_spec(node, self.model.opset_imports)

    def can_run(self, node: ir.Node) -> bool:
        """Whether some provider claims the node."""
        return self._can_run(self.spec(node))

    def fresh_name(self, base: str) -> str:
        """A name that no value of any graph of the model has."""
        name, number = base, 0
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        return name

    def import_domain(self, domain: str) -> None:
        """Let the model use a domain's operators."""
        if domain not in self.model.opset_imports and normal_domain(domain):
            self.model.opset_imports[domain] = 1


def _values(model: ir.Model) -> list[ir.Value]:
    found: list[ir.Value] = []
    for graph in model.graphs():
        found.extend(graph.inputs)
        found.extend(graph.outputs)
        found.extend(graph.initializers.values())
        found.extend(output for node in graph for output in node.outputs)
    return found

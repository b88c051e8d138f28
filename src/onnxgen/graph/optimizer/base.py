"""What a pass is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import Edit
from onnxgen.graph.optimizer.level import OptimizationLevel

Rule = Callable[[ir.Node, Context], Iterable[Edit]]
"""Edits that may take the place of a node, the best first; the first that can be applied is."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One kind of change.

    Before and after it the model is legal, and computes the same outputs from the same feeds: integers exactly, floats up
    to the order of their sums.

    Attributes:
        name: Short, for reports and traces: ``layer_norm``.
        level: From which level on it runs.
        run: Changes a model in place and counts what it did, by phrase; an empty count means no change.
    """

    name: str
    level: OptimizationLevel
    run: Callable[[Context], Counter[str]]


def rewriting(name: str, level: OptimizationLevel, *rules: Mapping[str, Rule]) -> Pass:
    """A pass that tries rules on every node of every graph, by operator: ``"Gelu"`` or ``"com.microsoft.Gelu"``.

    Of several tables, each has its turn on all nodes: a longer form that ends later comes before a shorter one.
    """

    def run(context: Context) -> Counter[str]:
        did: Counter[str] = Counter()
        for graph in context.graphs():
            for table in rules:
                for node in list(graph):
                    rule = table.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
                    if rule is not None and node.graph is graph and node.version is None:
                        did.update(_first_applied(rule(node, context)))
        return did

    return Pass(name, level, run)


def rewriting_all(name: str, level: OptimizationLevel, rule: Rule) -> Pass:
    """A pass that tries one rule on every node of every graph, in order."""

    def run(context: Context) -> Counter[str]:
        did: Counter[str] = Counter()
        for graph in context.graphs():
            for node in list(graph):
                if node.graph is graph:
                    did.update(_first_applied(rule(node, context)))
        return did

    return Pass(name, level, run)


def _first_applied(edits: Iterable[Edit]) -> dict[str, int]:
    return next((edit.did for edit in edits if edit.apply()), {})

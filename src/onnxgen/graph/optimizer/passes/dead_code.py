"""Nodes, optional outputs and initializers that nobody uses go."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnxgen.graph.optimizer.base import Pass
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import sweep
from onnxgen.graph.optimizer.facts import is_used
from onnxgen.graph.optimizer.level import OptimizationLevel


def _run(context: Context) -> Counter[str]:
    graphs = context.graphs()
    nodes = sum(sweep(reversed(graph)) for graph in graphs)
    initializers = sum(_remove_initializers(graph) for graph in graphs)
    return +Counter({"unused nodes removed": nodes, "unused initializers removed": initializers})


def _remove_initializers(graph: ir.Graph) -> int:
    unused = [
        name
        for name, value in graph.initializers.items()
        if not is_used(value) and not value.is_graph_input()
    ]
    for name in unused:
        del graph.initializers[name]
    return len(unused)


DEAD_CODE = Pass("dead_code", OptimizationLevel.BASIC, _run)

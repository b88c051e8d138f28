"""Nodes, optional outputs and initializers that nobody uses go."""

from __future__ import annotations

from collections import Counter

import onnx.defs
import onnx_ir as ir

from onnxgen.graph.ir.schemas import schema
from onnxgen.graph.optimizer.base import Pass
from onnxgen.graph.optimizer.context import Context
from onnxgen.graph.optimizer.edit import sweep
from onnxgen.graph.optimizer.facts import is_used
from onnxgen.graph.optimizer.level import OptimizationLevel

_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional


def _run(context: Context) -> Counter[str]:
    graphs = context.graphs()
    nodes = sum(sweep(reversed(graph)) for graph in graphs)
    outputs = sum(_drop_outputs(node, context) for graph in graphs for node in graph)
    initializers = sum(_remove_initializers(graph) for graph in graphs)
    return +Counter(
        {
            "unused nodes removed": nodes,
            "unused outputs dropped": outputs,
            "unused initializers removed": initializers,
        }
    )


def _drop_outputs(node: ir.Node, context: Context) -> int:
    """Optional outputs that nobody uses lose their names, which says that they need not be computed."""
    if (
        len(node.outputs) == 1 or node.op_type == "BatchNormalization"
    ):  # its outputs once said whether it trains
        return 0
    found = schema(node.domain, node.op_type, node.version or context.opset(node.domain))
    unused = [
        output
        for output, form in zip(node.outputs, found.outputs if found else (), strict=False)
        if form.option == _OPTIONAL and output.name and not is_used(output)
    ]
    for output in unused:
        output.name = ""
    return len(unused)


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

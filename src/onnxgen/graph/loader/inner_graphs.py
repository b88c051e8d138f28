"""Graphs inside control flow nodes: as many inputs and outputs as the node hands over and takes back."""

from __future__ import annotations

import onnx

from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.walk import node_label

_LOOP_CONTROL = 2  # iteration number and condition


def check_inner_graphs(node: onnx.NodeProto, since_version: int, defects: Defects) -> None:
    """Find graphs of If, Loop, Scan and SequenceMap that do not fit their node."""
    if node.domain or node.op_type not in ("If", "Loop", "Scan", "SequenceMap"):
        return
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            _check(node, attribute.name, attribute.g, since_version, defects)


def _check(
    node: onnx.NodeProto, name: str, graph: onnx.GraphProto, since_version: int, defects: Defects
) -> None:
    inputs, outputs = len(node.input), len(node.output)
    if node.op_type == "If":
        expected_inputs, expected_outputs = 0, outputs
    elif node.op_type == "Loop":
        expected_inputs = max(inputs, _LOOP_CONTROL)
        expected_outputs = outputs + 1  # the condition
    else:
        lengths = 1 if since_version == 8 else 0  # Scan-8 starts with the lengths of its sequences
        expected_inputs, expected_outputs = inputs - lengths, outputs
    for what, found, expected in (
        ("inputs", len(graph.input), expected_inputs),
        ("outputs", len(graph.output), expected_outputs),
    ):
        if found != expected:
            defects.add(f"{name} of {node_label(node)} has {found} {what}, the node expects {expected}")

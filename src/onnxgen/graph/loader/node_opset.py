"""Opsets of single nodes: those that came out of a function may mean another version than the model's."""

from __future__ import annotations

from collections.abc import Mapping

import onnx
import onnx_ir as ir

from onnxgen.graph.ir.schemas import since_version

_KEY = "onnxgen.opset"


def mark_opset(node: onnx.NodeProto, own: Mapping[str, int], model: Mapping[str, int]) -> None:
    """Note on a node from a function that imports ``own`` its opset, where the model's means another operator."""
    opset = own.get(node.domain, model.get(node.domain, 1))
    in_model = model.get(node.domain, opset)
    if since_version(node.domain, node.op_type, opset) != since_version(node.domain, node.op_type, in_model):
        node.metadata_props.add(key=_KEY, value=str(opset))


def node_opset(node: onnx.NodeProto, model: Mapping[str, int]) -> int:
    """The opset that a node means."""
    noted = next((entry.value for entry in node.metadata_props if entry.key == _KEY), None)
    return int(noted) if noted is not None else model.get(node.domain, 1)


def notes_to_versions(node: ir.Node) -> None:
    """Turn the note into the node's own version."""
    noted = node.metadata_props.pop(_KEY, None)
    if noted is not None:
        node.version = int(noted)

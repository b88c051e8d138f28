"""Names in files that are not UTF-8, which protobuf hands out as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.walk import proto_graphs, proto_nodes


def check_text(model: onnx.ModelProto, defects: Defects) -> None:
    """Find names that are not UTF-8; what is only for people to read is made readable."""
    for what, text in _names(model):
        if isinstance(text, bytes):
            defects.add(f"{what} {text!r} is not UTF-8")
    for field in ("producer_name", "producer_version", "domain", "doc_string"):
        if isinstance(getattr(model, field), bytes):
            setattr(model, field, _readable(getattr(model, field)))
    _make_readable(model.metadata_props)
    for graph in proto_graphs(model):
        graph.name, graph.doc_string = _readable(graph.name), _readable(graph.doc_string)
        _make_readable(graph.metadata_props)
        for message in (*graph.input, *graph.output, *graph.value_info):
            message.ClearField("doc_string")  # nobody asks for those of single values and nodes
            _make_readable(message.metadata_props)
    for node in proto_nodes(model):
        node.ClearField("doc_string")
        _make_readable(node.metadata_props)
        for attribute in node.attribute:
            attribute.ClearField("doc_string")


def _make_readable(entries: Any) -> None:
    for entry in entries:
        entry.key, entry.value = _readable(entry.key), _readable(entry.value)


def _names(model: onnx.ModelProto) -> Iterator[tuple[str, Any]]:
    for opset in model.opset_import:
        yield "domain", opset.domain
    for function in model.functions:
        yield "function name", function.name
        yield "function domain", function.domain
        yield "function overload", function.overload
        yield from (("attribute name", name) for name in function.attribute)
        yield from (("attribute name", attribute.name) for attribute in function.attribute_proto)
        yield from (("value name", name) for name in (*function.input, *function.output))
        yield from (("domain", opset.domain) for opset in function.opset_import)
    for node in proto_nodes(model):
        yield "operator", node.op_type
        yield "domain", node.domain
        yield "node name", node.name
        yield "function overload", node.overload
        yield from (("value name", name) for name in node.input)
        yield from (("value name", name) for name in node.output)
        for attribute in node.attribute:
            yield "attribute name", attribute.name
            yield "attribute name", attribute.ref_attr_name
            yield from _tensor_names((attribute.t, *attribute.tensors))
    for graph in proto_graphs(model):
        yield from (("value name", v.name) for v in (*graph.input, *graph.output, *graph.value_info))
        yield from _tensor_names(graph.initializer)
        yield from (("tensor name", sparse.values.name) for sparse in graph.sparse_initializer)


def _tensor_names(tensors: Any) -> Iterator[tuple[str, Any]]:
    for tensor in tensors:
        yield "tensor name", tensor.name
        for entry in tensor.external_data:
            yield "external data entry", entry.key
            yield "external data entry", entry.value


def _readable(text: str | bytes) -> str:
    return text.decode("utf-8", "replace") if isinstance(text, bytes) else text

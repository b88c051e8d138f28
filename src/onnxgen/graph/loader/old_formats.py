"""What files of old IR versions write differently, brought to the form of today."""

from __future__ import annotations

import onnx

from onnxgen.graph.loader.legality import initializer_names
from onnxgen.graph.loader.walk import proto_nodes

_ATTRIBUTE_KINDS_SINCE_IR = 2
_OPTIONAL_INITIALIZERS_SINCE_IR = 4

_CONTENT = {
    onnx.AttributeProto.FLOAT: "f",
    onnx.AttributeProto.INT: "i",
    onnx.AttributeProto.STRING: "s",
    onnx.AttributeProto.TENSOR: "t",
    onnx.AttributeProto.GRAPH: "g",
    onnx.AttributeProto.FLOATS: "floats",
    onnx.AttributeProto.INTS: "ints",
    onnx.AttributeProto.STRINGS: "strings",
    onnx.AttributeProto.TENSORS: "tensors",
    onnx.AttributeProto.GRAPHS: "graphs",
}


def modernize(model: onnx.ModelProto) -> None:
    """Fill in the kinds of attributes that version 1 left out, and take initializers out of the inputs before version 4.

    Initializers had to be inputs until then, and still were constants that no caller gives.
    """
    if model.ir_version < _ATTRIBUTE_KINDS_SINCE_IR:
        for node in proto_nodes(model):
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.UNDEFINED:
                    attribute.type = _only_kind_held(attribute)
    if model.ir_version < _OPTIONAL_INITIALIZERS_SINCE_IR:
        initializers = set(initializer_names(model.graph))
        for index in reversed(range(len(model.graph.input))):
            if model.graph.input[index].name in initializers:
                del model.graph.input[index]


def _only_kind_held(attribute: onnx.AttributeProto) -> onnx.AttributeProto.AttributeType:
    fields = {field.name for field, _ in attribute.ListFields()}
    held = [kind for kind, field in _CONTENT.items() if field in fields]
    return held[0] if len(held) == 1 else onnx.AttributeProto.UNDEFINED

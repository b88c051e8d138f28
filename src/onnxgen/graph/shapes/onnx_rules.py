"""onnx's own inference, one node at a time: the last resort, for operators that no rule knows.

It is not asked about anything else: it is C++ that trusts its input, and strange attributes make it crash.
"""

from __future__ import annotations

import onnx
import onnx.shape_inference
import onnx_ir as ir

from onnxgen.graph.ir.schemas import normal_domain, schema
from onnxgen.graph.shapes.context import Context

_MOST_BYTES = 65_536
"""Constants with more bytes are not shown to onnx: they are weights, not shapes."""


def infer_by_onnx(context: Context, node: ir.Node, opset: int) -> bool:
    """Fill the outputs whose type or shape is not known yet.

    Returns:
        Whether onnx defines the operator and gave every output a type.
    """
    definition = schema(normal_domain(node.domain), node.op_type, opset)
    if definition is None or any(value is not None and value.type is None for value in node.inputs):
        return False
    if any(
        attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
        for attribute in node.attributes.values()
    ):
        return False
    try:
        proto = ir.to_proto(node)
        types = {value.name: _type_proto(value) for value in node.inputs if value is not None and value.name}
        data = {
            value.name: ir.to_proto(value.const_value)
            for value in node.inputs
            if value is not None
            and value.name
            and value.const_value is not None
            and value.const_value.nbytes <= _MOST_BYTES
        }
        imports = [
            onnx.helper.make_opsetid(domain, version) for domain, version in context.opset_imports.items()
        ]
        found = onnx.shape_inference.infer_node_outputs(definition, proto, types, data, opset_imports=imports)
    except Exception:  # noqa: BLE001 - whatever it is, onnx or its protobuf cannot say it
        return False
    for value in node.outputs:
        if value.name in found:
            _fill(context, value, found[value.name])
    return all(value.type is not None for value in node.outputs if value.name)


def _type_proto(value: ir.Value) -> onnx.TypeProto:
    info = ir.to_proto(value)
    assert isinstance(info, onnx.ValueInfoProto)
    return info.type


def _fill(context: Context, value: ir.Value, found: onnx.TypeProto) -> None:
    try:
        inferred = ir.from_proto(onnx.ValueInfoProto(name="x", type=found))
    except ir.serde.SerdeError:  # onnx-ir has no maps: nothing is known of such a value
        return
    if value.type is None:
        value.type = inferred.type
    if value.shape is None and inferred.shape is not None:
        context.set_shape(value, inferred.shape)

"""Makes a protobuf of a model in memory without copying its weights."""

from __future__ import annotations

from dataclasses import dataclass

import onnx
import onnx_ir as ir

from onnxgen.errors import InvalidGraphError
from onnxgen.graph.loader.walk import graphs


@dataclass(frozen=True, slots=True)
class Lent:
    """A model whose tensors are elsewhere.

    Attributes:
        proto: The model; each tensor is external, and its location is a key of ``tensors``.
        tensors: The tensors themselves.
    """

    proto: onnx.ModelProto
    tensors: dict[str, ir.TensorProtocol]


def lend_tensors(model: ir.Model, origin: str) -> Lent:
    """Serialize everything of a model but its tensors. The model is left as it is.

    Raises:
        InvalidGraphError: The model cannot be written down (a value without a name, for example).
    """
    tensors: dict[str, ir.TensorProtocol] = {}
    copy = model.clone()
    for graph in graphs(copy):
        for value in graph.initializers.values():
            if value.const_value is not None:
                value.const_value = _stand_in(value.const_value, tensors)
        for node in graph:
            for attribute in tuple(node.attributes.values()):
                if attribute.is_ref():
                    continue
                if attribute.type is ir.AttributeType.TENSOR:
                    lent = _stand_in(attribute.value, tensors)
                    node.attributes[attribute.name] = ir.AttrTensor(attribute.name, lent)
                elif attribute.type is ir.AttributeType.TENSORS:
                    several = [_stand_in(tensor, tensors) for tensor in attribute.value]
                    node.attributes[attribute.name] = ir.AttrTensors(attribute.name, several)
    try:
        return Lent(ir.to_proto(copy), tensors)
    except (ValueError, TypeError, AttributeError, ir.serde.SerdeError) as cause:
        raise InvalidGraphError(f"{origin} cannot be written down: {cause}") from cause


def _stand_in(tensor: ir.TensorProtocol, tensors: dict[str, ir.TensorProtocol]) -> ir.ExternalTensor:
    key = str(len(tensors))
    tensors[key] = tensor
    shape = ir.Shape(tensor.shape.numpy())
    return ir.ExternalTensor(key, None, None, tensor.dtype, shape=shape, name=tensor.name or "")

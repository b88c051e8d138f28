"""Moves the tensors of a protobuf out of it, so that graph and weights can be worked on apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx
import onnx_ir as ir

from onnxgen.graph.loader.data_files import DataFiles
from onnxgen.graph.loader.defects import Defects
from onnxgen.graph.loader.sparse import dense_tensor
from onnxgen.graph.loader.tensors import TensorDefectError, read_tensor
from onnxgen.graph.loader.walk import graphs, proto_graphs, proto_nodes

Tensors = Mapping[str, ir.TensorProtocol]
"""Tensors by the location that stands for each of them."""


def take_tensors(model: onnx.ModelProto, files: DataFiles, lent: Tensors, defects: Defects) -> Tensors:
    """Take every tensor out of a model, attributes and inner graphs included; sparse ones become dense.

    Returns:
        The tensors. In ``model`` each of them is external now, at a location that is its key.

    Raises:
        ModelFileError: A file of external data is missing, too short, or outside of the model's folder.
    """
    taken: dict[str, ir.TensorProtocol] = {}
    for proto in list(_dense(model)):
        location = next((entry.value for entry in proto.external_data if entry.key == "location"), "")
        try:
            tensor = lent[location] if location in lent else read_tensor(proto, files)
        except TensorDefectError as defect:
            defects.add(f"tensor {proto.name!r} {defect}")
        else:
            _stand_in(proto, tensor, taken)
    for sparse, proto in list(_sparse(model)):
        try:
            tensor = dense_tensor(sparse, files)
        except TensorDefectError as defect:
            defects.add(f"sparse tensor {sparse.values.name!r} {defect}")
        else:
            proto.name = sparse.values.name
            _stand_in(proto, tensor, taken)
    _drop_sparse(model)
    return taken


def put_back(model: ir.Model, tensors: Tensors) -> None:
    """Give a model the tensors that were taken out of its protobuf."""
    for graph in graphs(model):
        for value in graph.initializers.values():
            if isinstance(value.const_value, ir.ExternalTensor):
                value.const_value = tensors[str(value.const_value.location)]
        for node in graph:
            for name, attribute in tuple(node.attributes.items()):
                if attribute.is_ref():
                    continue
                if attribute.type is ir.AttributeType.TENSOR:
                    node.attributes[name] = ir.AttrTensor(name, tensors[str(attribute.value.location)])
                elif attribute.type is ir.AttributeType.TENSORS:
                    several = [tensors[str(tensor.location)] for tensor in attribute.value]
                    node.attributes[name] = ir.AttrTensors(name, several)


def _dense(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    for graph in proto_graphs(model):
        yield from graph.initializer
    for attribute in _attributes(model):
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors


def _sparse(model: onnx.ModelProto) -> Iterator[tuple[onnx.SparseTensorProto, onnx.TensorProto]]:
    """Each sparse tensor with the dense one, still empty, that takes its place."""
    for graph in proto_graphs(model):
        for sparse in graph.sparse_initializer:
            yield sparse, graph.initializer.add()
    for attribute in _attributes(model):
        if attribute.type == onnx.AttributeProto.SPARSE_TENSOR:
            attribute.type = onnx.AttributeProto.TENSOR
            if attribute.name == "sparse_value":  # of a Constant, whose dense values have another name
                attribute.name = "value"
            yield attribute.sparse_tensor, attribute.t
        if attribute.type == onnx.AttributeProto.SPARSE_TENSORS:
            attribute.type = onnx.AttributeProto.TENSORS
            for sparse in attribute.sparse_tensors:
                yield sparse, attribute.tensors.add()


def _drop_sparse(model: onnx.ModelProto) -> None:
    for graph in proto_graphs(model):
        graph.ClearField("sparse_initializer")
    for attribute in _attributes(model):
        attribute.ClearField("sparse_tensor")
        attribute.ClearField("sparse_tensors")


def _attributes(model: onnx.ModelProto) -> Iterator[onnx.AttributeProto]:
    for node in proto_nodes(model):
        yield from node.attribute
    for function in model.functions:
        yield from function.attribute_proto


def _stand_in(
    proto: onnx.TensorProto, tensor: ir.TensorProtocol, taken: dict[str, ir.TensorProtocol]
) -> None:
    name, key = proto.name, str(len(taken))
    taken[key] = tensor
    proto.Clear()
    proto.name = name
    proto.data_type = tensor.dtype.value
    proto.dims.extend(int(dim) for dim in tensor.shape.numpy())
    proto.data_location = onnx.TensorProto.EXTERNAL
    proto.external_data.add(key="location", value=key)

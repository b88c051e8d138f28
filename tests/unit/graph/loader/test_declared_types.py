import onnx
import onnx_ir as ir

from onnx_models import model, node
from onnxgen.graph.ep.from_graph import type_of
from onnxgen.graph.ir.types import MapType, SequenceType, TensorType
from onnxgen.graph.loader import load_graph
from onnxgen.graph.loader.declared_types import proto_type


def test_maps_which_the_representation_lacks_are_remembered():
    made = model(
        [node("ZipMap", "x", "y", domain="ai.onnx.ml", classlabels_int64s=[1, 2])],
        opsets={"": 17, "ai.onnx.ml": 3},
    )
    declared = made.graph.output[0].type
    declared.Clear()
    entry = declared.sequence_type.elem_type.map_type
    entry.key_type = onnx.TensorProto.INT64
    entry.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    (output,) = load_graph(made).model.graph.outputs
    assert type_of(output) == SequenceType(MapType(ir.DataType.INT64, TensorType(ir.DataType.FLOAT)))
    assert str(type_of(output)) == "seq(map(int64,tensor(float)))"


def test_symbols_unknown_and_fixed_dimensions():
    declared = onnx.helper.make_tensor_type_proto(1, ["batch", None, 3, -1])
    assert proto_type(declared) == TensorType(ir.DataType.FLOAT, ("batch", None, 3, None))
    assert proto_type(onnx.helper.make_tensor_type_proto(1, [])) == TensorType(ir.DataType.FLOAT, ())
    assert proto_type(onnx.helper.make_tensor_type_proto(1, None)) == TensorType(ir.DataType.FLOAT, None)

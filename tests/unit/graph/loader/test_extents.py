"""Tensors of external data say where their bytes are."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxgen.graph.ir.extents import extent_of
from onnxgen.graph.loader import load_graph


def test_external_tensors_say_where_their_bytes_are_and_embedded_ones_do_not(tmp_path):
    weight, bias = np.arange(6, dtype=np.float32).reshape(3, 2), np.ones(2, np.float32)
    stored = numpy_helper.from_array(weight, "w")
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        [stored, numpy_helper.from_array(bias, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (tmp_path / "weights.bin").write_bytes(b"seven b" + weight.tobytes())
    onnx.external_data_helper.set_external_data(stored, "weights.bin", offset=7, length=weight.nbytes)
    external = model.graph.initializer[0]
    external.CopyFrom(stored)
    external.ClearField("raw_data")
    onnx.save(model, tmp_path / "model.onnx")
    initializers = load_graph(tmp_path / "model.onnx").model.graph.initializers
    tensor = initializers["w"].const_value
    assert tensor is not None and initializers["b"].const_value is not None
    extent = extent_of(tensor)
    assert extent is not None
    content = (tmp_path / extent.location).read_bytes()[extent.offset :]
    assert np.array_equal(np.frombuffer(content, np.float32).reshape(3, 2), weight)
    assert extent_of(initializers["b"].const_value) is None

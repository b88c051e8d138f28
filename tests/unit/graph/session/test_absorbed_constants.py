"""Constants that a kernel keeps in a form of its own are let go, unless somebody else reads them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from graph_running import compiled
from kernel_runs import fresh_rng
from onnxgen import InferenceSession

N, K = 640, 512


def _model(rng, *, also_read: bool) -> onnx.ModelProto:
    codes = rng.integers(0, 256, (N, K // 32, 16)).astype(np.uint8)
    scales = rng.random((N, K // 32)).astype(np.float32)
    nodes = [helper.make_node("MatMulNBits", ["x", "b", "s"], ["y"], domain="com.microsoft", N=N, K=K, block_size=32, bits=4)]  # fmt: skip
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", N])]
    if also_read:
        nodes.append(helper.make_node("ReduceMax", ["s"], ["most"], keepdims=0))
        nodes.append(helper.make_node("Add", ["most", "x"], ["z"]))
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["rows", K]))
    graph = helper.make_graph(
        nodes,
        "absorbed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", K])],
        outputs,
        [numpy_helper.from_array(codes, "b"), numpy_helper.from_array(scales, "s")],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("also_read", [False, True])
def test_results_stay_what_they_are(also_read):
    rng = fresh_rng()
    model = _model(rng, also_read=also_read)
    weights = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    session = InferenceSession(model.SerializeToString())
    x = rng.standard_normal((3, K)).astype(np.float32)
    q = np.stack([weights["b"] & 15, weights["b"] >> 4], -1).reshape(N, K // 32, 32).astype(np.float64)
    matrix = ((q - 8) * weights["s"][:, :, None]).reshape(N, K)
    for _ in range(2):
        y, *z = session.run(None, {"x": x})
        np.testing.assert_allclose(y, x @ matrix.T, atol=1e-4 * np.abs(x @ matrix.T).max())
        if also_read:
            np.testing.assert_array_equal(z[0], weights["s"].max() + x)


@pytest.mark.parametrize("also_read", [False, True])
def test_nobody_holds_what_nobody_reads(also_read):
    program = compiled(_model(fresh_rng(), also_read=also_read))._routine.program
    held = [*program.constants.values(), *program.calls[0].spec.constants.values()]
    codes = [array for array in held if array.shape == (N, K // 32, 16)]
    scales = [array for array in held if array.shape == (N, K // 32)]
    assert all(array.strides == (0, 0, 0) for array in codes) and len(codes) == 2
    assert all((array.strides == (0, 0)) == (not also_read) for array in scales) and len(scales) == 2

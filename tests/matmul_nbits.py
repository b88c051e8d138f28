"""One ``com.microsoft.MatMulNBits`` node, run by ONNX Runtime: what quantized blocks must mean."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

from onnxgen.builder.quantize import dequantize_blocks
from onnxgen.builder.weights import BlockQuantized


def matmul_nbits(x: np.ndarray, blocks: BlockQuantized) -> np.ndarray:
    """Multiply with float activations (accuracy_level 0)."""
    rows, _ = blocks.scales.shape
    tensors = [("codes", blocks.codes), ("scales", blocks.scales)]
    if blocks.zero_points is not None:
        tensors.append(("zero_points", blocks.zero_points))
    initializers = [
        helper.make_tensor(
            name,
            TensorProto.UINT8 if value.dtype == np.uint8 else TensorProto.FLOAT,
            value.shape,
            np.ascontiguousarray(value).tobytes(),
            raw=True,
        )
        for name, value in tensors
    ]
    node = helper.make_node(
        "MatMulNBits",
        ["x", *(name for name, _ in tensors)],
        ["y"],
        domain="com.microsoft",
        K=blocks.in_features,
        N=rows,
        bits=blocks.bits,
        block_size=blocks.block_size,
        accuracy_level=0,
    )
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [x.shape[0], rows])],
        initializers,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def assert_onnxruntime_agrees(blocks: BlockQuantized, rng: np.random.Generator) -> None:
    """Compare with float64 on what we say the blocks' values are."""
    x = rng.standard_normal((3, blocks.in_features)).astype(np.float32)
    weights = dequantize_blocks(blocks).astype(np.float64)
    expected = x.astype(np.float64) @ weights.T
    scale = np.abs(x).astype(np.float64) @ np.abs(weights).T
    assert np.abs(matmul_nbits(x, blocks) - expected).max() < 1e-5 * scale.max()

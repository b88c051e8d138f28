"""Operators of ONNX Runtime and of ai.onnx.ml: inferred types and shapes are those of what ONNX Runtime computes."""

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import helper

from onnxgen.graph.ir.types import onnx_dtype
from onnxgen.graph.shapes import infer_shapes
from shape_checks import check, make_symbolic

RNG = np.random.default_rng()
MS, ML = "com.microsoft", "ai.onnx.ml"


def f32(*shape):
    return RNG.random(shape, np.float32)


def u8(*shape):
    return RNG.integers(0, 255, shape, np.uint8)


def i32(*values):
    return np.array(values, np.int32)


F, Z8 = np.array(0.02, np.float32), np.array(128, np.uint8)


KNOWN_BY_RUNNING = ("Unique", "DynamicTimeWarping", "Tokenizer")


class C(np.ndarray):
    """Marks an input that is an initializer."""


def c(array):
    return np.asarray(array).view(C)


# name: domain, operator, inputs, number of outputs, attributes
CASES = {
    "matmul_nbits": (MS, "MatMulNBits", [f32(2, 3, 64), c(u8(5, 2, 16)), c(f32(10))], 1, {"K": 64, "N": 5, "bits": 4, "block_size": 32}),
    "matmul_bnb4": (MS, "MatMulBnb4", [f32(2, 3, 64), c(u8(160)), c(f32(20))], 1, {"K": 64, "N": 5, "block_size": 16, "quant_type": 1}),
    "gather_blocks": (MS, "GatherBlockQuantized", [c(u8(10, 16)), np.array([[1, 2]], np.int64), c(f32(10, 2))], 1, {"bits": 4, "block_size": 16}),
    "gather_blocks_int8": (MS, "GatherBlockQuantized", [c(u8(10, 32)), np.array([[1], [2]], np.int64), c(f32(10, 2))], 1, {"bits": 8, "block_size": 16}),
    "group_query": (MS, "GroupQueryAttention", [f32(2, 1, 32), f32(2, 1, 16), f32(2, 1, 16), f32(2, 2, 6, 8), f32(2, 2, 6, 8), i32(6, 6), c(np.array(7, np.int32))], 3, {"num_heads": 4, "kv_num_heads": 2}),
    "group_query_packed": (MS, "GroupQueryAttention", [f32(1, 3, 64), None, None, f32(1, 2, 4, 8), f32(1, 2, 4, 8), i32(6), c(np.array(7, np.int32))], 3, {"num_heads": 4, "kv_num_heads": 2}),
    "group_query_first": (MS, "GroupQueryAttention", [f32(1, 3, 32), f32(1, 3, 16), f32(1, 3, 16), None, None, i32(2), c(np.array(3, np.int32))], 3, {"num_heads": 4, "kv_num_heads": 2}),
    "group_query_long_cache": (MS, "GroupQueryAttention", [f32(1, 1, 32), f32(1, 1, 16), f32(1, 1, 16), f32(1, 2, 9, 8), f32(1, 2, 9, 8), i32(3), c(np.array(4, np.int32))], 3, {"num_heads": 4, "kv_num_heads": 2}),
    "multi_head": (MS, "MultiHeadAttention", [f32(2, 3, 16), f32(2, 5, 16), f32(2, 5, 24)], 1, {"num_heads": 2}),
    "multi_head_past": (MS, "MultiHeadAttention", [f32(2, 3, 16), f32(2, 3, 16), f32(2, 3, 16), None, None, None, f32(2, 2, 4, 8), f32(2, 2, 4, 8)], 3, {"num_heads": 2}),
    "multi_head_split": (MS, "MultiHeadAttention", [f32(2, 3, 16), f32(2, 2, 5, 8), f32(2, 2, 5, 8)], 1, {"num_heads": 2}),
    "attention": (MS, "Attention", [f32(2, 3, 16), f32(16, 48), f32(48)], 1, {"num_heads": 2}),
    "attention_past": (MS, "Attention", [f32(2, 3, 16), f32(16, 48), f32(48), None, f32(2, 2, 2, 4, 8)], 2, {"num_heads": 2}),
    "q_attention": (MS, "QAttention", [u8(2, 3, 16), u8(16, 48), f32(48), F, F, None, Z8, Z8], 1, {"num_heads": 2}),
    "skip_layer_norm": (MS, "SkipLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8)], [1, 0, 0, 1], {}),
    "skip_rms_norm": (MS, "SkipSimplifiedLayerNormalization", [f32(2, 3, 8), f32(2, 3, 8), f32(8)], [1, 0, 0, 1], {}),
    "rms_norm": ("", "SimplifiedLayerNormalization", [f32(2, 3, 8), f32(8)], 1, {"axis": -1}),
    "embed_layer_norm": (MS, "EmbedLayerNormalization", [i32(1, 2, 3).reshape(1, 3), i32(0, 0, 0).reshape(1, 3), f32(9, 8), f32(9, 8), f32(2, 8), f32(8), f32(8)], 2, {}),
    "rotary": (MS, "RotaryEmbedding", [f32(2, 3, 16), np.zeros((1,), np.int64), f32(9, 4), f32(9, 4)], 1, {"num_heads": 2}),
    "fast_gelu": (MS, "FastGelu", [f32(2, 3, 8), f32(8)], 1, {}),
    "gelu": (MS, "Gelu", [f32(2, 8)], 1, {}),
    "bias_gelu": (MS, "BiasGelu", [f32(2, 8), f32(8)], 1, {}),
    "quick_gelu": (MS, "QuickGelu", [f32(2, 8)], 1, {}),
    "fused_matmul": (MS, "FusedMatMul", [f32(2, 3, 4), f32(2, 5, 4)], 1, {"transB": 1}),
    "fused_matmul_batch": (MS, "FusedMatMul", [f32(3, 2, 4), f32(2, 4, 5)], 1, {"transBatchA": 1}),
    "fused_gemm": (MS, "FusedGemm", [f32(4, 3), f32(4, 5), f32(5)], 1, {"transA": 1, "activation": "Relu"}),
    "fused_conv": (MS, "FusedConv", [f32(1, 3, 9, 8), c(f32(4, 3, 3, 3))], 1, {"activation": "Relu", "strides": [2, 1]}),
    "dynamic_quantize_matmul": (MS, "DynamicQuantizeMatMul", [f32(2, 3, 8), u8(8, 5), F, Z8], 1, {}),
    "matmul_integer_to_float": (MS, "MatMulIntegerToFloat", [u8(2, 3, 8), u8(8, 5), F, F, Z8, Z8], 1, {}),
    "dynamic_quantize_lstm": (MS, "DynamicQuantizeLSTM", [f32(4, 2, 8), c(u8(1, 8, 12)), c(u8(1, 3, 12)), c(f32(1, 24)), None, None, None, None, c(f32(1)), c(u8(1)), c(f32(1)), c(u8(1))], 3, {"hidden_size": 3}),
    "q_linear_add": (MS, "QLinearAdd", [u8(2, 1, 4), F, Z8, u8(3, 4), F, Z8, F, Z8], 1, {}),
    "q_linear_mul": (MS, "QLinearMul", [u8(2, 3), F, Z8, u8(3), F, Z8, F, Z8], 1, {}),
    "q_linear_sigmoid": (MS, "QLinearSigmoid", [u8(2, 3), c(F), c(Z8), c(F), c(Z8)], 1, {}),
    "q_linear_leaky_relu": (MS, "QLinearLeakyRelu", [u8(2, 3), c(F), c(Z8), c(F), c(Z8)], 1, {}),
    "q_linear_softmax": (MS, "QLinearSoftmax", [u8(2, 3), c(F), c(Z8), c(F), c(Z8)], 1, {"opset": 13}),
    "q_linear_concat": (MS, "QLinearConcat", [F, Z8, u8(2, 3), F, Z8, u8(2, 4), F, Z8], 1, {"axis": 1}),
    "q_linear_average_pool": (MS, "QLinearAveragePool", [u8(1, 2, 8, 8), F, Z8, F, Z8], 1, {"kernel_shape": [3, 3], "strides": [2, 2]}),
    "q_linear_average_pool_last": (MS, "QLinearAveragePool", [u8(1, 8, 8, 2), F, Z8, F, Z8], 1, {"kernel_shape": [3, 3], "channels_last": 1}),
    "q_linear_global_average_pool_last": (MS, "QLinearGlobalAveragePool", [u8(1, 8, 8, 2), F, Z8, F, Z8], 1, {"channels_last": 1}),
    "q_linear_where": (MS, "QLinearWhere", [np.array([[True], [False]]), u8(3), c(F), c(Z8), u8(1, 3), c(F), c(Z8), c(F), c(Z8)], 1, {}),
    "q_linear_global_average_pool": (MS, "QLinearGlobalAveragePool", [u8(1, 2, 8, 8), F, Z8, F, Z8], 1, {}),
    "q_linear_conv": ("", "QLinearConv", [u8(1, 2, 8, 8), c(F), c(Z8), c(u8(4, 2, 3, 3)), c(F), c(Z8), c(F), c(Z8)], 1, {}),
    "q_gemm": (MS, "QGemm", [u8(2, 8), F, Z8, u8(8, 5), F, Z8], 1, {}),
    "trilu": (MS, "Trilu", [f32(3, 4)], 1, {}),
    "unique": (MS, "Unique", [f32(6)], 3, {}),
    "c_dist": (MS, "CDist", [f32(3, 4), f32(5, 4)], 1, {"metric": "euclidean"}),
    "expand_dims": (MS, "ExpandDims", [f32(3, 4), c(np.array(1, np.int32))], 1, {}),
    "murmur": (MS, "MurmurHash3", [i32(1, 2, 3)], 1, {"positive": 0}),
    "inverse": (MS, "Inverse", [f32(2, 3, 3)], 1, {}),
    "n_gram_repeat": (MS, "NGramRepeatBlock", [np.array([[1, 2, 3]], np.int64), f32(1, 9)], 1, {"ngram_size": 2}),
    "crop": (MS, "CropAndResize", [f32(1, 2, 8, 8), f32(3, 4), c(i32(0, 0, 0)), c(i32(4, 5))], 1, {}),
    "unfold": (MS, "UnfoldTensor", [f32(2, 9, 3)], 1, {"dim": 1, "size": 4, "step": 2}),
    "warping": (MS, "DynamicTimeWarping", [f32(4, 5)], 1, {}),
    "max_pool_last": (MS, "NhwcMaxPool", [u8(1, 8, 9, 2)], 1, {"kernel_shape": [3, 2], "strides": [2, 1]}),
    "gather_nd": (MS, "GatherND", [f32(3, 4, 5), c(np.array([[0, 1], [2, 2]], np.int64))], 1, {}),
    "range": (MS, "Range", [c(np.array(2, np.int64)), c(np.array(9, np.int64)), c(np.array(3, np.int64))], 1, {}),
    "sample": (MS, "SampleOp", [f32(2, 3)], 1, {}),
    "words": (MS, "WordConvEmbedding", [np.ones((2, 6), np.int32), f32(4, 1, 3, 5), f32(4), f32(9, 5)], 1, {"embedding_size": 4, "conv_window_size": 3, "char_embedding_size": 5}),
    "tokenizer": (MS, "Tokenizer", [np.array(["a b"], object)], 1, {"separators": [" "], "mark": 0, "mincharnum": 1, "pad_value": "#"}),
    "pad": (MS, "Pad", [f32(2, 3), c(np.array([0, 1, 2, 0], np.int64))], 1, {}),
    "quantize": (MS, "QuantizeLinear", [f32(2, 3), F, Z8], 1, {}),
    "dequantize": (MS, "DequantizeLinear", [u8(2, 3), F, Z8], 1, {}),
    "scaler": (ML, "Scaler", [RNG.random((2, 3)), ], 1, {"offset": [0.0], "scale": [1.0]}),
    "normalizer": (ML, "Normalizer", [f32(2, 3)], 1, {"norm": "L2"}),
    "imputer": (ML, "Imputer", [f32(2, 3)], 1, {"imputed_value_floats": [1.0]}),
    "linear_regressor": (ML, "LinearRegressor", [f32(2, 3)], 1, {"coefficients": [1.0] * 6, "targets": 2}),
    "linear_classifier": (ML, "LinearClassifier", [f32(2, 3)], 2, {"coefficients": [1.0] * 9, "intercepts": [0.0] * 3, "classlabels_strings": ["a", "b", "c"]}),
    "svm_regressor": (ML, "SVMRegressor", [f32(2, 3)], 1, {"coefficients": [1.0, 1.0], "rho": [0.1], "support_vectors": [1.0] * 6, "n_supports": 2, "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}),
    "one_hot": (ML, "OneHotEncoder", [np.array([[1, 2]], np.int64)], 1, {"cats_int64s": [1, 2, 3]}),
    "feature_vectorizer": (ML, "FeatureVectorizer", [f32(2, 3), f32(2, 2)], 1, {"inputdimensions": [3, 2]}),
    "binarizer": (ML, "Binarizer", [f32(2, 3)], 1, {"threshold": 0.5}),
    "label_encoder": (ML, "LabelEncoder", [np.array([1, 2], np.int64)], 1, {"keys_int64s": [1, 2], "values_floats": [0.5, 1.5]}),
    "tree_regressor": (ML, "TreeEnsembleRegressor", [f32(4, 2)], 1, {"n_targets": 1, "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0]}),
    "tree_classifier": (ML, "TreeEnsembleClassifier", [f32(4, 2)], 2, {"classlabels_int64s": [0, 1, 2], "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 2], "class_weights": [1.0, 2.0]}),
}  # fmt: skip


def one_node_model(domain, op_type, inputs, outputs, attributes):
    wanted = [1] * outputs if isinstance(outputs, int) else outputs
    names = ["" if array is None else f"x{at}" for at, array in enumerate(inputs)]
    results = [f"y{at}" if want else "" for at, want in enumerate(wanted)]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, results, domain=domain, **attributes)],
        "g",
        [
            helper.make_tensor_value_info(name, onnx_dtype(array.dtype), array.shape)
            for name, array in zip(names, inputs, strict=True)
            if name and not isinstance(array, C)
        ],
        [helper.make_empty_tensor_value_info(name) for name in results if name],
        [
            onnx.numpy_helper.from_array(np.asarray(array), name)
            for name, array in zip(names, inputs, strict=True)
            if isinstance(array, C)
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


@pytest.mark.parametrize("name", CASES)
def test_inferred_shapes_are_those_of_the_results(name):
    domain, op_type, inputs, outputs, attributes = CASES[name]
    proto = one_node_model(domain, op_type, inputs, outputs, attributes)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {f"x{at}": a for at, a in enumerate(inputs) if a is not None and not isinstance(a, C)}
    results = session.run(None, feeds)
    model = ir.from_proto(proto)
    sizes = make_symbolic(model.graph.inputs, list(feeds.values()))
    report = infer_shapes(model)
    assert report.failures == ()
    exact = [check(value, array, sizes) for value, array in zip(model.graph.outputs, results, strict=True)]
    assert all(exact) or op_type in KNOWN_BY_RUNNING, [
        (value.name, value.shape) for value in model.graph.outputs
    ]

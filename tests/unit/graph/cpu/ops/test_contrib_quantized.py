"""8-bit operators of com.microsoft: every integer is ONNX Runtime's."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

from kernel_runs import fresh_rng, kernel_of, node_spec, one_node_model, run_cpu, run_ort


class Case:
    """Random tensors of one 8-bit type with their parameters."""

    def __init__(self, dtype):
        self.rng, self.dtype = fresh_rng(), dtype

    def tensor(self, *shape):
        info = np.iinfo(self.dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(self.dtype)

    def parameters(self):
        return np.array(self.rng.random() * 0.1 + 0.005, np.float32), self.tensor()

    def quantized(self, *shape):
        return self.tensor(*shape), *self.parameters()


@pytest.fixture(params=[np.uint8, np.int8])
def case(request):
    return Case(request.param)


def _check(op_type, *args, **attributes):
    got = run_cpu(op_type, *args, domain="com.microsoft", **attributes)
    want = run_ort(op_type, *args, domain="com.microsoft", **attributes)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("ratio", [1, 2, 0.5])
def test_results_half_way_between_two_integers_are_rounded_alike(case, ratio):
    a, b, planes = case.quantized(40, 9), case.quantized(9), case.quantized(2, 5, 6, 6)
    scale = a[1]
    y_zero = case.parameters()[1]
    y, pooled = ((np.asarray(one * np.float32(ratio)), y_zero) for one in (scale, planes[1]))
    for op_type in ("QLinearAdd", "QLinearMul"):
        _check(op_type, *a, b[0], scale, b[2], *y)
    _check("QLinearGlobalAveragePool", *planes, *pooled)
    for options in ({}, {"pads": [1, 1, 1, 1], "count_include_pad": 1}):
        _check("QLinearAveragePool", *planes, *pooled, kernel_shape=[2, 2], **options)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (3, 1)), ((3,), (2, 3)), ((), (2,))])
def test_two_tensors_broadcast(case, op_type, shapes):
    _check(op_type, *case.quantized(*shapes[0]), *case.quantized(*shapes[1]), *case.parameters())


def test_functions_of_one_tensor(case):
    _check("QLinearSigmoid", *case.quantized(3, 4), *case.parameters())
    _check("QLinearLeakyRelu", *case.quantized(3, 4), *case.parameters(), alpha=0.3)


def test_a_choice(case):
    condition = case.rng.random((2, 1, 4)) < 0.5
    _check("QLinearWhere", condition, *case.quantized(3, 4), *case.quantized(2, 3, 1), *case.parameters())


def test_tensors_of_different_scales_are_joined(case):
    _check("QLinearConcat", *case.parameters(), *case.quantized(2, 3), *case.quantized(2, 5), axis=-1)


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("include", [0, 1])
def test_pooling(case, last, ceil_mode, include):
    x, windows = case.quantized(2, 3, 7, 6), {"kernel_shape": [2, 3], "strides": [1, 2], "pads": [0, 1, 1, 1]}
    options = {"channels_last": last, "ceil_mode": ceil_mode, "count_include_pad": include}
    _check("QLinearAveragePool", *x, *case.parameters(), **windows, **options)
    _check("QLinearGlobalAveragePool", *x, *case.parameters(), channels_last=last)
    _check("NhwcMaxPool", x[0], ceil_mode=ceil_mode, **windows)


@pytest.mark.parametrize("opset", [12, 13])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_is_of_the_opset_it_names_and_counts_whole_parts(case, opset, axis):
    x, scale, zero = case.quantized(2, 3, 4)
    for parts in (256, 255, 99.9):
        y = np.array(1 / parts, np.float32), np.array(np.iinfo(case.dtype).min, case.dtype)
        inputs = {"x0": x, "x1": scale, "x2": zero, "x3": y[0], "x4": y[1]}
        node = node_spec("QLinearSoftmax", *inputs.values(), domain="com.microsoft", axis=axis)
        node.attributes["opset"] = opset
        model = one_node_model("QLinearSoftmax", *inputs.values(), domain="com.microsoft", axis=axis)
        model.graph.node[0].attribute.append(onnx.helper.make_attribute("opset", opset))
        (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
        np.testing.assert_array_equal(kernel_of(node).run(*inputs.values()), expected)


@pytest.mark.parametrize("keepdims", [0, 1])
def test_means(case, keepdims):
    x, scale, zero = case.quantized(2, 3, 4)
    y_scale, y_zero = case.parameters()
    got = run_cpu("QLinearReduceMean", x, scale, zero, y_scale, y_zero, domain="com.microsoft", axes=[1], keepdims=keepdims)  # fmt: skip
    real = ((x.astype(np.float64) - float(zero)) * float(scale)).mean(1, keepdims=bool(keepdims))
    info = np.iinfo(case.dtype)
    expected = np.clip(np.rint(real / float(y_scale)) + int(y_zero), info.min, info.max)
    assert got.shape == expected.shape and np.abs(got - expected).max() <= 1


def test_products_element_by_element(case):
    a, b = case.tensor(2, 3), case.tensor(3)
    zeros = case.tensor(), case.tensor()
    got = run_cpu("MulInteger", a, zeros[0], b, zeros[1], domain="com.microsoft")
    expected = (a.astype(int) - int(zeros[0])) * (b.astype(int) - int(zeros[1]))
    assert got.dtype == np.int32 and (got == expected).all()

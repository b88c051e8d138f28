"""8-bit operators of com.microsoft, within one step of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng, kernel_of, node_spec, run_cpu, run_ort


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
    assert np.abs(got.astype(int) - want.astype(int)).max(initial=0) <= 1


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
def test_softmax_is_of_the_opset_it_names(case, opset, axis):
    x, scale, zero = case.quantized(2, 3, 4)
    y_scale, y_zero = np.array(1 / 256, np.float32), np.array(np.iinfo(case.dtype).min, case.dtype)
    node = node_spec("QLinearSoftmax", x, scale, zero, y_scale, y_zero, domain="com.microsoft", axis=axis)
    node.attributes["opset"] = opset
    got = kernel_of(node).run(x, scale, zero, y_scale, y_zero)
    real = (x.astype(np.float64) - float(zero)) * float(scale)
    axes = tuple(range(axis, 3)) if opset < 13 else (axis,)
    powers = np.exp(real - real.max(axes, keepdims=True))
    expected = np.rint(powers / powers.sum(axes, keepdims=True) * 256) + int(y_zero)
    assert np.abs(got.astype(int) - np.clip(expected, int(y_zero), int(y_zero) + 255)).max() <= 1


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

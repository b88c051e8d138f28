"""Normalizations over features."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort
from onnxgen.errors import KernelError


def data(*shape: int) -> np.ndarray:
    return (2 * fresh_rng().standard_normal(shape) + 1).astype(np.float32)


@pytest.mark.parametrize("axis", [-1, 1, -2, 0])
@pytest.mark.parametrize("with_bias", [False, True])
def test_layer_normalization_gives_what_onnx_runtime_gives(axis, with_bias):
    x = data(3, 5, 7)
    shape = x.shape[axis:] if axis else x.shape
    inputs = [x, data(*shape), *([data(*shape)] if with_bias else [])]
    options = {"axis": axis, "epsilon": 1e-3, "opset": 17, "outputs": 3}
    assert_same(
        run_cpu("LayerNormalization", *inputs, **options), run_ort("LayerNormalization", *inputs, **options)
    )
    one = run_cpu("LayerNormalization", *inputs, **options | {"outputs": 1})
    assert_same(one, run_cpu("LayerNormalization", *inputs, **options)[0])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_layer_normalization_of_other_types_has_statistics_of_the_stash_type(dtype):
    x, scale = data(3, 8).astype(dtype), data(8).astype(dtype)
    wide = x.astype(np.float64)
    mean, deviation = wide.mean(-1, keepdims=True), np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    y, got_mean, got_inverse = run_cpu("LayerNormalization", x, scale, opset=17, outputs=3)
    eps = float(ml_dtypes.finfo(dtype).eps)
    assert_same(y, ((wide - mean) / deviation * scale.astype(np.float64)).astype(dtype), rtol=eps, atol=1e-6)
    assert_same(got_mean, mean.astype(np.float32))
    assert_same(got_inverse, (1 / deviation).astype(np.float32))


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization_gives_what_onnx_runtime_gives(axis):
    x = data(3, 5, 7)
    scale = data(*x.shape[axis:])
    options = {"axis": axis, "opset": 23}
    assert_same(
        run_cpu("RMSNormalization", x, scale, **options), run_ort("RMSNormalization", x, scale, **options)
    )


def test_rms_normalization_has_the_type_of_its_scale():
    x, scale = data(3, 8).astype(np.float16), np.ones(8, np.float32)
    y = run_cpu("RMSNormalization", x, scale)
    wide = x.astype(np.float64)
    exact = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    assert_same(y, exact.astype(np.float32), rtol=2**-10)


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 4, 3)])
def test_instance_normalization_gives_what_onnx_runtime_gives(shape):
    x, scale, bias = data(*shape), data(6), data(6)
    got = run_cpu("InstanceNormalization", x, scale, bias, opset=6)
    assert_same(got, run_ort("InstanceNormalization", x, scale, bias, opset=7), atol=1e-5)


def test_an_instance_of_one_element_is_its_bias():
    assert_same(
        run_cpu("InstanceNormalization", data(1, 6, 1), data(6), bias := data(6)), bias.reshape(1, 6, 1)
    )


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("shape", [(2, 6), (2, 6, 5, 3)])
def test_group_normalization_in_both_versions(groups, shape):
    x, scale, bias = data(*shape), data(groups), data(groups)
    grouped = x.reshape(2, groups, -1).astype(np.float64)
    mean, var = grouped.mean(-1, keepdims=True), grouped.var(-1, keepdims=True)
    plain = (grouped - mean) / np.sqrt(var + 1e-5)
    by_group = (plain * scale[:, None] + bias[:, None]).reshape(shape).astype(np.float32)
    assert_same(
        run_cpu("GroupNormalization", x, scale, bias, opset=18, num_groups=groups), by_group, atol=1e-5
    )
    channels = np.repeat(scale, 6 // groups), np.repeat(bias, 6 // groups)
    assert_same(run_cpu("GroupNormalization", x, *channels, opset=21, num_groups=groups), by_group, atol=1e-5)


def test_groups_that_do_not_divide_are_told():
    with pytest.raises(KernelError, match="6 channels do not split into 4 groups"):
        run_cpu("GroupNormalization", data(1, 6, 2), data(6), data(6), num_groups=4)


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(axis, p):
    x = data(4, 5, 3)
    norm = np.linalg.norm(x, p, axis, keepdims=True)
    assert_same(run_cpu("LpNormalization", x, axis=axis, p=p), x / norm)
    assert run_cpu("LpNormalization", np.zeros((2, 3), np.float32), p=p).tolist() == [[0] * 3] * 2


@pytest.mark.parametrize("axes", [None, [0, 2], [1]])
def test_mean_variance_normalization_gives_what_onnx_runtime_gives(axes):
    x = data(3, 4, 5, 2)
    options = {"opset": 13} | ({} if axes is None else {"axes": axes})
    got = run_cpu("MeanVarianceNormalization", x, **options)
    assert_same(got, run_ort("MeanVarianceNormalization", x, **options), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 3, 5, 9])
def test_lrn_gives_what_onnx_runtime_gives(size):
    x = data(2, 7, 3, 4)
    options = {"size": size, "alpha": 0.2, "beta": 0.6, "bias": 1.5, "opset": 13}
    assert_same(run_cpu("LRN", x, **options), run_ort("LRN", x, **options))


def test_an_even_window_of_lrn_reaches_further_up():
    x = np.array([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1)
    sums = np.array([1 + 4, 4 + 9, 9]).reshape(1, 3, 1, 1)
    assert_same(run_cpu("LRN", x, size=2, alpha=2.0, beta=1.0, bias=0.0), x / sums)

"""BatchNormalization in all its versions."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

EPSILON, MOMENTUM = 1e-2, 0.7


def inputs(*shape: int, features: tuple[int, ...] | None = None) -> list[np.ndarray]:
    rng = fresh_rng()
    size = features or shape[1:2]
    x, scale, bias, mean = (rng.standard_normal(s).astype(np.float32) for s in (shape, size, size, size))
    return [x, scale, bias, mean, rng.random(size).astype(np.float32) + np.float32(0.5)]


def beside(values: np.ndarray, x: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *[1] * (x.ndim - 2)) if values.ndim == 1 else values


def normalized(x, scale, bias, mean, var) -> np.ndarray:
    scale, bias, mean, var = (beside(v, x) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + np.float32(EPSILON)) * scale + bias


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5), (2, 3, 5, 4)])
def test_inference_gives_what_onnx_runtime_gives(opset, shape):
    given = inputs(*shape)
    options = {"epsilon": EPSILON, "opset": opset}
    got = run_cpu("BatchNormalization", *given, **options)
    assert_same(got, normalized(*given), rtol=1e-4, atol=1e-5)
    assert_same(got, run_ort("BatchNormalization", *given, **options), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [1, 6])
def test_old_inference_is_said_by_is_test_or_by_a_single_output(opset):
    given = inputs(2, 3, 4, 4)
    for is_test in (0, 1):
        got = run_cpu("BatchNormalization", *given, opset=opset, is_test=is_test, epsilon=EPSILON)
        assert_same(got, normalized(*given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [6, 7])
def test_without_spatial_every_feature_has_statistics_of_its_own(opset):
    given = inputs(5, 3, 4, features=(3, 4))
    options = {"spatial": 0, "epsilon": EPSILON, "opset": opset}
    assert_same(run_cpu("BatchNormalization", *given, **options), normalized(*given), rtol=1e-4, atol=1e-5)
    _, mean, _ = run_cpu("BatchNormalization", *given, **options, momentum=0.0, outputs=3)
    assert_same(mean, given[0].mean(0))


@pytest.mark.parametrize("opset", [6, 9, 14, 15])
def test_training_moves_the_running_statistics(opset):
    x, scale, bias, mean, var = given = inputs(4, 3, 5)
    batch_mean, batch_var = x.mean((0, 2)), x.var((0, 2))
    options = {"epsilon": EPSILON, "momentum": MOMENTUM, "opset": opset}
    if opset >= 14:
        options["training_mode"] = 1
    y, running_mean, running_var = run_cpu("BatchNormalization", *given, **options, outputs=3)
    assert_same(y, normalized(x, scale, bias, batch_mean, batch_var), rtol=1e-4, atol=1e-5)
    assert_same(running_mean, mean * np.float32(MOMENTUM) + batch_mean * np.float32(1 - MOMENTUM))
    assert_same(running_var, var * np.float32(MOMENTUM) + batch_var * np.float32(1 - MOMENTUM))


def test_old_training_also_saves_the_batch_statistics():
    given = inputs(4, 3, 5)
    outputs = run_cpu("BatchNormalization", *given, opset=9, outputs=5)
    assert_same(outputs[3], given[0].mean((0, 2)))
    assert_same(outputs[4], given[0].var((0, 2)))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_computed_in_float32(dtype):
    given = [x.astype(dtype) for x in inputs(2, 3, 4)]
    exact = normalized(*(x.astype(np.float32) for x in given)).astype(dtype)
    got = run_cpu("BatchNormalization", *given, epsilon=EPSILON)
    assert_same(got, exact, rtol=float(ml_dtypes.finfo(dtype).eps), atol=1e-3)

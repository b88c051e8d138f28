"""Reduce*, ArgMax, ArgMin."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort

OPERATORS = [
    *["ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin"],
    *["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"],
]
EMPTY = {
    **dict.fromkeys(["ReduceSum", "ReduceL1", "ReduceL2", "ReduceSumSquare"], 0.0),
    **dict.fromkeys(["ReduceMax", "ReduceLogSum", "ReduceLogSumExp"], -np.inf),
    "ReduceProd": 1.0,
    "ReduceMin": np.inf,
}


def positive(shape: tuple[int, ...]) -> np.ndarray:
    return np.asarray(fresh_rng().random(shape) + 0.5, np.float32)


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [(0,), (1, -1), (-2,), (0, 1, 2)])
def test_axes_as_attribute_and_as_input_give_what_onnx_runtime_gives(op_type, keepdims, axes):
    x = positive((3, 5, 7))
    expected = run_ort(op_type, x, opset=11, axes=axes, keepdims=keepdims)
    assert_same(run_cpu(op_type, x, opset=11, axes=axes, keepdims=keepdims), expected)
    as_input = np.array(axes, np.int64)
    assert_same(run_cpu(op_type, x, as_input, opset=18, keepdims=keepdims), expected)


@pytest.mark.parametrize("op_type", OPERATORS)
def test_no_axes_mean_all_or_none(op_type):
    x = positive((3, 4))
    everything = run_cpu(op_type, x, opset=18)
    assert everything.shape == (1, 1)
    none = np.zeros(0, np.int64)
    assert_same(run_cpu(op_type, x, none, opset=18), everything)
    assert_same(run_cpu(op_type, x, None, opset=18), everything)
    steps = {
        "ReduceL1": np.abs,
        "ReduceL2": np.abs,
        "ReduceSumSquare": np.square,
        "ReduceLogSum": np.log,
    }
    each = steps.get(op_type, lambda value: value)(x)
    assert_same(run_cpu(op_type, x, opset=18, noop_with_empty_axes=1), each)
    assert_same(run_cpu(op_type, x, none, opset=18, noop_with_empty_axes=1), each)


@pytest.mark.parametrize("op_type", EMPTY)
def test_nothing_reduces_to_the_neutral_value(op_type):
    x = np.zeros((2, 0, 3), np.float32)
    got = run_cpu(op_type, x, np.array([1]), opset=18, keepdims=0)
    assert_same(got, np.full((2, 3), EMPTY[op_type], np.float32))


@pytest.mark.parametrize("op_type", OPERATORS)
def test_one_value_of_rank_0(op_type):
    x = np.array(2.0, np.float32)
    assert run_cpu(op_type, x, opset=18).shape == ()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8, np.uint8, np.bool_])
def test_extremes_of_nothing_are_those_of_the_type(dtype):
    x, axes = np.zeros((0, 2), dtype), np.array([0])
    low, high = (False, True) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    assert_same(run_cpu("ReduceMax", x, axes, keepdims=0), np.full(2, low, dtype))
    assert_same(run_cpu("ReduceMin", x, axes, keepdims=0), np.full(2, high, dtype))


def test_extremes_of_booleans_and_nan():
    x = np.array([[True, False], [False, False]])
    assert run_cpu("ReduceMax", x, np.array([1]), keepdims=0).tolist() == [True, False]
    assert run_cpu("ReduceMin", x, np.array([1]), keepdims=0).tolist() == [False, False]
    assert np.isnan(run_cpu("ReduceMax", np.array([1, np.nan], np.float32)))


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceSumSquare"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_keep_their_type(op_type, dtype):
    x = fresh_rng().integers(-4, 5, (3, 5)).astype(dtype)
    options = {"opset": 13} if op_type == "ReduceSum" else {"opset": 13, "axes": [1]}
    inputs = [x, np.array([1], np.int64)] if op_type == "ReduceSum" else [x]
    assert_same(run_cpu(op_type, *inputs, **options), run_ort(op_type, *inputs, **options))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_halves_are_summed_in_float32(dtype):
    x = np.full((2, 1000), 1 + 2**-6, dtype)
    assert_same(run_cpu("ReduceMean", x, np.array([1])), np.full((2, 1), 1 + 2**-6, dtype), rtol=0)
    assert_same(run_cpu("ReduceSum", x, np.array([1])), np.full((2, 1), 1015.625).astype(dtype), rtol=0)


def test_log_sum_exp_does_not_overflow():
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    expected = np.array([1000 + np.log(2), -np.inf, np.inf], np.float32)
    assert_same(run_cpu("ReduceLogSumExp", x, np.array([1]), keepdims=0), expected)


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_the_first_or_the_last_extreme_is_found(op_type, axis, last, keepdims):
    x = fresh_rng().integers(0, 3, (4, 5, 6)).astype(np.float32)
    options = {"axis": axis, "select_last_index": last, "keepdims": keepdims, "opset": 13}
    assert_same(run_cpu(op_type, x, **options), run_ort(op_type, x, **options))
    assert_same(run_cpu(op_type, x.astype(ml_dtypes.bfloat16), **options), run_ort(op_type, x, **options))

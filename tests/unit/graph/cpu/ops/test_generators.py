from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_ranges_of_integers_are_pythons(start, limit, delta):
    inputs = (np.array(value, np.int64) for value in (start, limit, delta))
    assert run_cpu("Range", *inputs).tolist() == list(range(start, limit, delta))


@pytest.mark.parametrize("values", [(0.0, 1.0, 0.1), (5.0, -5.0, -0.7), (1.0, 1.0, 1.0), (0.5, 3.25, 0.25)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ranges_of_floats_are_the_runtimes(values, dtype):
    inputs = [np.array(value, dtype) for value in values]
    assert_same(run_cpu("Range", *inputs), run_ort("Range", *inputs, opset=11))


def test_narrow_ranges_are_computed_in_float32_unless_told_otherwise():
    inputs = [np.array(value, ml_dtypes.bfloat16) for value in (0, 600, 1)]
    wide = run_cpu("Range", *inputs)
    assert wide.dtype == ml_dtypes.bfloat16
    assert wide.tolist() == np.arange(600).astype(ml_dtypes.bfloat16).tolist()


def test_a_range_needs_steps():
    inputs = [np.array(value) for value in (0, 5, 0)]
    with pytest.raises(KernelError, match="delta is 0"):
        kernel_of(node_spec("Range", *inputs)).run(*inputs)


@pytest.mark.parametrize(
    ("start", "end"), [(None, None), (1, None), (-2, None), (0, -1), (5, 9), (-9, 2), (2, 1)]
)
def test_parts_of_shapes(start, end):
    options = {name: value for name, value in (("start", start), ("end", end)) if value is not None}
    x = np.zeros((2, 0, 4), np.float32)
    assert_same(run_cpu("Shape", x, **options), run_ort("Shape", x, opset=15, **options))
    assert run_cpu("Size", x) == 0
    assert run_cpu("Size", np.zeros((2, 3))) == 6


@pytest.mark.parametrize(
    "value", [np.array([7], np.int8), np.array([True]), np.array([2.5], ml_dtypes.bfloat16)]
)
def test_one_value_fills_a_shape(value):
    y = run_cpu("ConstantOfShape", np.array([2, 0, 3]), value=value)
    assert y.shape == (2, 0, 3)
    assert run_cpu("ConstantOfShape", np.array([], np.int64), value=value) == value[0]
    assert run_cpu("ConstantOfShape", np.array([2])).dtype == np.float32
    with pytest.raises(KernelError, match="negative"):
        kernel_of(node_spec("ConstantOfShape", np.array([-1]))).run(np.array([-1]))


def test_constants_have_one_value():
    assert run_cpu("Constant", value_ints=[1, 2]).dtype == np.int64
    assert run_cpu("Constant", value_float=1.5).shape == ()
    assert run_cpu("Constant", value_strings=["a"]).tolist() == ["a"]
    with pytest.raises(InvalidGraphError, match="one value"):
        kernel_of(node_spec("Constant"))


@pytest.mark.parametrize("k", [-2, 0, 1, 9])
def test_diagonals(k):
    x = np.zeros((3, 4), np.float32)
    assert_same(run_cpu("EyeLike", x, k=k), np.eye(3, 4, k, dtype=np.float32))
    as_int = run_cpu("EyeLike", x, k=k, dtype=onnx.TensorProto.INT32)
    assert_same(as_int, np.eye(3, 4, k, dtype=np.int32))


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot_from_version_11_counts_from_the_end(axis):
    indices, depth = np.array([[0, -1], [3, 7]]), np.array(4, np.int64)
    values = np.array([2, 9], np.float32)
    got, want = (run("OneHot", indices, depth, values, axis=axis, opset=11) for run in (run_cpu, run_ort))
    assert_same(got, want)


def test_one_hot_of_version_9_knows_no_negative_index():
    got = run_cpu("OneHot", np.array([-1, 1]), np.array([2]), np.array(["n", "y"], object), opset=9)
    assert got.tolist() == [["n", "n"], ["n", "y"]]


def test_an_element_type_attribute_is_honoured():
    node = node_spec("EyeLike", np.zeros((1, 1), np.float32), dtype=ir.DataType.BFLOAT16.value)
    assert kernel_of(node).run(np.zeros((1, 1), np.float32)).dtype == ml_dtypes.bfloat16

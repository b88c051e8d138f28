from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu
from onnxgen.errors import KernelError


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4))
def test_tiles_are_numpys(axes):
    shape, repeats = [size for size, _ in axes], [count for _, count in axes]
    x = np.arange(int(np.prod(shape))).reshape(shape)
    assert_same(run_cpu("Tile", x, np.array(repeats, np.int64)), np.tile(x, repeats) if axes else x)


def test_version_1_tiles_one_axis():
    x = np.arange(4, dtype=np.float32).reshape(2, 2)
    got = run_cpu("Tile", x, np.array(3.0, np.float32), np.array(1.0, np.float32), opset=1)
    assert_same(got, np.tile(x, (1, 3)))


@pytest.mark.parametrize("dtype", [np.float32, object, ml_dtypes.bfloat16, ml_dtypes.uint4, np.bool_])
def test_expand_broadcasts_both_ways(dtype):
    x = np.array([[[1]], [[0]]]).astype(dtype)
    y = run_cpu("Expand", x, np.array([1, 4], np.int64))
    assert y.shape == (2, 1, 4)
    assert y.dtype == x.dtype
    assert y[:, 0, 3].tolist() == x[:, 0, 0].tolist()


def test_shapes_that_do_not_fit_are_errors():
    for op_type, second, message in [
        ("Expand", [3], "do not broadcast"),
        ("Tile", [3], "do not fit"),
        ("Tile", [1, -1], "fit"),
    ]:
        inputs = np.zeros((2, 2)), np.array(second)
        with pytest.raises(KernelError, match=message):
            kernel_of(node_spec(op_type, *inputs)).run(*inputs)

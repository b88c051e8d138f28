"""CumSum and CumProd."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import assert_same, fresh_rng, run_cpu, run_ort
from onnxgen.errors import KernelError


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_running_sums_give_what_onnx_runtime_gives(axis, exclusive, reverse, dtype):
    x = fresh_rng().integers(-5, 6, (3, 4, 5)).astype(dtype)
    where = np.array(axis, np.int64)
    options = {"exclusive": exclusive, "reverse": reverse, "opset": 14}
    assert_same(run_cpu("CumSum", x, where, **options), run_ort("CumSum", x, where, **options))


def test_running_products():
    x = np.array([1, 2, 3], np.float64)
    axis = np.array(0, np.int32)
    assert run_cpu("CumProd", x, axis).tolist() == [1, 2, 6]
    assert run_cpu("CumProd", x, axis, exclusive=1).tolist() == [1, 1, 2]
    assert run_cpu("CumProd", x, axis, reverse=1).tolist() == [6, 6, 3]
    assert run_cpu("CumProd", x, axis, exclusive=1, reverse=1).tolist() == [6, 3, 1]


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0)])
@pytest.mark.parametrize("exclusive", [0, 1])
def test_short_axes(shape, exclusive):
    x = np.ones(shape, np.float32)
    assert_same(run_cpu("CumSum", x, np.array([-1]), exclusive=exclusive), x * (1 - exclusive))


def test_halves_are_summed_in_float32():
    x = np.ones(600, ml_dtypes.bfloat16)
    assert run_cpu("CumSum", x, np.array(0))[-1] == 600


def test_a_wrong_axis_is_told():
    with pytest.raises(KernelError, match="no axis of a tensor of rank 1"):
        run_cpu("CumSum", np.ones(3), np.array(1))

"""bfloat16 and float16 step by step."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnxgen.graph.cpu.stepwise import HALVES, rounded, softmax_in_steps


def test_rounding_keeps_eight_bits():
    assert rounded(np.array([1 + 2**-7, 1 + 2**-9], np.float32)).tolist() == [1 + 2**-7, 1]


@pytest.mark.parametrize("dtype", sorted(HALVES, key=str), ids=str)
def test_long_rows_do_not_stop_counting(dtype):
    weights = softmax_in_steps(np.zeros((2, 4096), dtype), -1)
    assert weights.dtype == dtype and (weights == dtype.type(2**-12)).all()


def test_each_step_is_rounded():
    x = np.array([0.3, -0.7, 1.1], ml_dtypes.bfloat16)
    powers = [ml_dtypes.bfloat16(np.exp(np.float32(value - x.max()))) for value in x]
    total = sum(powers[1:], powers[0])
    assert softmax_in_steps(x, 0).tolist() == [power / total for power in powers]

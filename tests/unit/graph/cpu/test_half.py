"""Computing narrow floating-point types in float32."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnxgen.graph.cpu.half import NARROW_FLOATS, computing_dtype, widened, widening, writing_wide


@pytest.mark.parametrize("dtype", sorted(NARROW_FLOATS, key=str), ids=str)
def test_narrow_types_are_widened(dtype):
    assert widened(np.ones(2, dtype)).dtype == computing_dtype(dtype) == np.float32


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_, ml_dtypes.int4])
def test_other_types_stay_themselves(dtype):
    x = np.ones(2, dtype)
    assert widened(x) is x and computing_dtype(x.dtype) == dtype
    assert widened(None) is None


def test_several_steps_round_once():
    x = np.array([1.0], np.float16)
    tiny = np.float32(2**-12)
    assert widening(lambda v: v + tiny + tiny + tiny + tiny)(x) == np.float16(1 + 2**-10)
    assert x + np.float16(tiny) + np.float16(tiny) + np.float16(tiny) + np.float16(tiny) == 1


def test_tuples_keep_their_gaps_and_other_types():
    y, nothing, index = widening(lambda v: (v * 2, None, np.array([3])))(np.ones(1, ml_dtypes.bfloat16))
    assert y.dtype == ml_dtypes.bfloat16 and nothing is None and index.dtype == np.int64


def test_a_formula_may_keep_a_type_for_itself():
    seen = []

    def write(x, y):
        seen.append(x.dtype)
        y[...] = x

    half = np.ones(2, np.float16)
    for own_types in (frozenset(), frozenset({half.dtype})):
        y = np.zeros(2, np.float16)
        writing_wide(write, own_types)(half, y)
        assert y.tolist() == [1, 1]
    assert seen == [np.float32, np.float16]

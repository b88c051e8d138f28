"""The error function in both precisions."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxgen.graph.cpu.erf import erf


@settings(deadline=None)  # the first call compiles
@given(st.floats(-50, 50, width=32))
def test_float32_is_within_one_unit_of_the_last_place(value):
    got = float(erf()(np.array([value], np.float32))[0])
    assert abs(got - math.erf(value)) <= np.spacing(np.float32(abs(math.erf(value))))


def test_the_ends_and_nan():
    for dtype in (np.float32, np.float64):
        x = np.array([np.inf, -np.inf, -0.0, np.nan], dtype)
        with np.errstate(all="ignore"):
            y = erf()(x)
        assert y.dtype == dtype and y[:3].tolist() == [1, -1, 0] and np.signbit(y[2]) and np.isnan(y[3])

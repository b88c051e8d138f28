"""Functions of one element, against float64."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.compiled import functions

EXACT = {
    "exp": np.exp,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "erf": np.vectorize(math.erf),
}


def _of_all(name, x):
    function = getattr(functions, name)

    @numba.njit
    def run(x):
        return [function(value) for value in x]

    return np.array(run(x.astype(np.float32)), np.float32)


@pytest.mark.parametrize("name", EXACT)
def test_values_are_right_to_a_few_units_in_the_last_place(name):
    rng = fresh_rng()
    magnitudes = 10.0 ** rng.uniform(-6, 1.9, 3000)
    x = (magnitudes * rng.choice([-1, 1], magnitudes.size)).astype(np.float32)
    exact = EXACT[name](x.astype(np.float64))
    np.testing.assert_allclose(_of_all(name, x), exact, rtol=8e-7, atol=2e-38)


@pytest.mark.parametrize("name", EXACT)
def test_nan_stays_nan_and_far_values_are_limits(name):
    got = _of_all(name, np.array([np.nan, -np.inf, -300, 300]))
    assert np.isnan(got[0])
    low, high = {"exp": (0, np.exp(88)), "sigmoid": (0, 1), "tanh": (-1, 1), "erf": (-1, 1)}[name]
    np.testing.assert_allclose(got[1:], [low, low, high], rtol=1e-5, atol=1e-37)

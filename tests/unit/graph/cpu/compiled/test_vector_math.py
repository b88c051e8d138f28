"""Functions of 16 floats at once, against float64."""

from __future__ import annotations

import functools
import math

import numba
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.compiled import lane_floats, vector_math
from onnxgen.graph.cpu.compiled.lane_floats import load, load_first, store, store_first


def _logistic(x):
    power = np.exp(-np.abs(x))
    return np.where(x > 0, 1, power) / (1 + power)


# The formula in float64, the relative error, and that error of what the function multiplies x by.
EXACT = {
    "exp": (np.exp, 3e-7, 0),
    "sigmoid": (_logistic, 3e-7, 0),
    "silu": (lambda x: x * _logistic(x), 4e-7, 0),
    "tanh": (np.tanh, 5e-7, 0),
    "gelu": (lambda x: x / 2 * np.vectorize(math.erfc)(-x / 2**0.5), 4e-7, 3e-7),
    "gelu_tanh": (
        lambda x: x * _logistic(2 * (2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)),
        4e-7,
        2e-7,
    ),
}
LIMITS = {
    "exp": (0, np.inf),
    "sigmoid": (0, 1),
    "silu": (0, np.inf),
    "tanh": (-1, 1),
    "gelu": (0, np.inf),
    "gelu_tanh": (0, np.inf),
}


@functools.cache
def _over_rows(name):
    function = getattr(lane_floats, name)

    @numba.njit
    def run(x, y, count):
        for i in range(0, count - 15, 16):
            store(y + 4 * i, function(load(x + 4 * i)))
        rest = count % 16
        last = 4 * (count - rest)
        store_first(y + last, rest, function(load_first(x + last, rest, np.float32(0))))

    return run


def _of_all(name, x, first=0):
    """The values in vectors that begin at ``first``, so that every element may come into every lane."""
    x = x.astype(np.float32)
    y = np.full_like(x, 77)
    _over_rows(name)(x.ctypes.data + 4 * first, y.ctypes.data + 4 * first, x.size - first)
    assert (y[:first] == 77).all()
    return y


@pytest.mark.parametrize("name", EXACT)
def test_values_are_right_to_a_few_units_in_the_last_place(name):
    rng = fresh_rng()
    x = (10.0 ** rng.uniform(-6, 1.93, 3001) * rng.choice([-1, 1], 3001)).astype(np.float32)
    exact, relative, of_x = EXACT[name]
    wanted = exact(x.astype(np.float64))
    error = np.abs(_of_all(name, x) - wanted)
    allowed = relative * np.abs(wanted) + of_x * np.abs(x) + 1e-35
    worst = np.argmax(error / allowed)
    assert (error <= allowed).all(), (x[worst], error[worst], allowed[worst])


@pytest.mark.parametrize("name", EXACT)
def test_nan_stays_nan_and_far_values_are_limits(name):
    nan, *rest = _of_all(name, np.array([np.nan, -np.inf, -3e38, -300, 300, 3e38, np.inf]))
    low, high = LIMITS[name]
    assert np.isnan(nan)
    np.testing.assert_allclose(rest[:3], low, atol=1e-36)
    finite = rest[3:5] if high == np.inf and name != "exp" else []
    np.testing.assert_allclose(finite, np.float32([300, 3e38][: len(finite)]))
    np.testing.assert_array_equal(rest[3 + len(finite) :], high)


@pytest.mark.parametrize("name", EXACT)
def test_a_lane_gives_the_bits_that_every_other_gives(name):
    x = fresh_rng().standard_normal(67) * 5
    whole = _of_all(name, x)
    for first in range(1, 17):
        np.testing.assert_array_equal(
            _of_all(name, x, first)[first:].view(np.uint32), whole[first:].view(np.uint32)
        )


def test_exp_ends_where_float32_does():
    x = np.float32([88.72, 88.73, -87.3, -103.9, -104.1]).astype(np.float64)
    got = _of_all("exp", x)
    np.testing.assert_allclose(got[[0, 2]], np.exp(x[[0, 2]]), rtol=3e-6)
    np.testing.assert_array_equal(got[[1, 4]], [np.inf, 0])
    assert 0 < got[3] < 3e-45


def test_exp_of_negative_numbers_ends_with_the_normal_ones():
    x = -(10.0 ** fresh_rng().uniform(-6, np.log10(87), 3000)).astype(np.float32)
    np.testing.assert_allclose(_of_all("exp_of_negative", x), np.exp(x.astype(np.float64)), rtol=3e-7)
    got = _of_all("exp_of_negative", np.array([0, -0.0, -88, -1e30, -np.inf, np.nan]))
    np.testing.assert_array_equal(got, [1, 1, 0, 0, 0, np.nan])


def test_logarithms_are_right_from_the_smallest_number_to_the_largest():
    rng = fresh_rng()
    x = np.concatenate(
        [10.0 ** rng.uniform(-45, 38.5, 2000), rng.uniform(0.5, 2, 2000), 1 + rng.uniform(-1e-5, 1e-5, 50)]
    )
    x = x.astype(np.float32)
    x = x[(x > 0) & np.isfinite(x)]
    np.testing.assert_allclose(_of_all("log", x), np.log(x.astype(np.float64)), rtol=3e-7, atol=0)
    got = _of_all("log", np.array([0, -0.0, -1, -np.inf, np.inf, np.nan, 1]))
    np.testing.assert_array_equal(got, [-np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan, 0])


def test_the_inverse_root_is_that_of_the_processor():
    inverse_root = lane_floats.inverse_root

    @numba.njit
    def run(x, y):
        store(y, inverse_root(load(x)))

    x = np.abs(fresh_rng().standard_normal(vector_math.LANES)).astype(np.float32)
    y = np.empty_like(x)
    run(x.ctypes.data, y.ctypes.data)
    np.testing.assert_array_equal(y, np.float32(1) / np.sqrt(x))

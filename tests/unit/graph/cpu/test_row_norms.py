"""Compiled normalization against the formula in float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.row_norms import norm_rows, repeats


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("width", [1, 7, 16, 33, 64, 100, 896])
@pytest.mark.parametrize("centered", [False, True])
def test_sums_are_normalized_scaled_and_shifted(kind, width, centered):
    rng = fresh_rng()
    rows, epsilon = int(rng.integers(1, 60)), 1e-3
    x, skip, bias = (
        rng.standard_normal(shape).astype(kind) for shape in ((2, rows, width), (rows, width), (width,))
    )
    weight, offset = (rng.standard_normal(width).astype(kind) for _ in range(2))
    tolerance = {np.float32: 2e-5, np.float16: 4e-3}.get(kind, 4e-2)
    for terms in ({}, {"skip": skip}, {"skip": skip, "bias": bias}, {"skip": x, "offset": offset}):
        total = x.astype(np.float64)
        for name in ("skip", "bias"):
            total = total + terms[name].astype(np.float64) if name in terms else total
        mean = total.mean(-1, keepdims=True) if centered else np.zeros((2, rows, 1))
        inverse = 1 / np.sqrt(np.square(total - mean).mean(-1, keepdims=True) + epsilon)
        want = (total - mean) * inverse * weight.astype(float) + terms.get("offset", np.zeros(1)).astype(
            float
        )
        y, summed = np.empty_like(x), np.empty_like(x)
        means, inverses = np.empty((2, 2, rows, 1), np.float32)
        norm_rows(
            *(x, y),
            epsilon=epsilon,
            centered=centered,
            weight=weight,
            total=summed if "skip" in terms else None,
            means=means,
            inverses=inverses,
            **terms,
        )
        np.testing.assert_allclose(y.astype(float), want, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(means, mean, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(inverses, inverse, rtol=1e-3)
        if "skip" in terms:
            np.testing.assert_allclose(summed.astype(float), total, rtol=tolerance, atol=tolerance)


def test_the_result_may_lie_where_a_term_lay():
    rng = fresh_rng()
    x, skip, weight = (rng.standard_normal(shape).astype(np.float32) for shape in ((300, 70), (300, 70), 70))
    want = np.empty_like(x)
    norm_rows(x, want, epsilon=1e-5, centered=True, weight=weight, skip=skip)
    for target in (x, skip):
        terms = [x.copy(), skip.copy()]
        y = terms[0 if target is x else 1]
        norm_rows(terms[0], y, epsilon=1e-5, centered=True, weight=weight, skip=terms[1])
        np.testing.assert_array_equal(y, want)


def test_what_repeats():
    x = np.zeros((2, 3, 4), np.float32)
    assert all(repeats(np.zeros(shape), x.shape) for shape in ((2, 3, 4), (1, 3, 4), (3, 4), (4,), (1, 1, 4)))
    assert not any(repeats(np.zeros(shape), x.shape) for shape in ((2, 1, 4), (2, 4), (5,), (0, 4)))
    with pytest.raises(KernelError, match="skip"):
        norm_rows(x, x, epsilon=0, centered=True, skip=np.zeros((2, 1, 4), np.float32))

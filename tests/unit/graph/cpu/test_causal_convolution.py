"""Compiled causal convolutions against the definition in float64."""

from __future__ import annotations

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.causal_convolution import convolve_rows, convolve_tokens


def defined(x, past, weight, bias, dilation, *, gated):
    """Of one sequence ``[channels, seq]``."""
    joined = np.concatenate([past, x], axis=1).astype(np.float64)
    y = np.zeros(x.shape)
    for tap in range(weight.shape[2]):
        y += weight[:, 0, tap, None] * joined[:, tap * dilation : tap * dilation + x.shape[1]]
    y += bias[:, None]
    return (y / (1 + np.exp(-y)) if gated else y), joined[:, joined.shape[1] - past.shape[1] :]


@pytest.mark.parametrize("kind", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("taps", [1, 2, 4, 9])
@pytest.mark.parametrize("dilation", [1, 3])
@pytest.mark.parametrize("gated", [False, True])
def test_both_layouts(kind, taps, dilation, gated):
    rng = fresh_rng()
    tolerance = {np.float32: 1e-5, np.float16: 3e-3}.get(kind, 3e-2)
    for seq in (0, 1, 2, 15, 16, 70):
        batch, channels, kept = 3, int(rng.choice([1, 5, 64, 70])), (taps - 1) * dilation
        x, past, weight, bias = (
            rng.standard_normal(shape).astype(kind)
            for shape in ((batch, channels, seq), (batch, channels, kept), (channels, 1, taps), (channels,))
        )
        wide = [value.astype(np.float64) for value in (x, past, weight, bias)]
        want = [defined(a, b, *wide[2:], dilation, gated=gated) for a, b in zip(*wide[:2], strict=True)]
        y, present = np.empty_like(x), np.empty_like(past)
        convolve_rows(x, past, weight, bias, y, present, dilation=dilation, gated=gated)
        tokens = x.swapaxes(1, 2).reshape(batch * seq, channels)
        packed, final = np.empty_like(tokens), np.empty((batch, kept, channels), kind)
        bounds = [seq * index for index in range(batch + 1)]
        states = past.swapaxes(1, 2)
        convolve_tokens(tokens, states, weight, bias, bounds, packed, final, dilation=dilation, gated=gated)
        for index, (start, end) in enumerate(pairwise(bounds)):
            for got, last in ((y[index], present[index]), (packed[start:end].T, final[index].T)):
                np.testing.assert_allclose(got.astype(float), want[index][0], rtol=tolerance, atol=tolerance)
                np.testing.assert_array_equal(last.astype(float), want[index][1])


def test_without_past_and_bias_both_are_zeros():
    rng = fresh_rng()
    x, weight = rng.standard_normal((1, 2, 40)).astype(np.float32), rng.standard_normal((2, 1, 3))
    weight = weight.astype(np.float32)
    y, present = np.empty_like(x), np.empty((1, 2, 2), np.float32)
    convolve_rows(x, None, weight, None, y, present)
    want, last = defined(x[0], np.zeros((2, 2)), weight, np.zeros(2), 1, gated=False)
    np.testing.assert_allclose(y[0], want, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(present[0], last)


def test_what_does_not_fit_is_told():
    x = np.zeros((1, 2, 5), np.float32)
    with pytest.raises(KernelError, match=r"a state of \(1, 2, 3\) was expected"):
        convolve_rows(x, np.zeros((1, 2, 4), np.float32), np.zeros((2, 1, 4), np.float32), None, x, x)

"""Small windows over planes, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.window_rows import fits_rows, slide_rows
from onnxgen.graph.cpu.windows import Axis


def _axes(rng):
    """Random windows that `slide_rows` takes."""
    while True:
        made = []
        for stride in (int(rng.integers(1, 4)), int(rng.integers(1, 3))):
            size, kernel, dilation = (
                int(rng.integers(1, 70)),
                int(rng.integers(1, 6)),
                int(rng.integers(1, 4)),
            )
            begin, end = (int(pad) for pad in rng.integers(0, kernel * dilation, 2))
            out = (size + begin + end - (kernel - 1) * dilation - 1) // stride + 1
            made.append(Axis(size, kernel, stride, dilation, begin, end, max(out, 0)))
        if fits_rows(made) and made[1].out > 0:
            return tuple(made)


def _windows(x, axes, outside):
    """float64 ``[planes, out height, out width, elements]``."""
    pads = [(axis.pad_begin, axis.pad_end + axis.extent) for axis in axes]
    padded = np.pad(x.astype(np.float64), [(0, 0), *pads], constant_values=outside)
    high, wide = (
        np.arange(axis.out)[:, None] * axis.stride + np.arange(axis.kernel) * axis.dilation for axis in axes
    )
    found = padded[:, high[:, None, :, None], wide[None, :, None, :]]
    return found.reshape(*found.shape[:3], -1)


@pytest.mark.parametrize("planes", [1, 3, 20])
@pytest.mark.parametrize("turn", range(8))
def test_weighted_sums(planes, turn):
    rng = fresh_rng()
    axes = _axes(rng)
    multiplier = int(rng.integers(1, 3))
    x = rng.standard_normal((1, planes, axes[0].size, axes[1].size)).astype(np.float32)
    w = rng.standard_normal((planes * multiplier, axes[0].kernel * axes[1].kernel)).astype(np.float32)
    bias = rng.standard_normal(planes * multiplier).astype(np.float32)
    y = np.full((1, planes * multiplier, axes[0].out, axes[1].out), 9, np.float32)
    slide_rows("sum", x, axes, y, w=w, bias=bias, divisors=None)
    seen = np.repeat(_windows(x[0], axes, 0), multiplier, axis=0)
    want = (seen * w[:, None, None, :]).sum(-1) + bias[:, None, None]
    np.testing.assert_allclose(y[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("turn", range(8))
def test_largest_and_mean(turn):
    rng = fresh_rng()
    axes = _axes(rng)
    x = rng.standard_normal((2, 5, axes[0].size, axes[1].size)).astype(np.float32)
    x[0, 1, :, ::7] = np.nan
    y = np.empty((2, 5, axes[0].out, axes[1].out), np.float32)
    seen = _windows(x.reshape(10, *x.shape[2:]), axes, -np.inf).reshape(*y.shape, -1)
    slide_rows("max", x, axes, y, w=None, bias=None, divisors=None)
    np.testing.assert_array_equal(y, seen.max(-1).astype(np.float32))
    divisors = rng.random((axes[0].out, axes[1].out)).astype(np.float32) + 1
    slide_rows("sum", x, axes, y, w=None, bias=None, divisors=divisors)
    seen = _windows(x.reshape(10, *x.shape[2:]), axes, 0).reshape(*y.shape, -1)
    np.testing.assert_allclose(y, seen.sum(-1) / divisors, rtol=1e-4, atol=1e-5)

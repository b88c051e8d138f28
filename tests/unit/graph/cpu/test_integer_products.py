"""Integer products through floating point are exact."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.integer_products import integer_convolve, integer_matmul, peak, shifted
from onnxgen.graph.cpu.windows import WindowSpec


@pytest.mark.parametrize("depth", [1, 257, 258, 259, 5000])
@pytest.mark.parametrize("extreme", [False, True])
def test_products_are_exact_at_any_depth(depth, extreme):
    rng = fresh_rng()
    a, b = (rng.integers(0, 256, shape).astype(np.uint8) for shape in ((3, depth), (depth, 5)))
    if extreme:
        a, b = np.full_like(a, 255), np.full_like(b, 255)
        a[:, ::2] = 254
    zero = np.array(0, np.uint8)
    got = integer_matmul(
        shifted(a, zero), shifted(b, zero), a_peak=peak(a.dtype, zero), b_peak=peak(b.dtype, zero)
    )
    assert got.dtype == np.int32
    assert (got == a.astype(np.int64) @ b.astype(np.int64)).all()


@pytest.mark.parametrize(("dtype", "zero", "expected"), [
    (np.uint8, 0, 255), (np.uint8, 128, 128), (np.uint8, 255, 255), (np.int8, 0, 128), (np.int8, -128, 255),
])  # fmt: skip
def test_the_peak_is_the_largest_distance_from_the_zero_point(dtype, zero, expected):
    assert peak(np.dtype(dtype), np.array(zero, dtype)) == expected


def test_stacks_and_vectors_multiply_as_numpy_has_it():
    rng = fresh_rng()
    for left, right in (((2, 1, 3, 4), (5, 4, 2)), ((4,), (4,)), ((300,), (300, 2)), ((2, 300), (300,))):
        a, b = rng.integers(-255, 256, left), rng.integers(-255, 256, right)
        got = integer_matmul(a.astype(np.float32), b.astype(np.float32), a_peak=255, b_peak=255)
        assert (got == a @ b).all()
        assert got.shape == (a @ b).shape


def test_heavy_kernels_stay_exact():
    x, w = np.full((1, 600, 3), 255, np.float32), np.full((2, 600, 3), 255, np.float32)
    w[1, ::2] = 254
    (axis,) = WindowSpec(None, None, None, None, "NOTSET", False).axes((3,), (3,))
    got = integer_convolve(x, w, (axis,), group=1, x_peak=255)
    assert got.reshape(-1).tolist() == [int(255 * row.sum(dtype=np.int64)) for row in w.astype(int)]

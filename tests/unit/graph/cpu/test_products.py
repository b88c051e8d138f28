"""Products of matrices, tiled or not."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu import tiled_products
from onnxgen.graph.cpu.products import matmul


def _normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def _check(a, b):
    want = a.astype(np.float64) @ b.astype(np.float64)
    got = matmul(a, b)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    out = np.full(want.shape, 7, np.float32)
    assert matmul(a, b, out) is out
    np.testing.assert_array_equal(out, got)


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8, 37, 150])
@pytest.mark.parametrize("transposed", [False, True])
def test_any_number_of_rows(rows, transposed):
    rng = fresh_rng()
    for depth, columns in ((700, 401), (1025, 300), (600, 512)):
        b = _normal(rng, columns, depth).T if transposed else _normal(rng, depth, columns)
        _check(_normal(rng, rows, depth), b)


def test_stacks_and_strides():
    rng = fresh_rng()
    for shape_a, shape_b in (
        ((3, 70, 90), (3, 90, 80)),
        ((2, 3, 65, 64), (64, 65)),
        ((2, 1, 100, 60), (3, 60, 70)),
    ):
        _check(_normal(rng, *shape_a), _normal(rng, *shape_b))
    _check(_normal(rng, 2, 64, 90)[:, ::2, ::-1], _normal(rng, 2, 80, 180)[..., ::2].swapaxes(-1, -2))
    _check(_normal(rng, 90, 64).T, _normal(rng, 90, 160)[:, ::2])


def test_small_and_empty_ones_and_other_types():
    rng = fresh_rng()
    _check(_normal(rng, 3, 4), _normal(rng, 4, 5))
    assert matmul(np.zeros((0, 4), np.float32), np.zeros((4, 5), np.float32)).shape == (0, 5)
    assert matmul(np.zeros((500, 0), np.float32), np.zeros((0, 5000), np.float32)).sum() == 0
    assert matmul(np.full((9, 9), 2), np.full((9, 9), 3)).dtype == np.int64
    with pytest.raises(ValueError, match="matmul"):
        matmul(np.zeros((100, 100), np.float32), np.zeros((101, 100), np.float32))


def test_a_row_has_the_same_bits_alone_and_among_others():
    rng = fresh_rng()
    a, b = _normal(rng, 64, 900), _normal(rng, 900, 513)
    among = matmul(a, b)
    for rows in (1, 2, 3, 5, 17):
        np.testing.assert_array_equal(matmul(a[:rows], b), among[:rows])


def test_packed_columns_are_added_to_what_is_there():
    rng = fresh_rng()
    a, b, c = _normal(rng, 19, 33), _normal(rng, 33, 45), _normal(rng, 19, 45)
    packed, total = tiled_products.pack(b), c.copy()
    tiled_products.multiply_packed(a, packed, total, fresh=False)
    np.testing.assert_allclose(total, c + a @ b, rtol=1e-4, atol=1e-5)
    tiled_products.multiply_packed(a, packed, total)
    np.testing.assert_allclose(total, a @ b, rtol=1e-4, atol=1e-5)

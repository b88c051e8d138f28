"""The innermost product, for the registers of every kind of processor."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.compiled.function import address
from onnxgen.graph.cpu.compiled.tile import TileShape, tile, tile_shape

SHAPES = [
    TileShape(4, 4, 2),
    TileShape(8, 4, 2),
    TileShape(4, 8, 2),
    TileShape(8, 16, 2),
    TileShape(1, 16, 4),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_products_begin_with_the_bias_or_go_on(shape):
    multiply = tile(shape)

    @numba.njit
    def run(a, b, c, bias, first):
        multiply(address(a), address(b), address(c), len(a), 4 * c.shape[1], address(bias), first)

    rng = fresh_rng()
    for depth in (1, 7):
        a = rng.standard_normal((depth, shape.rows)).astype(np.float32)
        b = rng.standard_normal((depth, shape.columns)).astype(np.float32)
        bias = rng.standard_normal(shape.rows).astype(np.float32)
        c = np.full((shape.rows, shape.columns + 3), 9, np.float32)
        run(a, b, c, bias, 1)
        np.testing.assert_allclose(c[:, : shape.columns], a.T @ b + bias[:, None], rtol=1e-5, atol=1e-5)
        run(a, b, c, bias, 0)
        np.testing.assert_allclose(c[:, : shape.columns], 2 * (a.T @ b) + bias[:, None], rtol=1e-5, atol=1e-5)
        assert (c[:, shape.columns :] == 9).all()


def test_this_processor_has_a_tile():
    assert tile_shape() in SHAPES

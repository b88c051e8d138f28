"""Copies of a few neighbours."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.compiled.function import address
from onnxgen.graph.cpu.compiled.movers import mover
from onnxgen.graph.cpu.compiled.tile import TileShape


@pytest.mark.parametrize("shape", [TileShape(4, 4, 2), TileShape(4, 8, 2), TileShape(8, 16, 2)], ids=str)
@pytest.mark.parametrize("outside", [0.0, -np.inf])
def test_only_wanted_elements_are_read_and_written(shape, outside):
    move = mover(shape, outside=outside)

    @numba.njit
    def run(target, source, place, length, stride, begin, end):
        move(address(target), address(source) + 4 * place, length, stride, begin, end)

    rng = fresh_rng()
    source = rng.standard_normal(200).astype(np.float32)
    for _ in range(200):
        stride, length = int(rng.integers(1, 5)), int(rng.integers(0, shape.columns + 1))
        begin, end = sorted(rng.integers(-5, stride * shape.columns + 5, 2).tolist())
        place = 40
        target = np.full(shape.columns + 4, 7, np.float32)
        run(target, source, place, length, stride, begin, end)
        for j, value in enumerate(target):
            if j >= length:
                assert value == 7
            elif begin <= j * stride < end:
                assert value == source[place + j * stride]
            else:
                assert value == outside

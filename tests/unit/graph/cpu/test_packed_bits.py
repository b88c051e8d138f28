"""Integers of a few bits in bytes."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.packed_bits import unpack


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [0, 1, 7, 16])
def test_packing_by_shifts_and_unpacking_gives_the_numbers(bits, count):
    numbers = fresh_rng().integers(0, 1 << bits, (3, count))
    rows = [sum(int(n) << (i * bits) for i, n in enumerate(row)) for row in numbers]
    packed = np.array([list(row.to_bytes(-(-count * bits // 8), "little")) for row in rows], np.uint8)
    assert unpack(packed.reshape(3, -1), bits, count).tolist() == numbers.tolist()

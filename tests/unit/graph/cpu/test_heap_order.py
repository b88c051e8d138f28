"""Sorting the best few with a heap: what is sorted, and which of equal logits comes first."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.heap_order import put_best_first

# Of `std::partial_sort(o, o + last, o + n, [&](int i, int j) { return x[i] > x[j]; })` over o = 0, 1, 2, ..., by GCC 12.
GNU_ORDERS = [
    ([2, 1, 2, 2, 1, 2, 1, 2, 2, 1], 4, [0, 3, 5, 2, 4, 1, 6, 7, 8, 9]),
    ([0, 0, 0, 0, 0, 0, 0, 0, 0], 5, [3, 4, 1, 0, 2, 5, 6, 7, 8]),
    ([3, 1, 3, 0, 2, 3, 2, 2, 0, 1, 3, 1, 2], 13, [10, 2, 0, 5, 7, 4, 12, 6, 1, 9, 11, 3, 8]),
    ([1, 1, 0, 0, 1, 1, 0, 1], 3, [4, 1, 0, 3, 2, 5, 6, 7]),
]


@pytest.mark.parametrize(("row", "last", "order"), GNU_ORDERS)
def test_equal_logits_fall_as_in_gnus_library(row, last, order):
    found = np.arange(len(row), dtype=np.int32)
    put_best_first(np.array(row, np.float32), found, first=0, last=last)
    assert found.tolist() == order


@pytest.mark.parametrize("width", [1, 2, 3, 64, 513, 3000])
@pytest.mark.parametrize("kinds", [1, 7, 10**6])
def test_run_after_run_the_best_come_first(width, kinds):
    rng = fresh_rng()
    row = rng.integers(kinds, size=width).astype(np.float32)
    order = rng.permutation(width).astype(np.int32)
    first = 0
    for last in sorted({int(n) for n in rng.integers(1, width + 1, 4)} | {width}):
        kept = order[:first].copy()
        put_best_first(row, order, first=first, last=last)
        np.testing.assert_array_equal(order[:first], kept)
        np.testing.assert_array_equal(np.sort(order), np.arange(width))
        np.testing.assert_array_equal(row[order[:last]], np.sort(row)[::-1][:last])
        first = last

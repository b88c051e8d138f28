from __future__ import annotations

import numpy as np

from onnxgen.foundations.reused_arrays import ReusedArrays


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_a_dropped_array_is_handed_out_again():
    arrays = ReusedArrays()
    first = arrays.take((2, 1000))
    address = _address(first)
    del first
    assert _address(arrays.take((2, 1000))) == address


def test_an_array_in_use_is_not_handed_out():
    arrays = ReusedArrays()
    first = arrays.take((5,))
    first[:] = 1
    second = arrays.take((5,))
    second[:] = 2
    assert (first == 1).all()


def test_a_view_keeps_its_array_in_use():
    arrays = ReusedArrays()
    row = arrays.take((3, 4))[1]
    row[:] = 7
    for _ in range(5):
        arrays.take((3, 4))[:] = 0
    assert (row == 7).all()


def test_arrays_of_other_shapes_are_made():
    arrays = ReusedArrays(keep=2)
    assert [arrays.take((n,)).shape for n in (1, 2, 3, 1)] == [(1,), (2,), (3,), (1,)]


def test_no_more_arrays_are_kept_than_said():
    arrays = ReusedArrays(keep=2)
    taken = [arrays.take((4,)) for _ in range(10)]
    assert len({_address(a) for a in taken}) == 10
    del taken
    assert len({_address(arrays.take((4,))) for _ in range(10)}) <= 2

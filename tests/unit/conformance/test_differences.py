import numpy as np
import pytest

from onnxgen.conformance.differences import largest_difference, unit_of


def test_differences_are_measured_in_the_largest_value():
    expected = [np.float32([0, -50, np.inf]), {"a": 4.0}]
    found = [np.float32([1, -50, np.inf]), {"a": 4.0}]
    assert unit_of(expected[0]) == 50
    assert largest_difference(found, expected) == pytest.approx(0.02)
    assert largest_difference(np.float32([1e-7]), np.float32([0])) == pytest.approx(1e-4)
    assert largest_difference(np.float32([1]), np.float32([[1]])) == np.inf
    assert largest_difference(np.float32([np.nan]), np.float32([0])) == np.inf

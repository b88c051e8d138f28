import ml_dtypes
import numpy as np
import pytest

from onnxgen.conformance.compare import MismatchError, check_value

HOW = {"rtol": 1e-3, "atol": 1e-6, "where": "y"}


@pytest.mark.parametrize(
    "value",
    [
        np.float32([1, np.nan, np.inf]),
        np.array(["a", "é"], object),
        np.zeros((0, 3), np.int64),
        np.array([1.5, -2], ml_dtypes.bfloat16),
        np.array([1, -2], ml_dtypes.int4),
        [np.float32([1]), np.float32([2, 3])],
        [],
        [{"a": 1.0}],
        None,
        np.array(True),
    ],
    ids=repr,
)
def test_a_value_equals_itself(value):
    check_value(value, value, **HOW)


@pytest.mark.parametrize(
    ("found", "expected", "says"),
    [
        (np.float32([1, 2.1]), np.float32([1, 2]), "2.0999"),
        (np.float32([1, 2]), np.float32([[1, 2]]), "shape"),
        (np.float64([1]), np.float32([1]), "float64"),
        (np.float32([np.nan]), np.float32([0]), "nan"),
        (np.array(["a"], object), np.array(["b"], object), "differ"),
        (np.float32(1.0), np.array(1, np.float32), "float32"),
        ([np.float32([1])], [], "1 elements"),
        (np.float32([1]), [np.float32([1])], "sequence"),
        (None, np.float32([1]), "NoneType"),
        (np.float32([1]), None, "expected None"),
        (np.array([1], ml_dtypes.int4), np.array([2], ml_dtypes.int4), "differ"),
        ([{"a": 1.0}], [{"a": 1.1}], r"y\[0\]\['a'\]: 1.0"),
        ({"a": 1.0}, {"b": 1.0}, "keys"),
        ([1.0], {"a": 1.0}, "a map"),
    ],
    ids=repr,
)
def test_a_difference_is_told(found, expected, says):
    with pytest.raises(MismatchError, match=says):
        check_value(found, expected, **HOW)


def test_values_that_are_not_compared_still_have_shapes_and_types():
    check_value(np.float32([1]), np.float32([2]), values=False, **HOW)
    with pytest.raises(MismatchError, match="shape"):
        check_value(np.float32([1, 2]), np.float32([2]), values=False, **HOW)


def test_numbers_in_maps_may_differ_within_tolerance():
    check_value([{"a": 1.0001, "b": 0.0}], [{"a": 1.0, "b": 0.0}], **HOW)

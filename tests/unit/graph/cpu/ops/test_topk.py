from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import assert_same, fresh_rng, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.booleans(), st.data())
def test_of_equals_the_first_comes_first(values, largest, data):
    k = data.draw(st.integers(0, len(values)))
    order = sorted(range(len(values)), key=lambda i: (-values[i] if largest else values[i], i))[:k]
    got, places = run_cpu("TopK", np.array(values), np.array([k]), largest=int(largest), outputs=2)
    assert places.tolist() == order
    assert got.tolist() == [values[i] for i in order]


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.float16, np.int64, np.uint8, ml_dtypes.bfloat16]
)
@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("shape", [(1, 5000), (3, 1000), (2, 40, 30)])
def test_few_of_many_come_in_the_order_of_a_sort(dtype, largest, shape):
    rng = fresh_rng()
    x = rng.integers(0, 200, shape).astype(dtype)
    for axis in range(len(shape)):
        size = shape[axis]
        for k in {1, size // 10, size // 2, size - 1} - {0}:
            got, places = run_cpu("TopK", x, np.array([k]), axis=axis, largest=largest, outputs=2)
            keys = np.moveaxis(x, axis, -1).astype(np.float64) * (-1 if largest else 1)
            want = np.moveaxis(np.argsort(keys, axis=-1, kind="stable")[..., :k], -1, axis)
            np.testing.assert_array_equal(places, want)
            np.testing.assert_array_equal(got, np.take_along_axis(x, want, axis=axis))


@pytest.mark.parametrize("largest", [0, 1])
def test_nan_is_the_largest(largest):
    x = fresh_rng().integers(0, 9, (4, 2000)).astype(np.float32)
    x[1, ::500], x[2, ::2], x[3] = np.nan, np.nan, np.nan
    got, places = run_cpu("TopK", x, np.array([600]), largest=largest, outputs=2)
    np.testing.assert_array_equal(got, np.take_along_axis(x, places, axis=-1))
    assert np.isnan(got).sum(axis=-1).tolist() == ([0, 4, 600, 600] if largest else [0, 0, 0, 600])
    if largest:
        assert places[1, :4].tolist() == [0, 500, 1000, 1500]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("options", [{}, {"largest": 0}, {"sorted": 0}])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float64])
def test_every_axis_is_ranked(axis, options, dtype):
    x = (np.random.default_rng().standard_normal((4, 5, 6)) * 9).astype(dtype)
    k = np.array([3])
    got = run_cpu("TopK", x, k, axis=axis, outputs=2, **options)
    want = run_ort(
        "TopK", x, k, axis=axis, outputs=2, opset=11, **(options if "sorted" not in options else {})
    )
    assert_same(got, want)


def test_the_least_of_a_type_ranks_as_such():
    x = np.array([0, 255, 3], np.uint8)
    assert run_cpu("TopK", x, np.array([3]), outputs=2)[1].tolist() == [1, 2, 0]
    least = np.array([np.iinfo(np.int32).min, 0, 5], np.int32)
    assert run_cpu("TopK", least, np.array([3]), outputs=2)[1].tolist() == [2, 1, 0]
    narrow = np.array([1, 3, 2]).astype(ml_dtypes.bfloat16)
    assert run_cpu("TopK", narrow, np.array([2]), outputs=2)[0].tolist() == [3, 2]


def test_version_1_has_k_as_attribute():
    got = run_cpu("TopK", np.array([[1.0, 3.0, 2.0]]), opset=1, k=2, outputs=2)
    assert [part.tolist() for part in got] == [[[3.0, 2.0]], [[1, 2]]]


def test_more_than_there_are_is_an_error():
    with pytest.raises(KernelError, match="asked for 4 elements of an axis of 3"):
        kernel_of(node_spec("TopK", np.zeros(3), np.array([4]), outputs=2)).run(np.zeros(3), np.array([4]))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("ordered", [0, 1])
def test_unique_has_all_its_outputs(axis, ordered):
    x = np.random.default_rng().integers(0, 2, (5, 3)).astype(np.float32)
    options = {"sorted": ordered} if axis is None else {"sorted": ordered, "axis": axis}
    got, want = (run("Unique", x, outputs=4, opset=11, **options) for run in (run_cpu, run_ort))
    assert_same(got, want)


def test_unique_strings_keep_their_first_places():
    x = np.array(["b", "a", "b"], object)
    got = run_cpu("Unique", x, outputs=4, sorted=0)
    assert [part.tolist() for part in got] == [["b", "a"], [0, 1], [0, 1, 0], [2, 1]]
    assert run_cpu("Unique", x).tolist() == ["a", "b"]
    rows = np.array([["b", "a"], ["a", "c"], ["b", "a"]], object)
    assert run_cpu("Unique", rows, axis=0).tolist() == [["a", "c"], ["b", "a"]]

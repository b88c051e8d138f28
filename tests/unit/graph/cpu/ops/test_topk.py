from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=12), st.booleans(), st.data())
def test_of_equals_the_first_comes_first(values, largest, data):
    k = data.draw(st.integers(0, len(values)))
    order = sorted(range(len(values)), key=lambda i: (-values[i] if largest else values[i], i))[:k]
    got, places = run_cpu("TopK", np.array(values), np.array([k]), largest=int(largest), outputs=2)
    assert places.tolist() == order
    assert got.tolist() == [values[i] for i in order]


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

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import KernelError

HUGE = 2**63 - 1


def selected(size, start, end, step):
    """Indices by the text of the standard."""
    start, end = (value + size if value < 0 else value for value in (start, end))
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start = min(max(start, 0), size if step > 0 else size - 1)
    return list(range(start, min(max(end, low), high), step)) if size else []


POSITIONS = st.one_of(st.integers(-9, 9), st.sampled_from([HUGE, -HUGE, -HUGE - 1]))


@given(
    st.integers(0, 6),
    POSITIONS,
    POSITIONS,
    st.integers(-4, 4).filter(bool),
    st.sampled_from([np.int32, np.int64]),
)
def test_positions_are_clamped_as_the_standard_says(size, start, end, step, dtype):
    limit = np.iinfo(dtype)
    start, end = (int(np.clip(value, limit.min, limit.max)) for value in (start, end))
    x = np.arange(2 * size).reshape(2, size)
    y = run_cpu("Slice", x, *(np.array([value], dtype) for value in (start, end, -1, step)))
    assert y.tolist() == x[:, selected(size, start, end, step)].tolist()


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_several_axes_are_sliced_as_the_runtime_slices_them(data):
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    axes = data.draw(st.permutations([0, 1, -1]))[: data.draw(st.integers(1, 3))]
    bounds = st.lists(st.integers(-7, 7), min_size=len(axes), max_size=len(axes))
    steps = st.lists(st.sampled_from([-3, -1, 1, 2]), min_size=len(axes), max_size=len(axes))
    inputs = [
        np.array(values, np.int64)
        for values in (data.draw(bounds), data.draw(bounds), axes, data.draw(steps))
    ]
    assert_same(run_cpu("Slice", x, *inputs), run_ort("Slice", x, *inputs, opset=13))


def test_version_1_has_attributes():
    x = np.arange(20).reshape(4, 5)
    assert run_cpu("Slice", x, opset=1, starts=[1, -2], ends=[1000, -1]).tolist() == x[1:, -2:-1].tolist()
    assert run_cpu("Slice", x, opset=1, starts=[2], ends=[4], axes=[1]).tolist() == x[:, 2:4].tolist()


def test_strings_are_sliced():
    x = np.array([["a", "b"], ["c", "d"]], object)
    one = np.array([1])
    assert run_cpu("Slice", x, one, np.array([2]), one).tolist() == [["b"], ["d"]]


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "message"),
    [
        ([0], [1, 2], [0], [1], "give as many"),
        ([0], [1], [0], [0], "have a 0"),
        ([0, 0], [1, 1], [0, -2], [1, 1], "twice"),
        ([0], [1], [2], [1], "axis 2"),
    ],
)
def test_slices_without_meaning_are_errors(starts, ends, axes, steps, message):
    inputs = [np.zeros((2, 2)), *(np.array(values) for values in (starts, ends, axes, steps))]
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec("Slice", *inputs)).run(*inputs)


@given(
    st.integers(0, 4), st.integers(0, 4), st.sampled_from([None, 0, 1, -1, 3, -3, HUGE, -HUGE]), st.booleans()
)
def test_a_triangle_is_numpys(rows, columns, k, upper):
    x = np.arange(2 * rows * columns, dtype=np.float32).reshape(2, rows, columns) + 1
    inputs = [x] if k is None else [x, np.array(k, np.int64)]
    shift = int(np.clip(k or 0, -9, 9))
    want = np.triu(x, shift) if upper else np.tril(x, shift)
    assert_same(run_cpu("Trilu", *inputs, upper=int(upper)), want)


def test_a_vector_has_no_triangle():
    with pytest.raises(KernelError, match="matrix"):
        kernel_of(node_spec("Trilu", np.zeros(3))).run(np.zeros(3))

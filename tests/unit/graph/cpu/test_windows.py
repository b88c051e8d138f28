"""The geometry of windows, against a count by hand of every element."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_runs import node_spec
from onnxgen.errors import InvalidGraphError, KernelError
from onnxgen.graph.cpu.windows import Axis, WindowSpec, padded, windows

AXES = st.builds(
    lambda size, kernel, stride, dilation, begin, end, ceil: WindowSpec(
        (kernel,), (stride,), (dilation,), (begin, end), "NOTSET", ceil
    ).axes((size,))[0],
    st.integers(0, 9),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(0, 4),
    st.booleans(),
)


def _elements(axis: Axis, window: int) -> list[int]:
    start = window * axis.stride - axis.pad_begin
    return [start + k * axis.dilation for k in range(axis.kernel)]


@given(AXES)
def test_meet_pairs_each_window_with_its_element_inside(axis):
    for offset in range(axis.kernel):
        seen_by, seen = axis.meet(offset)
        pairs = list(zip(range(axis.out)[seen_by], range(axis.size)[seen], strict=True))
        expected = [(w, _elements(axis, w)[offset]) for w in range(axis.out)]
        assert pairs == [(w, e) for w, e in expected if 0 <= e < axis.size]


@given(AXES)
def test_counts_are_those_of_the_elements(axis):
    inside = [sum(0 <= e < axis.size for e in _elements(axis, w)) for w in range(axis.out)]
    assert axis.counts(pads=False).tolist() == inside
    low, high = -axis.pad_begin, axis.size + axis.pad_end
    assert axis.counts(pads=True).tolist() == [
        sum(low <= e < high for e in _elements(axis, w)) for w in range(axis.out)
    ]


@given(AXES)
def test_windows_of_the_padded_input_show_the_elements(axis):
    x = np.arange(1, axis.size + 1)
    inner, inner_axes = padded(x, (axis,))
    shown = windows(inner, inner_axes)  # [kernel, out]
    expected = [[e + 1 if 0 <= e < axis.size else 0 for e in _elements(axis, w)] for w in range(axis.out)]
    assert shown.T.tolist() == expected


def test_a_part_sees_what_the_whole_sees():
    axis = WindowSpec((3,), (2,), None, (1, 1), "NOTSET", False).axes((9,))[0]
    assert [_elements(axis.part(2, 4), w) for w in range(2)] == [_elements(axis, w) for w in (2, 3)]


@pytest.mark.parametrize(
    ("auto_pad", "pads"), [("SAME_UPPER", (1, 2)), ("SAME_LOWER", (2, 1)), ("VALID", (0, 0))]
)
def test_automatic_padding(auto_pad, pads):
    (axis,) = WindowSpec((5,), (2,), None, None, auto_pad, False).axes((6,))
    assert (axis.pad_begin, axis.pad_end) == pads
    assert axis.out == (1 if auto_pad == "VALID" else 3)


def test_a_window_that_starts_behind_the_input_is_none():
    (axis,) = WindowSpec((1,), (2,), None, (0, 1), "NOTSET", True).axes((4,))
    assert axis.out == 2


def test_an_unknown_auto_pad_is_named():
    with pytest.raises(InvalidGraphError, match=r"'SAME'.*SAME_UPPER"):
        WindowSpec.of(node_spec("Conv", np.zeros((1, 1, 3)), np.zeros((1, 1, 3)), auto_pad="SAME"))


def test_attributes_of_another_rank_are_told():
    with pytest.raises(KernelError, match="do not fit 2 spatial axes"):
        WindowSpec((3,), None, None, None, "NOTSET", False).axes((4, 4))


@given(AXES)
def test_offsets_are_those_that_meet_the_input_in_some_window(axis):
    met = [
        k for k in range(axis.kernel) if any(0 <= _elements(axis, w)[k] < axis.size for w in range(axis.out))
    ]
    assert set(met) <= set(axis.offsets) <= set(range(axis.kernel))
    if axis.stride == 1:  # else windows may step over the whole input
        assert met == list(axis.offsets) or not met


@pytest.mark.parametrize(
    "attributes", [{"strides": (0, 1)}, {"dilations": (1, -1)}, {"kernel_shape": (0, 2)}], ids=str
)
def test_sizes_and_steps_are_positive(attributes):
    with pytest.raises(InvalidGraphError, match="at least 1"):
        WindowSpec.of(node_spec("MaxPool", np.ones((1, 1, 4, 4), np.float32), **attributes))


def test_the_kernel_shape_is_that_of_the_weights():
    spec = WindowSpec((3, 3), None, None, None, "NOTSET", False)
    with pytest.raises(KernelError, match=r"kernel_shape \[3, 3\] is not that of the weights, \[2, 2\]"):
        spec.axes((4, 4), (2, 2))

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_runs import assert_same, kernel_of, node_spec, run_cpu, run_ort
from onnxgen.errors import InvalidGraphError, KernelError

WIDTHS = st.lists(st.integers(0, 5), min_size=4, max_size=4)


@given(st.integers(1, 4), st.integers(1, 4), WIDTHS, st.sampled_from(["constant", "edge", "reflect", "wrap"]))
def test_positive_pads_are_numpys(rows, columns, pads, mode):
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
    if mode == "reflect" and 1 in x.shape:
        pads = [n * (size > 1) for n, size in zip(pads, x.shape * 2, strict=True)]
    want = np.pad(x, [(pads[0], pads[2]), (pads[1], pads[3])], mode)
    assert_same(run_cpu("Pad", x, np.array(pads), mode=mode), want)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-2, 3), min_size=4, max_size=4),
    st.sampled_from(["constant", "edge", "reflect", "wrap"]),
)
def test_negative_pads_are_the_runtimes(pads, mode):
    x = np.arange(72, dtype=np.float32).reshape(8, 9)
    assert_same(
        run_cpu("Pad", x, np.array(pads), mode=mode), run_ort("Pad", x, np.array(pads), mode=mode, opset=19)
    )


def test_only_the_given_axes_are_padded():
    x, pads = np.arange(6).reshape(1, 2, 3), np.array([1, 0, 0, 2])
    got = run_cpu("Pad", x, pads, np.array(9), np.array([-1, 1]))
    assert got.tolist() == np.pad(x, [(0, 0), (0, 2), (1, 0)], constant_values=9).tolist()


@pytest.mark.parametrize(
    ("dtype", "fill"), [(object, ""), (np.bool_, False), (ml_dtypes.bfloat16, 0), (ml_dtypes.int4, 0)]
)
def test_the_default_value_is_the_types_nothing(dtype, fill):
    x = np.array([1, 1]).astype(dtype)
    y = run_cpu("Pad", x, np.array([1, 1]))
    assert y.dtype == x.dtype
    assert y[0] == fill
    assert y[-1] == fill


def test_old_versions_have_attributes():
    x = np.ones((2, 2), np.float32)
    want = np.pad(x, [(0, 0), (2, 0)], constant_values=3)
    assert_same(run_cpu("Pad", x, opset=1, paddings=[0, 2, 0, 0], value=3.0), want)
    assert_same(run_cpu("Pad", x, opset=2, pads=[0, 2, 0, 0], value=3.0), want)


@pytest.mark.parametrize(
    ("shape", "pads", "mode", "message"),
    [
        ((2, 3), [1, 1], "constant", "two for each"),
        ((2,), [-2, -1], "constant", "less than nothing"),
        ((2,), [-3, 4], "edge", "no source"),
        ((0,), [1, 1], "edge", "nothing to repeat"),
    ],
)
def test_pads_without_meaning_are_errors(shape, pads, mode, message):
    x = np.zeros(shape)
    with pytest.raises(KernelError, match=message):
        kernel_of(node_spec("Pad", x, np.array(pads), mode=mode)).run(x, np.array(pads))


def test_an_unknown_mode_is_an_error():
    with pytest.raises(InvalidGraphError, match="mirror"):
        kernel_of(node_spec("Pad", np.zeros(2), np.zeros(2, np.int64), mode="mirror"))

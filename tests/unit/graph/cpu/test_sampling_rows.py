"""Arg-max, top-k and softmax of rows, against NumPy and float64."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.sampling_rows import masked_argmax, softmax_rows, top_k

WIDTHS = [1, 15, 16, 17, 32, 33, 100, 1000, 49152]


def _bits(allowed):
    """uint32 words of booleans, the first in the lowest bit."""
    padded = np.zeros((len(allowed), -(-allowed.shape[1] // 32) * 32), bool)
    padded[:, : allowed.shape[1]] = allowed
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint32)


def _rows(width, rows=5):
    """Rows with many equal elements, apart by a gap."""
    x = np.round(fresh_rng().standard_normal((rows, width + 3)) * 4).astype(np.float32)
    return x[:, :width]


@pytest.mark.parametrize("width", WIDTHS)
def test_argmax_is_that_of_numpy(width):
    x = _rows(width)
    np.testing.assert_array_equal(masked_argmax(x), x.argmax(1))


def test_argmax_knows_no_order_of_zeros_and_takes_the_first_nan():
    x = np.float32(
        [[-0.0, 0.0, -1], [-np.inf, -np.inf, -np.inf], [1, np.nan, np.inf], [np.inf, -np.nan, np.nan]]
    )
    np.testing.assert_array_equal(masked_argmax(x), [0, 0, 1, 1])


@pytest.mark.parametrize("width", WIDTHS)
def test_argmax_of_what_is_allowed(width):
    rng, x = fresh_rng(), _rows(width)
    allowed = rng.random(x.shape) < 0.3
    allowed[0] = False
    got = masked_argmax(x, _bits(allowed))
    wanted = np.where(allowed, x, -np.inf).argmax(1)
    wanted[~allowed.any(1)] = -1
    np.testing.assert_array_equal(got, wanted)
    one = allowed[1:2]
    wanted = np.where(one, x, -np.inf).argmax(1) if one.any() else np.full(len(x), -1)
    np.testing.assert_array_equal(masked_argmax(x, _bits(one)), wanted)


def test_an_allowed_element_of_minus_infinity_is_chosen_when_all_are():
    x = np.full((1, 40), -np.inf, np.float32)
    allowed = np.zeros((1, 40), bool)
    allowed[0, [20, 33]] = True
    assert masked_argmax(x, _bits(allowed)) == [20]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_largest_come_first_and_of_equals_the_first(width):
    x = _rows(width)
    for k in {0, 1, min(7, width), min(300, width), width if width < 2000 else 50}:
        values, places = top_k(x, k)
        wanted = np.argsort(-x, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(places, wanted)
        np.testing.assert_array_equal(values, np.take_along_axis(x, wanted, 1))


def test_rising_rows_keep_the_last():
    x = np.arange(3000, dtype=np.float32)[None]
    np.testing.assert_array_equal(top_k(x, 4)[1], [[2999, 2998, 2997, 2996]])


def test_the_largest_of_what_is_allowed_and_nothing_more():
    x = np.float32([[5, np.nan, 3, -np.inf, 4, -0.0, 0.0]])
    allowed = np.array([[True, True, False, True, False, True, True]])
    values, places = top_k(x, 7, _bits(allowed))
    np.testing.assert_array_equal(places, [[1, 0, 5, 6, 3, -1, -1]])
    np.testing.assert_array_equal(values, np.float32([[np.nan, 5, 0, 0, -np.inf, -np.inf, -np.inf]]))


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_softmax_is_right_and_may_be_in_place(width, logarithm):
    x = fresh_rng().standard_normal((4, width)).astype(np.float32) * 6
    x[1, : width // 2] = -np.inf
    shifted = x.astype(np.float64) - x.max(1, keepdims=True)
    total = np.exp(shifted).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        wanted = shifted - np.log(total) if logarithm else np.exp(shifted) / total
    y = np.zeros((4, width + 2), np.float32)[:, :width]
    softmax_rows(x, y, logarithm=logarithm)
    np.testing.assert_allclose(y, wanted, rtol=2e-6, atol=1e-6 if logarithm else 1e-12)
    softmax_rows(x, x, logarithm=logarithm)
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("logarithm", [False, True])
def test_rows_without_a_softmax_are_nan_and_leave_others_alone(logarithm):
    x = np.zeros((4, 37), np.float32)
    x[0, 20], x[1], x[2, 36] = np.nan, -np.inf, np.inf
    softmax_rows(x, x, logarithm=logarithm)
    assert np.isnan(x[:2]).all() and np.isnan(x[2, 36]) and np.isfinite(x[3]).all()


@pytest.mark.parametrize("width", [37, 1000])
def test_a_row_has_the_same_bits_alone_and_among_others(width):
    x = fresh_rng().standard_normal((40, width)).astype(np.float32)
    y, one = np.empty_like(x), np.empty((1, width), np.float32)
    softmax_rows(x, y)
    for row in range(40):
        softmax_rows(x[row : row + 1], one)
        np.testing.assert_array_equal(one[0], y[row])


def test_what_does_not_fit_is_refused():
    x = np.zeros((2, 40), np.float32)
    with pytest.raises(KernelError, match="float64"):
        masked_argmax(x.astype(np.float64))
    with pytest.raises(KernelError, match=r"uint32 \(2, 2\)"):
        masked_argmax(x, np.zeros((2, 1), np.uint32))
    with pytest.raises(KernelError, match="from 0 to 40"):
        top_k(x, 41)
    with pytest.raises(KernelError, match="strides"):
        masked_argmax(x.T)
    with pytest.raises(KernelError, match="cannot be written"):
        softmax_rows(x, x[:1])


def test_no_rows_have_no_results():
    x = np.zeros((0, 40), np.float32)
    assert masked_argmax(x).shape == (0,) and top_k(x, 3)[0].shape == (0, 3)

"""Normalization of rows, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.graph.cpu.row_kernels import norm_kernel, parts_of_rows
from row_runs import NOTHING, ROWS, Quantized, rows_at, run, strided

WIDTHS = [1, 15, 16, 33, 64, 100, 576, 1000]


def _norm(x, weight, *, epsilon=1e-5, centered=False, bias=None):
    x = x.astype(np.float64)
    if centered:
        x = x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * weight
    return y if bias is None else y + bias


def _run(
    x, weight, *, bias=None, skip=None, skip_bias=None, quantized=None, group=32, parts=1, pieces=1, **options
):
    """y, the sum, and the integers."""
    rows, width = len(x), x.shape[1] // pieces
    y, added = np.full_like(x, 7), np.full_like(x, 7)
    integers = Quantized.empty(rows, x.shape[1], quantized, group) if quantized else None
    kernel = norm_kernel(
        bias=bias is not None,
        skip=skip is not None,
        skip_bias=skip_bias is not None,
        quantized=quantized,
        group=group,
        **options,
    )
    run(
        kernel,
        rows,
        parts=parts,
        rows=ROWS,
        pieces=pieces,
        width=width,
        epsilon=1e-5,
        weight=weight.ctypes.data,
        bias=0 if bias is None else bias.ctypes.data,
        **rows_at("x", x),
        **rows_at("y", y),
        **rows_at("skip", x if skip is None else skip),
        skip_bias=0 if skip_bias is None else skip_bias.ctypes.data,
        **rows_at("sum", added),
        **(integers.arguments() if integers else NOTHING),
    )
    return y, added, integers


@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_rows_are_normed_with_weight_and_bias(width, centered):
    rng = fresh_rng()
    x = strided(rng.standard_normal((5, width)).astype(np.float32) * 3 + 1)
    weight, bias = rng.standard_normal((2, width)).astype(np.float32)
    y, _, _ = _run(x, weight, bias=bias, centered=centered, parts=3)
    wanted = _norm(x, weight, centered=centered, bias=bias)
    np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=3e-6 if width > 1 else 1e-3)


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("width", [33, 576])
def test_the_sum_with_a_skipped_input_is_written_and_normed(width, with_bias):
    rng = fresh_rng()
    x, skip = (strided(rng.standard_normal((4, width)).astype(np.float32), gap) for gap in (0, 5))
    weight, bias = rng.standard_normal((2, width)).astype(np.float32)
    y, added, _ = _run(x, weight, skip=skip, skip_bias=bias if with_bias else None, parts=2)
    wanted = x + skip + (bias if with_bias else np.float32(0))
    np.testing.assert_array_equal(added, wanted)
    np.testing.assert_allclose(y, _norm(wanted, weight), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("elements", "group"), [("int8", 32), ("int16", 32), ("int8", 16), ("int16", 16), ("int8", 64)]
)
@pytest.mark.parametrize("width", [16, 33, 100, 576, 896])
def test_integers_stand_for_the_normed_row(width, elements, group):
    rng = fresh_rng()
    x = strided(rng.standard_normal((3, width)).astype(np.float32))
    weight = rng.standard_normal(width).astype(np.float32)
    y, _, integers = _run(x, weight, quantized=elements, group=group)
    integers.check(y)
    assert integers.q[:, width:].size == 0 or (integers.q[:, width:] == 0).all()


def test_heads_are_normed_one_by_one():
    rng = fresh_rng()
    x = strided(rng.standard_normal((3, 5 * 24)).astype(np.float32))
    weight = rng.standard_normal(24).astype(np.float32)
    y, _, _ = _run(x, weight, pieces=5, parts=4)
    wanted = _norm(x.reshape(3, 5, 24), weight)
    np.testing.assert_allclose(y.reshape(3, 5, 24), wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("width", [7, 100, 576])
def test_a_row_has_the_same_bits_alone_and_among_others(width):
    rng = fresh_rng()
    x, skip = (rng.standard_normal((13, width)).astype(np.float32) for _ in range(2))
    weight, bias = rng.standard_normal((2, width)).astype(np.float32)
    options = {"bias": bias, "centered": True, "quantized": "int8"}
    y, added, integers = _run(x, weight, skip=skip, **options)
    for parts in (2, 5, 13, 20):
        again, added_again, integers_again = _run(x, weight, skip=skip, parts=parts, **options)
        np.testing.assert_array_equal(again.view(np.uint32), y.view(np.uint32))
        np.testing.assert_array_equal(added_again, added)
        np.testing.assert_array_equal(integers_again.q, integers.q)
    for row in range(13):
        alone, _, of_one = _run(x[row : row + 1], weight, skip=skip[row : row + 1], **options)
        np.testing.assert_array_equal(alone.view(np.uint32), y[row : row + 1].view(np.uint32))
        np.testing.assert_array_equal(of_one.q, integers.q[row : row + 1])
        np.testing.assert_array_equal(of_one.scale, integers.scale[row : row + 1])


def test_no_rows_need_nothing():
    empty = np.empty((0, 32), np.float32)
    y, _, _ = _run(empty, np.ones(32, np.float32))
    assert y.size == 0


def test_nan_stays_in_its_row():
    x = fresh_rng().standard_normal((3, 64)).astype(np.float32)
    x[1, 40] = np.nan
    y, _, integers = _run(x, np.ones(64, np.float32), quantized="int8")
    assert np.isnan(y[1]).all() and np.isfinite(y[[0, 2]]).all()
    assert np.isnan(integers.scale[1]).all() and np.isfinite(integers.scale[[0, 2]]).all()


def test_small_work_is_one_part_and_large_work_many():
    assert parts_of_rows(1, 100_000) == 1
    assert parts_of_rows(5, 8) == 1
    assert parts_of_rows(512, 896) == 56

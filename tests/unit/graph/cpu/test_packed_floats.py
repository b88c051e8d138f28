"""Products by matrices kept in floats, against float64."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.compiled.float_layout import CHUNK_ROWS, parts_of_product
from onnxgen.graph.cpu.packed_floats import pack
from row_runs import ROWS, rows_at, run, strided

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _multiply(packed, x, *, parts=1, bias=None, further=None, gate=None):
    columns = packed.product_arguments()["columns"]
    y = strided(np.full((len(x), columns), 7, np.float32) if further is None else further, 5)
    run(
        packed.product(gate),
        len(x),
        parts=parts,
        rows_word=ROWS,
        **rows_at("x", x),
        **packed.product_arguments(),
        **rows_at("y", y),
        bias=0 if bias is None else bias.ctypes.data,
        further=0 if further is None else 1,
    )
    return y


def _check(y, x, wide, more=0):
    exact = x.astype(np.float64) @ wide.T.astype(np.float64)
    size = np.abs(x) @ np.abs(wide.T.astype(np.float32))
    assert (np.abs(y - (exact + more)) <= 3e-7 * math.sqrt(x.shape[1]) * size + 1e-6).all()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("rows", "depth", "columns"),
    [(1, 1, 1), (1, 576, 130), (2, 33, 64), (5, 97, 17), (6, 96, 200), (13, 300, 65), (130, 100, 72)],
)
def test_products_of_odd_sizes(rows, depth, columns, dtype, transposed):
    rng = fresh_rng()
    w = rng.standard_normal((columns, depth)).astype(DTYPES[dtype])
    x = strided(rng.standard_normal((rows, depth)).astype(np.float32))
    packed = pack([w.T.copy() if transposed else w], transposed=transposed)
    assert (packed.columns, packed.depth) == (columns, depth)
    y = _multiply(packed, x, parts=3)
    _check(y, x, w.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_has_the_same_bits_alone_and_among_others(dtype):
    rng = fresh_rng()
    w = rng.standard_normal((100, 250)).astype(DTYPES[dtype])
    x = rng.standard_normal((CHUNK_ROWS + 20, 250)).astype(np.float32)
    packed = pack([w])
    whole = _multiply(packed, x).view(np.uint32)
    for rows in (*range(1, 41), CHUNK_ROWS, CHUNK_ROWS + 1):
        some = _multiply(packed, x[:rows], parts=1 + rows % 5)
        np.testing.assert_array_equal(some.view(np.uint32), whole[:rows])
    for row in range(0, len(x), 7):
        alone = _multiply(packed, x[row : row + 1], parts=2)
        np.testing.assert_array_equal(alone.view(np.uint32), whole[row : row + 1])


@pytest.mark.parametrize("rows", [1, 3, 9])
def test_bias_and_what_is_there_are_added(rows):
    rng = fresh_rng()
    w, x = (rng.standard_normal(shape).astype(np.float32) for shape in ((70, 48), (rows, 48)))
    bias, old = rng.standard_normal(70).astype(np.float32), rng.standard_normal((rows, 70)).astype(np.float32)
    _check(_multiply(pack([w]), x, bias=bias), x, w, bias)
    _check(_multiply(pack([w]), x, further=old), x, w, old)
    _check(_multiply(pack([w]), x, bias=bias, further=old, parts=2), x, w, bias + old.astype(np.float64))


@pytest.mark.parametrize("sizes", [(64, 32, 48), (9, 100, 1)])
def test_matrices_are_joined_side_by_side(sizes):
    rng = fresh_rng()
    matrices = [rng.standard_normal((size, 40)).astype(np.float16) for size in sizes]
    x = rng.standard_normal((4, 40)).astype(np.float32)
    packed = pack(matrices)
    assert packed.columns == sum(sizes)
    _check(_multiply(packed, x, parts=2), x, np.concatenate(matrices).astype(np.float32))


@pytest.mark.parametrize("columns", [16, 40, 128, 150])
@pytest.mark.parametrize("rows", [1, 10])
def test_a_gate_is_applied_where_two_matrices_take_turns(rows, columns):
    rng = fresh_rng()
    gate, up = (rng.standard_normal((columns, 30)).astype(ml_dtypes.bfloat16) for _ in range(2))
    x = rng.standard_normal((rows, 30)).astype(np.float32)
    packed = pack([gate, up], interleave=True)
    y = _multiply(packed, x, gate="silu", parts=2)
    left, right = (x.astype(np.float64) @ w.T.astype(np.float64) for w in (gate, up))
    np.testing.assert_allclose(y, left / (1 + np.exp(-left)) * right, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_packed_is_refused():
    w = np.ones((4, 3), np.float32)
    with pytest.raises(KernelError, match="float64"):
        pack([w.astype(np.float64)])
    with pytest.raises(KernelError, match="cannot be packed"):
        pack([np.empty((0, 3), np.float32)])
    with pytest.raises(KernelError, match="cannot be joined"):
        pack([w, w[:, :2]])
    with pytest.raises(KernelError, match="as many columns"):
        pack([w, w[:2]], interleave=True)


def test_no_rows_write_nothing():
    assert _multiply(pack([np.ones((4, 3), np.float32)]), np.empty((0, 3), np.float32)).size == 0


def test_a_product_has_parts_that_are_worth_claiming():
    assert parts_of_product(1, 1, 1000) == 1
    assert parts_of_product(1, 14, 114_688) == 14
    assert parts_of_product(1, 2374, 114_688) == 256
    assert parts_of_product(512, 14, 114_688) == 28

"""Products of matrices of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_runs import fresh_rng
from onnxgen.foundations.cpuinfo import detect_cpu
from onnxgen.graph.cpu import byte_kernels
from onnxgen.graph.cpu.byte_layout import PANEL, padded_depth
from onnxgen.graph.cpu.isa import Isa
from onnxgen.graph.cpu.packed_bytes import ByteProducts, Left, PackedBytes, Scales
from onnxgen.graph.cpu.placed import placed
from onnxgen.graph.cpu.quantization import dynamic_parameters, quantize
from onnxgen.graph.cpu.step.running import run_parts

ISAS = [isa for isa in Isa if isa.runs_on(detect_cpu().features)]
ZERO = np.zeros(1, np.int32)


def _bytes(rng, dtype, *shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def _wide(x, zero):
    return x.astype(np.int64) - zero.astype(np.int64)


@pytest.mark.parametrize("left", [np.uint8, np.int8])
@pytest.mark.parametrize("right", [np.uint8, np.int8])
@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 200])
def test_totals_are_exact_for_both_signs_and_any_zero_points(left, right, rows):
    rng = fresh_rng()
    depth, columns = (int(size) for size in rng.integers(1, 150, 2))
    a, b = _bytes(rng, left, rows, depth), _bytes(rng, right, depth, columns)
    a_zeros, b_zeros = _bytes(rng, left, rows), _bytes(rng, right, columns)
    y = np.empty((rows, columns), np.int32)
    ByteProducts().totals(Left(a, placed(a_zeros.astype(np.int32))), PackedBytes.of(b, b_zeros), y)
    np.testing.assert_array_equal(y, _wide(a, a_zeros[:, None]) @ _wide(b, b_zeros))


def test_the_farthest_bytes_do_not_saturate():
    depth = 1000
    for left, right in ((255, -128), (255, 127), (0, -128)):
        a, b = np.full((7, depth), left, np.uint8), np.full((depth, 65), right, np.int8)
        y = np.empty((7, 65), np.int32)
        ByteProducts().totals(Left(a, placed(ZERO)), PackedBytes.of(b, None), y)
        assert (y == depth * left * right).all()


@pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.value)
def test_parts_and_instruction_sets_do_not_change_totals(isa):
    rng = fresh_rng()
    rows, depth, columns = 11, 57, 3 * PANEL + 5
    a, b = _bytes(rng, np.uint8, rows, depth), _bytes(rng, np.int8, depth, columns)
    right = PackedBytes.of(b, None)
    left = np.full((rows, padded_depth(depth)), 0xA5, np.uint8)
    left[:, :depth] = a
    sums, y = a.sum(1, np.int32), np.empty((rows, columns), np.int32)
    for parts, blocks, order in ((1, 1, [0]), (4, 3, [2, 0, 3, 1]), (9, 4, None), (40, 11, None)):
        y[:] = -1
        run_parts(
            byte_kernels.product("totals", isa),
            parts=parts,
            order=order,
            left=left.ctypes.data,
            left_sums=sums.ctypes.data,
            left_zeros=ZERO.ctypes.data,
            left_zero_step=0,
            left_flip=0,
            rows=rows,
            depth=depth,
            right=right.tiles.address,
            right_sums=right.sums.address,
            right_zeros=right.zeros.address,
            columns=columns,
            addend=0,
            row_addend=0,
            row_blocks=blocks,
            y=y.ctypes.data,
        )
        np.testing.assert_array_equal(y, _wide(a, ZERO) @ _wide(b, ZERO))


def test_rows_and_columns_have_scales():
    rng = fresh_rng()
    a, b = _bytes(rng, np.int8, 9, 33), _bytes(rng, np.uint8, 33, 70)
    zero, addend = np.array([3], np.int32), rng.integers(-999, 999, 70).astype(np.int32)
    rows, columns = rng.random(9).astype(np.float32), rng.random(70).astype(np.float32)
    bias, y = rng.standard_normal(70).astype(np.float32), np.empty((9, 70), np.float32)
    right = PackedBytes.of(b, np.array(200, np.uint8))
    ByteProducts().floats(
        Left(a, placed(zero)),
        right,
        y,
        scales=Scales(placed(rows), placed(columns)),
        bias=placed(bias),
        addend=placed(addend),
    )
    totals = _wide(a, zero) @ _wide(b, np.array(200)) + addend
    want = totals * rows[:, None].astype(np.float64) * columns + bias
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_results_are_rounded_to_even_and_saturate(dtype):
    a, b = np.arange(0, 12, dtype=np.uint8)[:, None], np.array([[1, -1, 100]], np.int8)
    y = np.empty((12, 3), dtype)
    ByteProducts().requantized(
        Left(a, placed(ZERO)),
        PackedBytes.of(b, None),
        y,
        scales=Scales(placed(np.ones(1, np.float32)), placed(np.ones(3, np.float32))),
        y_scale=placed(np.full(1, 2, np.float32)),
        y_zero=placed(np.full(1, 10, np.int32)),
    )
    info = np.iinfo(dtype)
    want = np.clip(np.rint(a.astype(int) @ b.astype(int) / 2) + 10, info.min, info.max)
    np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng().standard_normal((5, 700)).astype(np.float32),
        np.zeros((2, 9), np.float32),
        np.full((1, 3), np.nan, np.float32),
        np.array([[np.nan, -2, 5]], np.float32),
        np.array([[7, 3, 5]], np.float32),
        np.array([[-7, -3]], np.float32),
        np.array([[np.inf, 1]], np.float32),
    ],
)
def test_floats_are_quantized_by_their_range(x):
    rng = fresh_rng()
    b = _bytes(rng, np.int8, x.shape[1], 20)
    column_scales = rng.random(20).astype(np.float32)
    y = np.empty((len(x), 20), np.float32)
    ByteProducts().dynamic(x, PackedBytes.of(b, None), y, columns=placed(column_scales), bias=None)
    with np.errstate(all="ignore"):
        scale, zero = dynamic_parameters(x)
        q = quantize(x, scale, zero, np.dtype(np.uint8))
        want = (_wide(q, zero) @ _wide(b, ZERO)).astype(np.float32) * (scale * column_scales)
    np.testing.assert_allclose(y, want, rtol=1e-6)

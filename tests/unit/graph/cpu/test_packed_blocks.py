"""Packing of quantized matrices: what lies in the panels, and what is refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from block_products import padded_rows, random_matrix, run, weights_of
from kernel_runs import fresh_rng
from onnxgen.errors import KernelError
from onnxgen.graph.cpu.packed_blocks import pack
from onnxgen.graph.cpu.step.table import StepTable

FORMATS = [(4, 32), (4, 16), (2, 64), (8, 128), (4, 256)]


@pytest.mark.parametrize(("bits", "block"), FORMATS)
def test_panels_hold_the_matrix(bits, block):
    rng = fresh_rng()
    zeros = rng.choice(["middle", "bytes", "offsets"])
    for columns, depth in ((1, 1), (16, 31), (70, 300)):
        matrix = random_matrix(rng, columns, depth, bits, block, zeros)
        for words in (False, True):
            packed = pack([matrix], words=words, threads=2)
            assert packed.dequantized().shape == (columns, depth)
            # Offsets are rounded to float16 for int8.
            tolerance = 3e-3 if zeros == "offsets" and not words else 1e-6
            np.testing.assert_allclose(packed.dequantized(), weights_of(matrix), rtol=1e-6, atol=tolerance)


def test_four_bits_in_blocks_of_32_take_four_and_a_half():
    packed = pack([random_matrix(fresh_rng(), 128, 320)])
    assert packed.num_bytes * 8 == 4.5 * 128 * 320


def test_matrices_are_joined_side_by_side():
    rng = fresh_rng()
    for columns in ((48, 16, 16), (20, 7, 100)):
        matrices = [random_matrix(rng, count, 100, zeros="bytes") for count in columns]
        packed = pack(matrices)
        assert packed.columns == sum(columns)
        expected = np.concatenate([weights_of(matrix) for matrix in matrices])
        np.testing.assert_allclose(packed.dequantized(), expected, atol=1e-7)


def test_a_matrix_without_zero_points_joins_one_that_has_them():
    rng = fresh_rng()
    for kinds in (("middle", "bytes"), ("middle", "offsets"), ("bytes", "offsets")):
        matrices = [random_matrix(rng, 32, 64, zeros=kind, scales=np.float32) for kind in kinds]
        packed = pack(matrices, words=True)
        expected = np.concatenate([weights_of(matrix) for matrix in matrices])
        np.testing.assert_allclose(packed.dequantized(), expected, atol=1e-6)


def test_a_gate_and_what_it_gates_take_turns():
    rng = fresh_rng()
    for columns in (16, 80, 44):
        gate, up = (random_matrix(rng, columns, 70) for _ in range(2))
        packed = pack([gate, up], interleave=True)
        assert packed.product_arguments()["columns"] == columns
        expected = np.concatenate([weights_of(gate), weights_of(up)])
        np.testing.assert_allclose(packed.dequantized(), expected, atol=1e-7)


def test_zero_points_in_the_middle_cost_nothing():
    rng = fresh_rng()
    plain = random_matrix(rng, 32, 128)
    stated = dataclasses.replace(plain, zeros=np.full((32, 2), 0x88, np.uint8))
    assert pack([stated]).form.zeros == "middle"


def test_scales_are_float16_where_it_holds_them():
    rng = fresh_rng()
    matrix = random_matrix(rng, 32, 64, scales=np.float32)
    assert not pack([matrix]).form.exact
    assert pack([matrix], words=True).form.exact
    halves = dataclasses.replace(matrix, scales=matrix.scales.astype(np.float16).astype(np.float32))
    assert not pack([halves], words=True).form.exact
    for factor in (1e8, 1e-5):
        assert pack([dataclasses.replace(matrix, scales=matrix.scales * np.float32(factor))]).form.exact


def test_the_work_is_shared_and_what_comes_out_is_not_changed():
    matrix = random_matrix(fresh_rng(), 300, 64)
    assert (pack([matrix], threads=1).data == pack([matrix], threads=3).data).all()


@pytest.mark.parametrize(("bits", "block"), FORMATS)
def test_rows_are_columns_of_the_matrix(bits, block):
    rng = fresh_rng()
    for zeros in ("middle", "bytes", "offsets"):
        matrix = random_matrix(rng, 150, 90, bits, block, zeros)
        words = bool(rng.integers(2))
        packed = pack([matrix], words=words)
        ids = np.array([0, 149, 63, 64, -1, 150, 17, 17], np.int64)
        memory, y = padded_rows(len(ids), 90)
        table = StepTable()
        table.add(
            packed.rows(),
            parts=3,
            rows_word=2,
            ids_word=3,
            **packed.rows_arguments(),
            y=y.ctypes.data,
            y_stride=y.strides[0],
            multiplier=2.0,
        )
        run(table, len(ids), ids=ids)
        expected = 2 * packed.dequantized()[ids % 150]
        expected[4:6] = 0
        np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-6)
        assert np.isnan(memory[:, 90:]).all()


def test_unknown_bits_and_blocks_are_refused():
    matrix = random_matrix(fresh_rng(), 16, 64)
    with pytest.raises(KernelError, match="4 bits in blocks of 48; there are kernels for"):
        pack([dataclasses.replace(matrix, block=48)])
    with pytest.raises(KernelError, match="3 bits"):
        pack([dataclasses.replace(matrix, bits=3)])


def test_matrices_that_do_not_fit_are_refused():
    rng = fresh_rng()
    first, deeper = random_matrix(rng, 16, 64), random_matrix(rng, 16, 96)
    with pytest.raises(KernelError, match="cannot be joined"):
        pack([first, deeper])
    with pytest.raises(KernelError, match="as many columns; found"):
        pack([first, random_matrix(rng, 32, 64)], interleave=True)
    with pytest.raises(KernelError, match="have 512 bytes and 32 scales; found 512 and 16"):
        pack([dataclasses.replace(first, scales=first.scales[:, :1])])

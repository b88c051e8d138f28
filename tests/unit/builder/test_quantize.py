from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from matmul_nbits import assert_onnxruntime_agrees
from onnxgen.builder.packing import pack_codes, unpack_codes
from onnxgen.builder.quantize import BLOCK_SIZES, concat_rows, dequantize_blocks, quantize_blocks
from onnxgen.builder.weights import BlockQuantized
from onnxgen.errors import BuildError, OptionError

SIZES = [*BLOCK_SIZES]


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("block_size", SIZES)
@pytest.mark.parametrize("bits", [4, 8])
def test_onnxruntime_multiplies_with_the_same_values(bits, block_size, symmetric, rng):
    # Odd numbers of rows and blocks, the last block full and not.
    for columns in (3 * block_size, 2 * block_size + 7):
        weights = rng.standard_normal((19, columns)).astype(np.float32) + rng.uniform(-1, 1)
        blocks = quantize_blocks(weights, bits=bits, block_size=block_size, symmetric=symmetric)
        assert_onnxruntime_agrees(blocks, rng)


@pytest.mark.parametrize("block_size", SIZES)
def test_onnxruntime_takes_float_zero_points_with_4_bits(block_size, rng):
    blocks = quantize_blocks(
        rng.standard_normal((5, 3 * block_size)), bits=4, block_size=block_size, symmetric=True
    )
    zero_points = rng.uniform(-3, 18, blocks.scales.shape).astype(np.float32)
    shifted = BlockQuantized(4, block_size, blocks.in_features, blocks.codes, blocks.scales, zero_points)
    assert_onnxruntime_agrees(shifted, rng)


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(0, 5),
    columns=st.integers(1, 300),
    bits=st.sampled_from([4, 8]),
    block_size=st.sampled_from(SIZES),
    symmetric=st.booleans(),
    magnitude=st.sampled_from([1e-44, 1e-38, 1e-3, 1.0, 1e30]),
    seed=st.integers(0, 2**32 - 1),
)
def test_values_are_off_by_half_a_step_at_most(rows, columns, bits, block_size, symmetric, magnitude, seed):
    random = np.random.default_rng(seed)
    weights = (random.uniform(-1, 1, (rows, columns)) * magnitude).astype(np.float32)
    blocks = quantize_blocks(weights, bits=bits, block_size=block_size, symmetric=symmetric)
    steps = np.abs(np.repeat(blocks.scales, block_size, axis=1)[:, :columns]).astype(np.float64)
    error = np.abs(dequantize_blocks(blocks).astype(np.float64) - weights)
    # The side away from the exact extreme is clipped by up to one step; zero points round once more.
    assert (error <= steps * 1.01 + 1e-44).all()
    inner = np.abs(weights) <= steps * (2 ** (bits - 1) - 1)
    if symmetric:
        assert (error[inner] <= 0.51 * steps[inner] + 1e-44).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_magnitude_of_a_symmetric_block_is_exact(bits, rng):
    weights = rng.standard_normal((50, 64)).astype(np.float32)
    back = dequantize_blocks(quantize_blocks(weights, bits=bits, block_size=32, symmetric=True))
    largest = np.abs(weights).reshape(50, 2, 32).argmax(axis=-1)[..., None]
    expected = np.take_along_axis(weights.reshape(50, 2, 32), largest, axis=-1)
    assert np.array_equal(np.take_along_axis(back.reshape(50, 2, 32), largest, axis=-1), expected)


@pytest.mark.parametrize("symmetric", [True, False])
def test_zeros_stay_zeros(symmetric):
    weights = np.zeros((3, 40), np.float32)
    weights[1, 5:9] = [1.5, -0.25, 0.0, 3.0]
    back = dequantize_blocks(quantize_blocks(weights, bits=4, block_size=16, symmetric=symmetric))
    assert (back[weights == 0] == 0).all()
    assert back[1, 5] != 0 and back[1, 8] != 0


def test_positive_blocks_use_all_codes_of_the_asymmetric_form(rng):
    weights = rng.uniform(0, 1, (4, 256)).astype(np.float32)
    blocks = quantize_blocks(weights, bits=4, block_size=256, symmetric=False)
    codes = unpack_codes(blocks.codes, 4, 256)
    assert codes.min() == 0 and codes.max() == 15
    assert np.array_equal(unpack_codes(blocks.zero_points, 4, 1), np.zeros((4, 1), np.uint8))


@pytest.mark.parametrize("symmetric", [True, False])
def test_padding_sits_at_the_zero_point(symmetric, rng):
    blocks = quantize_blocks(rng.uniform(0.5, 1, (2, 20)) - 0.7, bits=4, block_size=16, symmetric=symmetric)
    padding = unpack_codes(blocks.codes, 4, 16)[:, 1, 4:]
    zero = 8 if symmetric else unpack_codes(blocks.zero_points, 4, 2)[:, 1:]
    assert (padding == zero).all()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_any_float_type_gives_what_its_float32_gives(dtype, rng):
    weights = rng.standard_normal((6, 33)).astype(dtype)
    a = quantize_blocks(weights, bits=4, block_size=32, symmetric=True)
    b = quantize_blocks(weights.astype(np.float32), bits=4, block_size=32, symmetric=True)
    assert np.array_equal(a.codes, b.codes) and np.array_equal(a.scales, b.scales)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_reported_with_its_row(bad, symmetric):
    weights = np.ones((5, 32), np.float32)
    weights[3, 7] = bad
    with pytest.raises(BuildError, match="row 3 of a matrix of 5 x 32"):
        quantize_blocks(weights, bits=8, block_size=32, symmetric=symmetric)


def test_unknown_bits_and_block_sizes_are_refused():
    weights = np.ones((1, 32), np.float32)
    with pytest.raises(OptionError, match="cannot quantize to 5 bits"):
        quantize_blocks(weights, bits=5, block_size=32, symmetric=True)
    with pytest.raises(OptionError, match="blocks of 48"):
        quantize_blocks(weights, bits=4, block_size=48, symmetric=True)


def test_rows_are_the_same_whatever_chunk_they_are_in(rng, monkeypatch):
    from onnxgen.builder import quantize

    weights = rng.standard_normal((37, 50)).astype(np.float32)
    whole = quantize_blocks(weights, bits=4, block_size=32, symmetric=False)
    monkeypatch.setattr(quantize, "_CHUNK_VALUES", 5 * 64)
    parts = quantize_blocks(weights, bits=4, block_size=32, symmetric=False)
    assert np.array_equal(whole.codes, parts.codes)
    assert np.array_equal(whole.scales, parts.scales)
    assert np.array_equal(whole.zero_points, parts.zero_points)
    assert np.array_equal(dequantize_blocks(whole), dequantize_blocks(parts))


def test_memory_beside_input_and_output_is_bounded():
    weights = np.ones((40_000, 1024), ml_dtypes.bfloat16)  # 160 MB as float32
    tracemalloc.start()
    try:
        blocks = quantize_blocks(weights, bits=8, block_size=32, symmetric=False)
        peak = tracemalloc.get_traced_memory()[1]
        kept = blocks.codes.nbytes + blocks.scales.nbytes + blocks.zero_points.nbytes
    finally:
        tracemalloc.stop()
    assert peak - kept < 64e6


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_packing_comes_back(bits, count, rng):
    codes = rng.integers(0, 2**bits, (3, count), np.uint8)
    packed = pack_codes(codes, bits)
    assert packed.shape == (3, -(-count * bits // 8))
    assert np.array_equal(unpack_codes(packed, bits, count), codes)


def test_the_even_column_is_in_the_low_nibble():
    assert pack_codes(np.array([[1, 2, 3]], np.uint8), 4).tolist() == [[0x21, 0x03]]


def part(rng, form, *, bits=4, block_size=32, columns=100, rows=3) -> BlockQuantized:
    weights = rng.standard_normal((rows, columns))
    blocks = quantize_blocks(weights, bits=bits, block_size=block_size, symmetric=form != "packed")
    if form != "float":
        return blocks
    zero_points = rng.uniform(0, 15, blocks.scales.shape).astype(np.float32)
    return BlockQuantized(bits, block_size, columns, blocks.codes, blocks.scales, zero_points)


@pytest.mark.parametrize("forms", [("mid", "mid"), ("packed", "mid"), ("float", "packed"), ("mid", "float")])
@pytest.mark.parametrize("sizes", [(32, 32), (16, 32), (128, 16)])
def test_stacked_rows_keep_every_value(forms, sizes, rng):
    # 100 columns: the larger block's padding would be whole blocks of the smaller size.
    parts = [part(rng, form, block_size=size) for form, size in zip(forms, sizes, strict=True)]
    stacked = concat_rows(parts)
    assert stacked is not None and stacked.block_size == min(sizes)
    assert stacked.scales.shape == (6, -(-100 // min(sizes)))
    expected = np.concatenate([dequantize_blocks(each) for each in parts])
    assert np.array_equal(dequantize_blocks(stacked), expected)
    assert_onnxruntime_agrees(stacked, rng)


def test_8_bit_rows_share_packed_zero_points(rng):
    parts = [part(rng, "mid", bits=8), part(rng, "packed", bits=8, block_size=64)]
    stacked = concat_rows(parts)
    assert np.array_equal(
        dequantize_blocks(stacked), np.concatenate([dequantize_blocks(each) for each in parts])
    )
    assert_onnxruntime_agrees(stacked, rng)


def test_rows_of_different_bits_are_not_stacked(rng):
    assert concat_rows([part(rng, "mid", bits=4), part(rng, "mid", bits=8)]) is None


def test_rows_of_different_widths_are_a_mistake(rng):
    with pytest.raises(ValueError, match=r"different widths: \[64, 100\]"):
        concat_rows([part(rng, "mid", columns=64), part(rng, "mid", columns=100)])
    with pytest.raises(ValueError, match="no matrices"):
        concat_rows([])

from __future__ import annotations

import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from onnxgen.builder.gguf.blocks import BLOCK_FORMATS, with_zero_points

EXACT = ["Q4_0", "Q5_0", "Q8_0", "Q6_K"]
SHIFTED = ["Q4_1", "Q4_K"]
# Where each type keeps its float16 numbers: (first byte, count).
HALVES = {"Q4_0": (0, 1), "Q4_1": (0, 2), "Q5_0": (0, 1), "Q8_0": (0, 1), "Q4_K": (0, 2), "Q6_K": (208, 1)}


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


def random_blocks(name: str, rng: np.random.Generator, count: int = 400) -> np.ndarray:
    """Random bytes with scales and minimums of either sign, some of them zero."""
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    raw = rng.integers(0, 256, (count, size), np.uint8)
    start, halves = HALVES[name]
    numbers = (rng.standard_normal((count, halves)) * 0.1).astype(np.float16)
    numbers[rng.random(numbers.shape) < 0.1] = 0
    raw[:, start : start + 2 * halves] = numbers.view(np.uint8)
    return raw


def expected_values(name: str, raw: np.ndarray) -> np.ndarray:
    return dequantize(raw, GGMLQuantizationType[name]).reshape(len(raw), -1)


@pytest.mark.parametrize("name", EXACT)
def test_symmetric_blocks_hold_the_very_same_values(name, rng):
    raw = random_blocks(name, rng)
    form = BLOCK_FORMATS[name]
    unpacked = form.unpack(raw)
    assert unpacked.minimums is None and not form.float_zero_points
    assert unpacked.codes.shape[1:] == (unpacked.scales.shape[1], form.block_size)
    middle = 1 << (form.bits - 1)
    values = (unpacked.codes.astype(np.float32) - middle) * unpacked.scales[..., None]
    assert np.array_equal(values.reshape(len(raw), -1), expected_values(name, raw))


@pytest.mark.parametrize("name", SHIFTED)
def test_blocks_with_minimums_hold_the_same_values_to_float32_rounding(name, rng):
    raw = random_blocks(name, rng)
    form = BLOCK_FORMATS[name]
    unpacked = form.unpack(raw)
    # The stored form first, which leaves no room for rounding.
    direct = unpacked.codes.astype(np.float32) * unpacked.scales[..., None] + unpacked.minimums[..., None]
    expected = expected_values(name, raw)
    assert np.array_equal(direct.reshape(len(raw), -1), expected)

    codes, scales, zero_points = with_zero_points(unpacked)
    assert codes.max() <= 15 and form.float_zero_points and form.bits == 4
    values = (codes.astype(np.float32) - zero_points[..., None]) * scales[..., None]
    largest = np.maximum(np.abs(unpacked.minimums), np.abs(unpacked.scales * 15 + unpacked.minimums))
    error = np.abs(values - expected.reshape(values.shape)).max(axis=-1)
    assert (error <= 4 * np.spacing(largest)).all()


@pytest.mark.parametrize("name", SHIFTED)
@pytest.mark.parametrize("minimum", [0.0, -0.3125, 0.0625])
def test_blocks_without_a_scale_are_their_minimum(name, minimum, rng):
    raw = random_blocks(name, rng, count=3)
    raw[:, 0:4] = np.array([0.0, minimum], np.float16).view(np.uint8)
    unpacked = BLOCK_FORMATS[name].unpack(raw)
    codes, scales, zero_points = with_zero_points(unpacked)
    values = (codes.astype(np.float32) - zero_points[..., None]) * scales[..., None]
    assert np.array_equal(values.reshape(3, -1), expected_values(name, raw))
    assert (codes == 0).all() and (zero_points == -1).all()
    assert np.array_equal(scales, unpacked.minimums)


@pytest.mark.parametrize("name", SHIFTED)
def test_no_scale_is_too_small_for_its_minimum(name, rng):
    raw = random_blocks(name, rng, count=8)
    raw[:, 0:4] = np.array([6e-8, -65504.0], np.float16).view(np.uint8)
    codes, scales, zero_points = with_zero_points(BLOCK_FORMATS[name].unpack(raw))
    values = (codes.astype(np.float32) - zero_points[..., None]) * scales[..., None]
    assert np.isfinite(values).all()
    assert np.allclose(values.reshape(8, -1), expected_values(name, raw), rtol=1e-6, atol=0)


def test_each_code_has_its_own_place(rng):
    """Distinct codes along a Q4_0 block: the first half is in the low nibbles, the second in the high ones."""
    codes = rng.permutation(np.arange(32) % 16).astype(np.uint8)
    raw = np.concatenate([np.array([1.0], np.float16).view(np.uint8), codes[:16] | (codes[16:] << 4)])[None]
    assert np.array_equal(BLOCK_FORMATS["Q4_0"].unpack(raw).codes[0, 0], codes)

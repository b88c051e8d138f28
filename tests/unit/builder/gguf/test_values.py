from __future__ import annotations

import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from gguf_by_hand import RawTensor, floats, quantized, write_gguf
from matmul_nbits import assert_onnxruntime_agrees
from onnxgen.builder import quantize
from onnxgen.builder.gguf import values
from onnxgen.builder.gguf.reader import read_gguf
from onnxgen.builder.quantize import dequantize_blocks
from onnxgen.errors import CheckpointError

CARRIED = ["Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q6_K", "Q8_0"]
NOT_CARRIED = ["Q5_1", "Q5_K", "Q2_K", "Q3_K", "IQ4_XS"]
HALVES = {
    "Q4_0": (0, 1), "Q4_1": (0, 2), "Q5_0": (0, 1), "Q5_1": (0, 2), "Q8_0": (0, 1), "Q4_K": (0, 2), "Q5_K": (0, 2),
    "Q6_K": (208, 1), "Q2_K": (80, 2), "Q3_K": (108, 1), "IQ4_XS": (0, 1),
}  # fmt: skip


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


def random_tensor(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> RawTensor:
    kind = GGMLQuantizationType[name]
    block, size = GGML_QUANT_SIZES[kind]
    raw = rng.integers(0, 256, (int(np.prod(shape)) // block, size), np.uint8)
    start, count = HALVES[name]
    numbers = rng.standard_normal((len(raw), count)).astype(np.float16)
    raw[:, start : start + 2 * count] = numbers.view(np.uint8)
    return RawTensor(shape, int(kind), raw.tobytes())


def expected(tensor: RawTensor) -> np.ndarray:
    raw = np.frombuffer(tensor.data, np.uint8).reshape(tensor.shape[0], -1)
    return dequantize(raw, GGMLQuantizationType(tensor.kind)).reshape(tensor.shape)


def open_tensor(tmp_path, tensor: RawTensor):
    file = read_gguf(write_gguf(tmp_path / "a.gguf", {}, {"before": floats([1.0]), "t": tensor}))
    return file, file.tensors["t"]


@pytest.mark.parametrize("chunk_values", [1, 3 * 512, 1 << 21])
@pytest.mark.parametrize("name", [*CARRIED, *NOT_CARRIED])
def test_blocks_become_the_values_they_stand_for(tmp_path, name, chunk_values, rng, monkeypatch):
    monkeypatch.setattr(quantize, "_CHUNK_VALUES", chunk_values)
    tensor = random_tensor(name, (7, 512), rng)
    file, line = open_tensor(tmp_path, tensor)
    loaded = values.load_values(file, line)
    assert loaded.dtype == np.float32
    assert np.array_equal(loaded, expected(tensor))


@pytest.mark.parametrize("chunk_values", [1, 3 * 512, 1 << 21])
@pytest.mark.parametrize("name", CARRIED)
def test_blocks_are_carried_over(tmp_path, name, chunk_values, rng, monkeypatch):
    monkeypatch.setattr(quantize, "_CHUNK_VALUES", chunk_values)
    tensor = random_tensor(name, (7, 512), rng)
    file, line = open_tensor(tmp_path, tensor)
    blocks = values.load_blocks(file, line)
    assert blocks is not None and blocks.in_features == 512
    assert blocks.codes.shape == (7, 512 // blocks.block_size, blocks.block_size * blocks.bits // 8)
    assert blocks.scales.shape == blocks.codes.shape[:2]
    if blocks.zero_points is not None:
        assert blocks.zero_points.dtype == np.float32 and blocks.zero_points.shape == blocks.scales.shape
    want = expected(tensor)
    atol = 0 if blocks.zero_points is None else 1e-6 * np.abs(want).max()
    assert np.allclose(dequantize_blocks(blocks), want, rtol=0, atol=atol)


@pytest.mark.parametrize("name", CARRIED)
def test_onnxruntime_multiplies_with_what_was_carried_over(tmp_path, name, rng):
    tensor = random_tensor(name, (7, 512), rng)
    file, line = open_tensor(tmp_path, tensor)
    blocks = values.load_blocks(file, line)
    assert blocks is not None
    assert_onnxruntime_agrees(blocks, rng)


@pytest.mark.parametrize("name", [*CARRIED, "Q5_K"])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_blocks_of_no_numbers_are_refused(tmp_path, name, bad, rng):
    tensor = random_tensor(name, (2, 512), rng)
    raw = np.frombuffer(tensor.data, np.uint8).copy()
    at = len(raw) // 2 + HALVES[name][0]
    raw[at : at + 2] = np.array([bad], np.float16).view(np.uint8)
    file, line = open_tensor(tmp_path, RawTensor(tensor.shape, tensor.kind, raw.tobytes()))
    with pytest.raises(CheckpointError, match=rf"blocks of tensor 't' \({name}\) are scaled by what is not"):
        values.load_values(file, line)
    if name in CARRIED:
        with pytest.raises(CheckpointError, match="are scaled by what is not"):
            values.load_blocks(file, line)


@pytest.mark.parametrize("name", NOT_CARRIED)
def test_blocks_that_no_target_holds_exactly_are_not_carried_over(tmp_path, name, rng):
    file, line = open_tensor(tmp_path, random_tensor(name, (2, 512), rng))
    assert values.load_blocks(file, line) is None


@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_what_the_library_quantized_is_near_the_original(tmp_path, name, rng):
    original = rng.standard_normal((5, 96)).astype(np.float32)
    file, line = open_tensor(tmp_path, quantized(original, name))
    step = {"4": 8, "5": 16, "8": 127}[name[1]]
    bound = 1.1 * np.abs(original).max() / step
    assert np.abs(values.load_values(file, line) - original).max() < bound
    blocks = values.load_blocks(file, line)
    assert (blocks is None) == (name == "Q5_1")
    if blocks:
        assert np.abs(dequantize_blocks(blocks) - original).max() < bound


@pytest.mark.parametrize(("number", "dtype"), [(0, np.float32), (1, np.float16), (30, ml_dtypes.bfloat16)])
@pytest.mark.parametrize("shape", [(), (5,), (3, 7), (2, 3, 4)])
def test_floats_are_left_as_they_are(tmp_path, number, dtype, shape, rng):
    original = rng.standard_normal(shape).astype(dtype)
    file, line = open_tensor(tmp_path, RawTensor(shape, number, original.tobytes()))
    loaded = values.load_values(file, line)
    assert loaded.dtype == dtype and loaded.shape == shape
    assert np.array_equal(loaded, original)
    assert values.load_blocks(file, line) is None


def test_rows_come_in_the_order_asked_for(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(quantize, "_CHUNK_VALUES", 3 * 64)
    order = rng.permutation(10)
    original = rng.standard_normal((10, 64)).astype(np.float32)
    file, line = open_tensor(tmp_path, quantized(original, "Q4_1"))
    plain, moved = values.load_values(file, line), values.load_values(file, line, order)
    assert np.array_equal(moved, plain[order])
    blocks, moved_blocks = values.load_blocks(file, line), values.load_blocks(file, line, order)
    assert np.array_equal(moved_blocks.codes, blocks.codes[order])
    assert np.array_equal(moved_blocks.scales, blocks.scales[order])
    assert np.array_equal(moved_blocks.zero_points, blocks.zero_points[order])
    vector = rng.standard_normal(10)
    file, line = open_tensor(tmp_path, floats(vector))
    assert np.array_equal(values.load_values(file, line, order), vector.astype(np.float32)[order])


@pytest.mark.parametrize(("number", "name"), [(99, "unknown type 99"), (15, "Q8_K"), (26, "I32")])
def test_types_that_cannot_be_read_are_named_with_those_that_can(tmp_path, number, name):
    size = {15: 292}.get(number, 4)
    shape = (256,) if number == 15 else (1,)
    file, line = open_tensor(tmp_path, RawTensor(shape, number, bytes(size)))
    with pytest.raises(CheckpointError, match=rf"'t' is stored as {name}, .* known types are F32, .*Q4_K"):
        values.load_values(file, line)
    assert values.load_blocks(file, line) is None


@pytest.mark.parametrize("load", [values.load_values, values.load_blocks])
def test_memory_beside_the_result_is_bounded(tmp_path, load):
    rows = 80_000  # 41 million values: 160 MB as float32
    data = np.tile(np.array([0, 60] + [0x77] * 16, np.uint8), rows * 16).tobytes()
    file, line = open_tensor(tmp_path, RawTensor((rows, 512), 2, data))
    del data
    tracemalloc.start()
    try:
        loaded = load(file, line)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    kept = loaded.nbytes if isinstance(loaded, np.ndarray) else loaded.codes.nbytes + loaded.scales.nbytes
    assert peak - kept < 64e6

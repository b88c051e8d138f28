from __future__ import annotations

import numpy as np
import pytest

from gguf_by_hand import RawTensor, Typed, floats, quantized, tiny_decoder, write_gguf
from onnxgen.builder.quantize import dequantize_blocks
from onnxgen.builder.sources.gguf_source import GgufSource
from onnxgen.errors import CheckpointError, UnsupportedArchitectureError


@pytest.fixture
def rng():
    seed = np.random.SeedSequence().entropy
    print("seed", seed)
    return np.random.default_rng(seed)


def values(tensor: RawTensor) -> np.ndarray:
    return np.frombuffer(tensor.data, np.float32).reshape(tensor.shape)


def interleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """What llama.cpp's converter does to the rows of queries and keys."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def test_llama_rows_come_back_in_hugging_faces_order(tmp_path, rng):
    metadata, tensors = tiny_decoder("llama", rng)
    q, k = rng.standard_normal((64, 64)), rng.standard_normal((32, 64))
    bias = rng.standard_normal(64)
    tensors |= {
        "blk.0.attn_q.weight": floats(interleave(q, 4)),
        "blk.0.attn_k.weight": quantized(interleave(k, 2), "Q4_0"),
        "blk.0.attn_q.bias": floats(interleave(bias, 4)),
    }
    source = GgufSource(write_gguf(tmp_path / "a.gguf", metadata, tensors))
    assert np.array_equal(source.load("model.layers.0.self_attn.q_proj.weight"), np.float32(q))
    assert np.array_equal(source.load("model.layers.0.self_attn.q_proj.bias"), np.float32(bias))
    loaded = source.load("model.layers.0.self_attn.k_proj.weight")
    assert np.abs(loaded - k).max() < 0.13 * np.abs(k).max()
    blocks = source.load_blocks("model.layers.0.self_attn.k_proj.weight")
    assert np.array_equal(dequantize_blocks(blocks), loaded)
    v = "model.layers.0.self_attn.v_proj.weight"
    assert np.array_equal(source.load(v), values(tensors["blk.0.attn_v.weight"]))


def test_gemma3_norms_lose_the_one_that_was_added(tmp_path, rng):
    metadata, tensors = tiny_decoder("gemma3", rng)
    source = GgufSource(write_gguf(tmp_path / "a.gguf", metadata, tensors))
    for name in ("model.norm.weight", "model.layers.0.self_attn.q_norm.weight"):
        stored = {"model.norm.weight": "output_norm.weight"}.get(name, "blk.0.attn_q_norm.weight")
        assert np.array_equal(source.load(name), values(tensors[stored]) - np.float32(1))
    # A norm is no matrix, and no offset is hidden in blocks.
    assert source.load_blocks("model.norm.weight") is None
    q = "model.layers.0.self_attn.q_proj.weight"
    assert np.array_equal(source.load(q), values(tensors["blk.0.attn_q.weight"]))


def test_what_a_source_says_of_its_tensors(tmp_path, rng):
    metadata, tensors = tiny_decoder("llama", rng)
    tensors |= {"token_embd.weight": quantized(rng.standard_normal((50, 64)), "Q8_0")}
    tensors |= {"output.weight": RawTensor((50, 64), 99, bytes(64))}
    path = write_gguf(tmp_path / "a b é.gguf", metadata, tensors)
    source = GgufSource(path)
    assert source.path == path
    assert source.config["vocab_size"] == 50 and source.metadata["llama.block_count"] == 1
    assert source.shape("model.embed_tokens.weight") == (50, 64)
    assert source.stored_type("model.embed_tokens.weight") == "Q8_0"
    assert source.stored_type("model.norm.weight") == "F32"
    assert source.stored_type("lm_head.weight") == "unknown type 99"
    assert len(source.names) == len(tensors)
    with pytest.raises(CheckpointError, match=r"'output.weight' is stored as unknown type 99"):
        source.load("lm_head.weight")
    source.close()
    source.close()


@pytest.mark.parametrize("method", ["load", "load_blocks", "shape", "stored_type"])
def test_a_missing_tensor_is_said_with_a_near_one(tmp_path, rng, method):
    source = GgufSource(write_gguf(tmp_path / "a.gguf", *tiny_decoder("llama", rng)))
    with pytest.raises(
        CheckpointError, match=r"no tensor 'model.norm' among \d+; did you mean 'model.norm.weight'"
    ):
        getattr(source, method)("model.norm")


def test_a_part_of_a_split_model_is_refused(tmp_path, rng):
    metadata, tensors = tiny_decoder("llama", rng)
    parts = {"split.count": Typed(2, 3), "split.no": Typed(2, 1)}
    path = write_gguf(tmp_path / "m-00002-of-00003.gguf", metadata | parts, tensors)
    with pytest.raises(CheckpointError, match="is part 2 of 3 of a split GGUF; join"):
        GgufSource(path)
    path = write_gguf(tmp_path / "m.gguf", metadata | {"split.count": Typed(2, 1)}, tensors)
    assert "model.norm.weight" in GgufSource(path).names


def test_rows_that_are_no_whole_heads_are_refused(tmp_path, rng):
    metadata, tensors = tiny_decoder("llama", rng)
    tensors["blk.0.attn_q.weight"] = floats(np.ones((60, 64)))
    with pytest.raises(CheckpointError, match=r"q_proj.weight has shape \[60, 64\], .* 4 heads"):
        GgufSource(write_gguf(tmp_path / "a.gguf", metadata, tensors))


def test_an_unknown_architecture_is_refused(tmp_path):
    path = write_gguf(tmp_path / "a.gguf", {"general.architecture": "mamba"}, {"t": floats([1.0])})
    with pytest.raises(UnsupportedArchitectureError, match="'mamba' is not supported"):
        GgufSource(path)


def test_changed_bytes_are_read_or_refused_and_nothing_else(tmp_path, rng):
    """Whatever is in a file, opening and reading it ends in values or in a `CheckpointError`."""
    metadata, tensors = tiny_decoder(rng.choice(["llama", "phi3", "gemma3"]), rng, hidden=32, vocab=8)
    tensors["rope_freqs.weight"] = floats(np.ones(4))
    tensors["blk.0.ffn_down.weight"] = quantized(rng.standard_normal((32, 96)), "Q4_1")
    path = write_gguf(tmp_path / "a.gguf", metadata, tensors)
    raw = path.read_bytes()
    head = raw.rindex(b"rope_freqs.weight") + 100
    outcomes = set()
    for _ in range(1500):
        content = bytearray(raw)
        for at in rng.integers(0, head, rng.integers(1, 4)):
            content[at] = rng.choice([0, 1, 0x7F, 0xFF, content[at] ^ 1, content[at] ^ 0x80])
        path.write_bytes(content)
        try:
            source = GgufSource(path)
            for name in source.names:
                source.load(name)
                source.load_blocks(name)
            outcomes.add("read")
        except CheckpointError as error:
            assert "a.gguf" in str(error)
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}

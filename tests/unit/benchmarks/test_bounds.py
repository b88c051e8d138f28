import onnx
import pytest
from benchmarks.peers.bounds import Bounds, Machine

import tiny_model_folder
import tiny_tokenizer
from tiny_decoders import Sizes, Style, TinyDecoder, write_graph


def test_prompts_are_bound_by_arithmetic_and_decode_steps_by_memory(tmp_path):
    folder = tiny_model_folder.write_model_folder(tmp_path / "tiny")
    sizes = Sizes(vocab=tiny_tokenizer.VOCAB_SIZE)
    onnx.save(write_graph(TinyDecoder(sizes, seed=1), Style()), folder / "model.onnx")
    bounds = Bounds(Machine(1e9, 1e9, 1e8), folder)
    layer = 32 * (64 + 32 + 32) + 64 * 32 + 3 * 32 * 48
    weights = 2 * layer + 32 * sizes.vocab
    assert bounds.rate(1, 1, 0) == pytest.approx(1e9 / (4 * weights))
    matrices_s = 2 * (100 * 2 * layer + 32 * sizes.vocab) / 1e9
    attention_s = 2 * 100**2 * (2 * 4 * 8) / 1e8  # heads and their size are those of the metadata
    assert bounds.rate(100, 1, 100) == pytest.approx(100 / (matrices_s + attention_s))

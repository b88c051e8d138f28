from __future__ import annotations

import math

import numpy as np
import pytest

from gguf_by_hand import floats, tiny_decoder, write_gguf
from onnxgen.builder.gguf.config_map import read_config
from onnxgen.builder.gguf.reader import read_gguf
from onnxgen.errors import CheckpointError


@pytest.fixture
def config(tmp_path):
    def read(architecture, changes, tensors=None):
        metadata, weights = tiny_decoder(architecture, np.random.default_rng(0))
        metadata |= {f"{architecture}.{key}": value for key, value in changes.items()}
        path = write_gguf(tmp_path / "a.gguf", metadata, weights | (tensors or {}))
        return read_config(read_gguf(path))

    return read


def llama3_factors(theta: float, dim: int, factor: float, low=1.0, high=4.0, context=8192) -> list[float]:
    """The numbers a converter stores, wave by wave."""
    factors = []
    for index in range(0, dim, 2):
        wavelength = 2 * math.pi * theta ** (index / dim)
        if wavelength < context / high:
            factors.append(1.0)
        elif wavelength > context / low:
            factors.append(factor)
        else:
            smooth = (context / wavelength - low) / (high - low)
            factors.append(1 / ((1 - smooth) / factor + smooth))
    return factors


def test_no_scaling_is_no_key(config):
    assert "rope_scaling" not in config("llama", {})
    assert "rope_scaling" not in config("llama", {"rope.scaling.type": "none", "rope.scaling.factor": 2.0})
    assert "rope_scaling" not in config("llama", {"rope.scaling.type": "linear"})


@pytest.mark.parametrize(
    "changes",
    [
        {"rope.scaling.type": "linear", "rope.scaling.factor": 8.0},
        {"rope.scaling.factor": 8.0},
        {"rope.scale_linear": 8.0},
    ],
)
def test_linear_scaling_under_all_its_names(config, changes):
    assert config("gemma3", changes)["rope_scaling"] == {"rope_type": "linear", "factor": 8.0}


def test_yarn_scaling(config):
    changes = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 32,
        "rope.scaling.yarn_beta_fast": 16.0,
    }
    expected = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0}
    assert config("qwen2", changes)["rope_scaling"] == expected
    scaled = config("qwen2", changes | {"rope.scaling.attn_factor": 0.5})["rope_scaling"]
    assert scaled["attention_factor"] == pytest.approx(0.5 * (0.1 * math.log(4) + 1))
    with pytest.raises(CheckpointError, match=r"'qwen2.rope.scaling.factor' is missing"):
        config("qwen2", {"rope.scaling.type": "yarn"})


def test_an_unknown_type_is_named(config):
    with pytest.raises(CheckpointError, match="rope scaling type 'spiral' is not known"):
        config("llama", {"rope.scaling.type": "spiral"})


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama3_is_recognised_by_its_factors(config, factor):
    changes = {"attention.key_length": 64, "attention.value_length": 64, "rope.freq_base": 500000.0}
    factors = floats(llama3_factors(500000.0, 64, factor))
    assert config("llama", changes, {"rope_freqs.weight": factors})["rope_scaling"] == {
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }


@pytest.mark.parametrize(
    "factors", [[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], [1.0] * 8, llama3_factors(1e4, 16, 8.0, context=64)]
)
def test_other_factors_stay_a_tensor(tmp_path, config, factors):
    from onnxgen.builder.sources import open_source

    assert "rope_scaling" not in config("llama", {}, {"rope_freqs.weight": floats(factors)})
    source = open_source(tmp_path / "a.gguf")
    assert source.load("rope_freqs.weight").tolist() == np.float32(factors).tolist()


def test_longrope_factors_are_read_from_their_tensors(config):
    short, long = [1.0, 1.1, 1.25, 1.5], [1.0, 2.5, 10.0, 40.125]
    read = config(
        "phi3",
        {
            "rope.dimension_count": 8,
            "rope.scaling.original_context_length": 32,
            "rope.scaling.attn_factor": 1.1902381,
        },
        {"rope_factors_short.weight": floats(short), "rope_factors_long.weight": floats(long)},
    )
    assert read["rope_scaling"] == {
        "rope_type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "attention_factor": 1.1902381,
    }
    assert read["original_max_position_embeddings"] == 32
    assert read["partial_rotary_factor"] == 0.5


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_factors_that_are_no_positive_numbers_are_refused(config, bad):
    with pytest.raises(CheckpointError, match=r"'rope_freqs.weight' has factors that are not positive"):
        config("llama", {}, {"rope_freqs.weight": floats([1.0, bad] * 4)})


def test_half_of_the_longrope_factors_is_refused(config):
    with pytest.raises(CheckpointError, match=r"'rope_factors_long.weight' is missing"):
        config("phi3", {}, {"rope_factors_short.weight": floats([1.0])})


@pytest.mark.parametrize("head_dim", range(2, 130, 2))
def test_partial_rotation_comes_back_as_whole_dimensions(head_dim):
    from onnxgen.builder.gguf.rope import _fraction

    for part in range(2, head_dim, 2):
        assert int(head_dim * _fraction(part, head_dim)) == part

"""Values of inputs that only the caller knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnxgen.errors import CapabilityError, OnnxgenError, OptionError, StateError, StepError
from onnxgen.facade.embedder import Embedder
from onnxgen.facade.generator import Generator
from onnxgen.facade.llm import LLM
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import Sizes, Style, TinyDecoder
from tiny_graph_folder import write_graph_folder
from tiny_tokenizer import write_tokenizer

SIZES = Sizes()


def take_two(model: onnx.ModelProto) -> None:
    """Logits times a scalar, plus a bias of the vocabulary."""
    graph = model.graph
    next(node for node in graph.node if node.output[0] == "logits").output[0] = "plain_logits"
    graph.input.append(helper.make_tensor_value_info("volume", TensorProto.FLOAT16, []))
    graph.input.append(helper.make_tensor_value_info("bias", TensorProto.FLOAT, [SIZES.vocab]))
    graph.node.append(helper.make_node("Cast", ["volume"], ["volume_32"], to=TensorProto.FLOAT))
    graph.node.append(helper.make_node("Mul", ["plain_logits", "volume_32"], ["louder"]))
    graph.node.append(helper.make_node("Add", ["louder", "bias"], ["logits"]))


@pytest.fixture(params=[Style(), Style("plain")], ids=["gqa", "plain"])
def world(request: Any, tmp_path: Path) -> tuple[Model, TinyDecoder]:
    decoder = TinyDecoder(SIZES, 7)
    path = write_graph_folder(tmp_path / "model", decoder, request.param, edit=take_two)
    return Model(path, runtime=RuntimeConfig(threads=1, cache_dir=tmp_path / "cache")), decoder


def generator(model: Model, **search: Any) -> Generator:
    params = GeneratorParams(model)
    params.set_search_options(max_length=20, **search)
    return Generator(model, params)


def test_each_generator_has_values_of_its_own(world: tuple[Model, TinyDecoder]) -> None:
    model, decoder = world
    prompt = [5, 6, 7]
    bias = np.random.default_rng(1).normal(size=SIZES.vocab).astype(np.float32)
    generators = [(generator(model), volume) for volume in (0.5, 3.0)]
    for g, volume in generators:
        g.set_model_input("bias", bias)
        g.set_model_input("volume", np.float16(volume * 2))
        g.set_model_input("volume", np.float16(volume))
        g.append_tokens(prompt)
    for _ in range(3):
        for g, volume in generators:
            want = decoder.logits(g.get_sequence(0).tolist())[-1] * volume + bias
            assert np.allclose(g.get_logits()[0, 0], want, atol=2e-3)
            assert np.allclose(g.get_output("logits")[0, -1], want, atol=2e-3)
            g.generate_next_token()
    caches = [g.get_output("present.0.key") for g, _ in generators]
    assert caches[0].shape == (1, SIZES.kv_heads, 5, SIZES.head_dim)
    assert len(model.backend.adapters) == 2
    for g, _ in generators:
        g.close()
    assert not len(model.backend.adapters)


def test_what_is_wrong_with_a_value_is_said(world: tuple[Model, TinyDecoder]) -> None:
    model, _ = world
    g = generator(model)
    with pytest.raises(StepError, match="missing input 'volume'"):
        g.append_tokens([5])
    with pytest.raises(
        CapabilityError, match=r"'valume' cannot be set; .* bias, volume; did you mean 'volume'"
    ):
        g.set_model_input("valume", 1.0)
    with pytest.raises(CapabilityError, match="'hidden_states' cannot be set"):
        g.set_hidden_states(np.zeros((1, 1, 32)))
    g.set_model_input("volume", 2.0)
    with pytest.raises(OptionError, match="no value for the input 'bias'"):
        g.append_tokens([5])
    g.set_model_input("bias", np.zeros(SIZES.vocab + 1))
    with pytest.raises(OptionError, match=r"bias is \[62\], expected \[61\]"):
        g.append_tokens([5])
    assert g.token_count() == 0
    g.set_model_input("bias", np.zeros(SIZES.vocab))
    g.append_tokens([5])
    with pytest.raises(StateError, match="before the first ones"):
        g.set_model_input("bias", np.zeros(SIZES.vocab))
    g.rewind_to(0)
    g.set_model_input("bias", np.ones(SIZES.vocab))
    g.append_tokens([5])
    with pytest.raises(CapabilityError, match=r"the graph has present\.0\.key, .*logits"):
        g.get_output("presents")


def test_values_are_dropped_with_the_model(world: tuple[Model, TinyDecoder]) -> None:
    model, _ = world
    g = generator(model)
    g.set_model_input("volume", 2.0)
    g.set_model_input("bias", np.zeros(SIZES.vocab))
    g.append_tokens([5])
    model.close()
    g.generate_next_token()  # its logits are there
    with pytest.raises(OnnxgenError):
        g.generate_next_token()
    g.close()


def test_only_generators_run_such_models(world: tuple[Model, TinyDecoder], tmp_path: Path) -> None:
    folder = world[0].spec.folder
    write_tokenizer(folder)
    config = RuntimeConfig(threads=1, cache_dir=tmp_path / "cache")
    for take in (LLM, Embedder):
        with pytest.raises(
            CapabilityError, match="inputs that nobody here knows: bias, volume; only a Generator"
        ):
            take(folder, config=config)

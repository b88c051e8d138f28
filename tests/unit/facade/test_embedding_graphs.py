"""Decoders that read embeddings which another graph makes of ids."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from onnxgen.errors import CapabilityError, ConfigError, ModelFileError
from onnxgen.facade.generator import Generator
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams
from onnxgen.foundations.runtime_config import RuntimeConfig
from split_embedding import write_split_folder
from tiny_decoders import INT32, Sizes, Style, TinyDecoder

STYLES = {"gqa": Style(), "ids of 32 bits": Style(ids=INT32), "plain": Style("plain")}


def open_generator(path: Path, *, backend: str = "auto", **search: int) -> Generator:
    runtime = RuntimeConfig(backend=backend, threads=1, cache_dir=path.parent / "cache")
    model = Model(path, runtime=runtime)
    params = GeneratorParams(model)
    params.set_search_options(max_length=30, **search)
    return Generator(model, params)


@pytest.mark.parametrize("keeps_ids", [False, True])
@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@pytest.mark.parametrize("kept", [False, True], ids=["first start", "second start"])
def test_text_goes_through_both_graphs(tmp_path: Path, style: Style, keeps_ids: bool, kept: bool) -> None:
    decoder = TinyDecoder(Sizes(), 11)
    path = write_split_folder(tmp_path / "model", decoder, style, keeps_ids=keeps_ids)
    if kept:
        open_generator(path)
    g = open_generator(path, batch_size=2)
    g.append_tokens([[5, 6, 7], [8, 9, 10]])
    for _ in range(4):
        for row in range(2):
            want = decoder.logits(g.get_sequence(row).tolist())[-1]
            assert np.allclose(g.get_logits()[row, 0], want, atol=1e-3)
        g.generate_next_token()
    assert g.get_output("present.0.key").shape[2] == 6
    g.rewind_to(0)
    embeds = decoder.weights["embed"][np.array([[5, 6, 7], [8, 9, 10]])]
    g.set_inputs({"inputs_embeds": embeds})
    assert np.allclose(g.get_logits()[1, 0], decoder.logits([8, 9, 10])[-1], atol=1e-3)
    assert np.allclose(g._model.token_embeddings([8, 9]), decoder.weights["embed"][[8, 9]])


def test_the_native_backend_says_that_it_runs_one_graph(tmp_path: Path) -> None:
    path = write_split_folder(tmp_path / "model", TinyDecoder(Sizes(), 11), Style())
    with pytest.raises(ConfigError, match=r"a graph of their own \(embedding.onnx\)"):
        open_generator(path, backend="native")


def test_a_decoder_of_embeddings_alone_is_refused(tmp_path: Path) -> None:
    path = write_split_folder(tmp_path / "model", TinyDecoder(Sizes(), 11), Style())
    document = json.loads((path / "genai_config.json").read_text())
    del document["model"]["embedding"]
    (path / "genai_config.json").write_text(json.dumps(document))
    with pytest.raises(CapabilityError, match="'embedding' section"):
        open_generator(path)


def test_graphs_that_do_not_fit_say_so(tmp_path: Path) -> None:
    path = write_split_folder(tmp_path / "model", TinyDecoder(Sizes(), 11), Style())
    text = (path / "genai_config.json").read_text()
    document = json.loads(text)
    document["model"]["embedding"]["outputs"] = {"inputs_embeds": "embeds"}
    (path / "genai_config.json").write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="it should have 'input_ids' and \\['embeds'\\]"):
        open_generator(path)
    (path / "genai_config.json").write_text(text)
    (path / "embedding.onnx").unlink()
    with pytest.raises(ModelFileError, match=r"embedding\.onnx"):
        open_generator(path)

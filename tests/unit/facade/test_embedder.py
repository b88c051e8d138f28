"""`Embedder` over tiny encoders and a scripted decoder."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_tokenizer
from onnxgen import Embedder
from onnxgen.errors import (
    CapabilityError,
    ConfigError,
    ContextLengthError,
    ModelFileError,
    OptionError,
    StateError,
    TokenIdError,
)
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_encoders import TABLE, write_encoder
from tiny_model_folder import CONTEXT, fake_backend, write_model_folder

TEXTS = ["hello there", "x", "some longer text than the others, with more tokens in it"]


def ids_of(embedder: Embedder, text: str) -> list[int]:
    return embedder._source.tokenizer.encode(text, add_special_tokens=True)


def open_encoder(folder: Path, *, runs_on: str = "auto", **options: Any) -> Embedder:
    return Embedder(folder, config=RuntimeConfig(cache_dir=folder / "cache", backend=runs_on), **options)


@pytest.mark.parametrize("runs_on", ["auto", "native", "ort"])
@pytest.mark.parametrize("pooling", ["auto", "mean", "last", "cls"])
def test_states_are_pooled_over_the_tokens_alone(tmp_path: Path, pooling: str, runs_on: str) -> None:
    embedder = open_encoder(write_encoder(tmp_path), pooling=pooling, normalize=False, runs_on=runs_on)
    found = embedder.embed(TEXTS)
    for row, text in zip(found, TEXTS, strict=True):
        states = TABLE[ids_of(embedder, text)]
        want = {"last": states[-1], "cls": states[0]}.get(pooling, states.mean(axis=0))
        assert np.allclose(row, want, atol=1e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"word_embedding_dimension": 6}, "mean"),
        (None, "mean"),
    ],
)
def test_the_folder_says_how_to_pool(tmp_path: Path, config: dict[str, Any] | None, expected: str) -> None:
    write_encoder(tmp_path, where="onnx")
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    if config is not None:
        (tmp_path / "1_Pooling").mkdir()
        (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(config))
    assert open_encoder(tmp_path).pooling == expected
    assert open_encoder(tmp_path, pooling="last").pooling == "last"


def test_a_pooling_that_there_is_not_is_refused(tmp_path: Path) -> None:
    write_encoder(tmp_path)
    with pytest.raises(OptionError, match=r"pooling is 'meen'.*did you mean"):
        open_encoder(tmp_path, pooling="meen")
    (tmp_path / "modules.json").write_text('[{"type": "x.Pooling", "path": ""}]')
    (tmp_path / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(ModelFileError, match="pooling_mode_max_tokens"):
        open_encoder(tmp_path)


@pytest.mark.parametrize("runs_on", ["native", "ort"])
def test_a_graph_that_pools_is_taken_as_it_is(tmp_path: Path, runs_on: str) -> None:
    embedder = open_encoder(write_encoder(tmp_path, pooled=True), normalize=False, runs_on=runs_on)
    assert embedder.pooling is None
    want = [TABLE[ids_of(embedder, text)[0]] for text in TEXTS]
    assert np.array_equal(embedder.embed(TEXTS), want)
    with pytest.raises(OptionError, match="pools by itself"):
        open_encoder(tmp_path, pooling="mean")


def test_vectors_have_length_one_and_are_cut_to_dimensions(tmp_path: Path) -> None:
    embedder = open_encoder(write_encoder(tmp_path))
    whole, cut = embedder.embed(TEXTS), embedder.embed(TEXTS, dimensions=4)
    assert np.allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    assert cut.shape == (3, 4)
    assert np.allclose(cut, whole[:, :4] / np.linalg.norm(whole[:, :4], axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(OptionError, match="dimensions is 7; this model's vectors have 6"):
        embedder.embed("x", dimensions=7)
    for wrong in (0, -1, True, "5", 1.5):
        with pytest.raises(OptionError, match=r"^dimensions must be"):
            embedder.embed("x", dimensions=wrong)  # type: ignore[arg-type]


def test_what_is_too_long_is_an_error_or_cut_when_asked(tmp_path: Path) -> None:
    embedder = open_encoder(write_encoder(tmp_path), max_length=5, normalize=False)
    with pytest.raises(ContextLengthError, match=r"text 0 has 6 tokens, 5 fit"):
        embedder.embed(TEXTS, truncate=False)
    found = embedder.embed_counted(TEXTS, truncate=True)
    assert found.truncated == (True, False, True)
    assert found.num_tokens[2] == 5
    kept = ids_of(embedder, TEXTS[2])[:5]
    assert np.allclose(found.vectors[2], TABLE[kept].mean(axis=0), atol=1e-6)
    assert found.total_tokens == sum(found.num_tokens)


def test_token_ids_become_the_vector_of_their_text(tmp_path: Path) -> None:
    embedder = open_encoder(write_encoder(tmp_path), normalize=False)
    given = [ids_of(embedder, TEXTS[0]), TEXTS[1], ids_of(embedder, TEXTS[2])]
    found, expected = embedder.embed_counted(given), embedder.embed_counted(TEXTS)
    assert np.array_equal(found.vectors, expected.vectors)
    assert found.num_tokens == expected.num_tokens
    assert np.allclose(embedder.embed(given[0]), expected.vectors[:1], atol=1e-6)
    with pytest.raises(TokenIdError, match=f"token id {tiny_tokenizer.VOCAB_SIZE}"):
        embedder.embed([tiny_tokenizer.VOCAB_SIZE])


def test_work_is_done_in_turns_and_ends_with_what_a_turn_raises(tmp_path: Path) -> None:
    embedder = open_encoder(write_encoder(tmp_path), batch_tokens=1)
    turns: list[str] = []

    @contextlib.contextmanager
    def turn():
        if len(turns) == 4:
            raise InterruptedError("enough")
        turns.append("begun")
        yield
        turns.append("done")

    found = embedder.embed_counted(TEXTS[:2], turn=turn)
    assert np.array_equal(found.vectors, embedder.embed(TEXTS[:2]))
    assert turns == ["begun", "done"] * 2
    with pytest.raises(InterruptedError, match="enough"):
        embedder.embed_counted(TEXTS, turn=turn)
    assert len(turns) == 4


def test_wrong_calls_say_what_is_wrong(tmp_path: Path) -> None:
    embedder = open_encoder(write_encoder(tmp_path))
    with pytest.raises(OptionError, match="no texts"):
        embedder.embed([])
    with pytest.raises(OptionError, match="text 1 has no tokens"):
        embedder.embed(["x", ""])
    for texts in (5, None, b"x", ["x", 5]):
        with pytest.raises(OptionError, match=r"^texts(\[1\])? must"):
            embedder.embed(texts)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="truncate must be True or False, got 'yes'"):
        embedder.embed("x", truncate="yes")  # type: ignore[arg-type]
    for option in ({"batch_tokens": 0}, {"max_length": 0}, {"max_length": "5"}, {"normalize": 1}):
        with pytest.raises(OptionError, match=f"^{next(iter(option))} must be"):
            open_encoder(tmp_path, **option)
    embedder.close()
    embedder.close()
    with pytest.raises(StateError, match="closed"):
        embedder.embed("x")
    with pytest.raises(ConfigError, match="'other' was asked for; encoders run on auto, native and ort"):
        open_encoder(tmp_path, runs_on="other")
    write_encoder(tmp_path, extra="pixel_values")
    for runs_on in ("auto", "ort"):
        with pytest.raises(CapabilityError, match="pixel_values"):
            open_encoder(tmp_path, runs_on=runs_on)


def test_what_this_runtime_cannot_do_is_run_with_onnx_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise CapabilityError("there is no kernel for that")

    monkeypatch.setattr("onnxgen.graph.session.InferenceSession", refuse)
    embedder = open_encoder(write_encoder(tmp_path), normalize=False, pooling="cls")
    assert np.array_equal(embedder.embed("x")[0], TABLE[ids_of(embedder, "x")[0]])
    with pytest.raises(CapabilityError, match="no kernel"):
        open_encoder(tmp_path, runs_on="native")


@pytest.mark.parametrize("block_size", [None, 4])
@pytest.mark.parametrize("pooling", ["auto", "mean", "cls"])
def test_a_decoder_gives_its_hidden_states(tmp_path: Path, pooling: Any, block_size: int | None) -> None:
    folder = write_model_folder(tmp_path / "model")
    backend = fake_backend(hidden_size=5, block_size=block_size)
    embedder = Embedder(
        folder, pooling=pooling, normalize=False, backend=backend, batch_tokens=40, config=RuntimeConfig()
    )
    assert embedder.max_length == CONTEXT
    found = embedder.embed_counted(TEXTS)
    for row, text, count in zip(found.vectors, TEXTS, found.num_tokens, strict=True):
        ids = ids_of(embedder, text)
        states = np.stack([backend.hidden_after(ids[: i + 1]) for i in range(len(ids))])
        want = {"mean": states.mean(axis=0), "cls": states[0]}.get(pooling, states[-1])
        assert np.allclose(row, want, atol=1e-6)
        assert count == len(ids)
    assert not any(step.want_logits for step in backend.steps)


def test_a_decoder_without_hidden_states_is_refused(tmp_path: Path) -> None:
    folder = write_model_folder(tmp_path / "model")
    with pytest.raises(CapabilityError, match="gives no hidden states"):
        Embedder(folder, backend=fake_backend(), config=RuntimeConfig())

"""Outputs and inputs of a `Generator` by name, and prompts that are embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnxgen.errors import CapabilityError, OptionError, StateError, TokenIdError
from onnxgen.facade.tensor import NamedTensors
from tiny_model_folder import fake_backend, open_generator, open_model, write_model_folder
from tiny_tokenizer import PAD

WIDTH = 5


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model_folder(tmp_path / "model")


@pytest.mark.parametrize("rewind", [True, False])
def test_hidden_states_are_those_of_the_last_run(folder: Path, rewind: bool) -> None:
    backend = fake_backend(hidden_size=WIDTH, rewind=rewind)
    g = open_generator(folder, backend, batch_size=2, max_length=20)
    with pytest.raises(StateError):
        g.get_output("hidden_states")
    prompts = [[5, 6, 7], [8, 9, PAD]]
    g.append_tokens(prompts)
    g.generate_next_token()
    for _ in range(2):
        hidden = g.get_output("hidden_states")
        assert (hidden.shape, hidden.dtype) == ((2, 3, WIDTH), np.float32)
        for row, own in zip(hidden, ([5, 6, 7], [8, 9]), strict=True):
            assert np.array_equal(
                row[: len(own)], [backend.hidden_after(own[: n + 1]) for n in range(len(own))]
            )
        assert np.isnan(hidden[1, 2]).all()
    for _ in range(3):
        run = [[t for t in g.get_sequence(i) if t != PAD] for i in range(2)]
        g.generate_next_token()
        hidden = g.get_output("hidden_states")
        assert hidden.shape == (2, 1, WIDTH), "what was chosen is not run yet"
        for row, tokens in zip(hidden, run, strict=True):
            assert np.array_equal(row[0], backend.hidden_after(tokens))
    g.get_logits()
    assert np.array_equal(g.get_output("hidden_states")[0, 0], backend.hidden_after(g.get_sequence(0)))
    with pytest.raises(CapabilityError, match="logits and hidden_states only"):
        g.get_output("present.0.key")


def test_inputs_are_those_of_the_last_run(folder: Path) -> None:
    g = open_generator(folder, fake_backend(), batch_size=2, max_length=20)
    with pytest.raises(StateError, match="nothing was run"):
        g.get_input("input_ids")
    g.append_tokens([[5, 6, 7], [8, PAD, PAD]])
    assert g.get_input("input_ids").tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert g.get_input("attention_mask").tolist() == [[1, 1, 1], [1, 0, 0]]
    assert g.get_input("position_ids").tolist() == [[0, 1, 2], [0, 0, 0]]
    g.generate_next_token()
    first = g.get_next_tokens()
    assert g.get_input("input_ids").shape == (2, 3), "the new tokens are chosen, not run"
    g.generate_next_token()
    assert g.get_input("input_ids").tolist() == first[:, None].tolist()
    assert g.get_input("position_ids").tolist() == [[3], [1]]
    assert g.get_input("attention_mask").tolist() == [[1, 1, 1, 1], [1, 0, 0, 1]]
    g.rewind_to(0)
    with pytest.raises(StateError, match="nothing was run"):
        g.get_input("attention_mask")
    with pytest.raises(CapabilityError, match="'pixel_values'"):
        g.get_input("pixel_values")


@pytest.mark.parametrize("how", ["set_inputs", "with ids", "set_model_input"])
@pytest.mark.parametrize("form", [{}, {"block_size": 4}, {"rewind": False}], ids=str)
def test_a_prompt_may_be_embeddings(folder: Path, how: str, form: dict[str, Any]) -> None:
    backend = fake_backend(hidden_size=WIDTH, **form)
    prompt = [[5, 6, 7, 8], [9, 10, 11, 12]]
    by_ids = open_generator(folder, backend, batch_size=2, max_length=20)
    by_ids.append_tokens(prompt)
    g = open_generator(folder, backend, batch_size=2, max_length=20)
    table = by_ids._model.token_embeddings
    embeds = np.stack([table(row) for row in prompt])
    if how == "set_model_input":
        g.set_model_input("inputs_embeds", embeds)
        g.append_tokens([[0] * 4] * 2)
    else:
        named = NamedTensors()
        named["inputs_embeds"] = embeds
        if how == "with ids":
            named["input_ids"] = np.array(prompt)
        g.set_inputs(named)
    seen = prompt[0] if how == "with ids" else [0] * 4
    assert g.get_sequence(0).tolist() == seen
    for round_ in range(2):
        for _ in range(5):
            assert np.array_equal(g.get_logits(), by_ids.get_logits(), equal_nan=True)
            for one in (g, by_ids):
                if not one.is_done():
                    one.generate_next_token()
        if round_ == 0:
            for one in (g, by_ids):
                one.rewind_to(0)
            g.set_inputs({"inputs_embeds": embeds})
            by_ids.append_tokens(prompt)


def test_wrong_embeddings_are_refused(folder: Path) -> None:
    g = open_generator(folder, fake_backend(hidden_size=WIDTH))
    for wrong in (np.zeros((3, WIDTH + 1)), np.zeros((2, 3, WIDTH)), np.zeros((1, 0, WIDTH))):
        with pytest.raises(OptionError, match=r"must be \[1, n, 5\]"):
            g.set_inputs({"inputs_embeds": wrong})
    with pytest.raises(OptionError, match="NaN"):
        g.set_inputs({"inputs_embeds": np.full((3, WIDTH), np.nan)})
    with pytest.raises(OptionError, match="do not fit ids"):
        g.set_inputs({"inputs_embeds": np.zeros((3, WIDTH)), "input_ids": [1, 2]})
    g.append_tokens([1])
    with pytest.raises(StateError, match="before"):
        g.set_model_input("inputs_embeds", np.zeros((3, WIDTH)))
    with pytest.raises(CapabilityError, match="takes no embeddings"):
        open_generator(folder, fake_backend()).set_inputs({"inputs_embeds": np.zeros((3, WIDTH))})


def test_embeddings_of_ids_come_from_the_model(folder: Path) -> None:
    backend = fake_backend(hidden_size=WIDTH)
    model = open_model(folder, backend)
    assert np.array_equal(model.token_embeddings([3, 4]), backend.token_embeddings(np.array([3, 4])))
    assert model.token_embeddings([]).shape == (0, WIDTH)
    with pytest.raises(TokenIdError):
        model.token_embeddings([10**6])
    with pytest.raises(TokenIdError):
        model.token_embeddings([0.5])
    with pytest.raises(CapabilityError, match="no row stands for a token"):
        open_model(folder, fake_backend()).token_embeddings([1])


def test_a_snapshot_makes_going_back_cheap(folder: Path) -> None:
    backend = fake_backend(rewind=False)
    g = open_generator(folder, backend, max_length=40)
    g.append_tokens([5, 6, 7, 8])
    g.snapshot_state()
    answers: list[list[int]] = []
    for _ in range(2):
        before = backend.num_tokens
        for _ in range(5):
            g.generate_next_token()
        answers.append(g.get_sequence(0).tolist())
        assert backend.num_tokens - before == 4, "the prompt is not computed again"
        g.rewind_to(4)
    assert answers[0] == answers[1]
    g.rewind_to(0)
    with pytest.raises(StateError):
        g.snapshot_state()
        g.generate_next_token()

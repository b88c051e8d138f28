"""Generators that go on from where others are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graph_inputs import take_volume
from onnxgen.errors import CapabilityError, StateError
from onnxgen.facade.generator import Generator
from onnxgen.facade.model import Model
from onnxgen.facade.params import GeneratorParams
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_decoders import Sizes, Style, TinyDecoder
from tiny_graph_folder import write_graph_folder
from tiny_model_folder import fake_backend, open_model, write_model_folder

DRAWN = {"do_sample": True, "top_k": 20, "random_seed": 5}


def open_generator(model: Model, **search: Any) -> Generator:
    params = GeneratorParams(model)
    params.set_search_options(**{"max_length": 30, **search})
    return Generator(model, params)


def answer(g: Generator, steps: int = 6) -> list[list[int]]:
    for _ in range(steps):
        if not g.is_done():
            g.generate_next_token()
    return [g.get_sequence(i).tolist() for i in range(g._batch_size)]


@pytest.mark.parametrize("form", [{}, {"block_size": 4}, {"rewind": False}], ids=str)
@pytest.mark.parametrize("search", [{}, DRAWN, {"batch_size": 2}, {"batch_size": 2, **DRAWN}], ids=str)
def test_a_fork_goes_on_as_a_fresh_run_would(tmp_path: Path, form: Any, search: Any) -> None:
    backend = fake_backend(**form)
    model = open_model(write_model_folder(tmp_path / "model"), backend)
    prompt = [[5, 6, 7]] * search.get("batch_size", 1)
    g, fresh = (open_generator(model, **search) for _ in range(2))
    for one in (g, fresh):
        one.append_tokens(prompt)
        answer(one, 3)
    before = backend.num_tokens
    fork = g.fork()
    assert backend.num_tokens == before
    assert fork.get_sequence(0).tolist() == g.get_sequence(0).tolist()
    assert fork.get_next_tokens().tolist() == g.get_next_tokens().tolist()
    want = answer(fresh)
    assert answer(fork) == want
    assert answer(g) == want
    g.close()
    fork.rewind_to(2)
    fresh.rewind_to(2)
    assert answer(fork, 3) == answer(fresh, 3)
    if "batch_size" not in search:
        fork.append_tokens([9])
        fresh.append_tokens([9])
        assert np.array_equal(fork.get_logits(), fresh.get_logits())
    with pytest.raises(StateError, match="closed"):
        g.fork()


def test_forks_do_not_see_each_other(tmp_path: Path) -> None:
    backend = fake_backend()
    model = open_model(write_model_folder(tmp_path / "model"), backend)
    g = open_generator(model)
    g.append_tokens([5, 6])
    forks = [g.fork() for _ in range(3)]
    for token, fork in enumerate(forks):
        fork.append_tokens([10 + token])
    for token, fork in enumerate(forks):
        assert np.array_equal(fork.get_logits()[0, 0], backend.logits_after([5, 6, 10 + token]))
    assert g.get_sequence(0).tolist() == [5, 6]


def test_without_a_seed_forks_draw_their_own(tmp_path: Path) -> None:
    model = open_model(write_model_folder(tmp_path / "model"), fake_backend())
    g = open_generator(model, do_sample=True, top_k=50, temperature=50.0, max_length=60)
    g.append_tokens([5, 6])
    assert len({tuple(answer(g.fork(), 20)[0]) for _ in range(3)}) == 3


def test_an_empty_generator_can_be_forked(tmp_path: Path) -> None:
    model = open_model(write_model_folder(tmp_path / "model"), fake_backend())
    fork = open_generator(model).fork()
    fork.append_tokens([4])
    assert fork.token_count() == 1


def test_beams_cannot_be_forked(tmp_path: Path) -> None:
    model = open_model(write_model_folder(tmp_path / "model"), fake_backend())
    g = open_generator(model, num_beams=2)
    g.append_tokens([4])
    with pytest.raises(CapabilityError, match="beams cannot be forked"):
        g.fork()


@pytest.mark.parametrize("style", [Style(), Style("plain")], ids=["gqa", "plain"])
def test_values_of_inputs_are_those_of_the_fork_too(tmp_path: Path, style: Style) -> None:
    decoder = TinyDecoder(Sizes(), 7)
    path = write_graph_folder(tmp_path / "model", decoder, style, edit=take_volume)
    model = Model(path, runtime=RuntimeConfig(threads=1, cache_dir=tmp_path / "cache"))
    g = open_generator(model)
    g.set_model_input("volume", 0.5)
    early = g.fork()
    for one in (g, early):
        one.append_tokens([5, 6, 7])
    fork = g.fork()
    g.close()
    for one in (fork, early):
        one.append_tokens([8])
        assert np.allclose(one.get_logits()[0, 0], decoder.logits([5, 6, 7, 8])[-1] * 0.5, atol=1e-3)
        assert one.get_output("present.1.value").shape[2] == 4
    fork.close()
    early.close()
    assert not len(model.backend.adapters)

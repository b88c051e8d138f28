"""Draft models and heads of folders, opened by `LLM` and `AsyncLLM`, here and in another process."""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil

import pytest

from onnxgen import backends
from onnxgen.builder import BuildOptions, build
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.speculation.options import Speculation
from onnxgen.errors import CapabilityError, ConfigError, ModelFileError, ModelNotFoundError
from onnxgen.facade.async_llm import AsyncLLM
from onnxgen.facade.llm import LLM
from onnxgen.foundations.runtime_config import RuntimeConfig
from tiny_mimo import agreeing_pair, write_mimo

SEED = secrets.randbits(31)
PROMPTS = ["the other", "a thing the"]
ALWAYS = {"max_draft_tokens": 3, "adaptive": False}
GREEDY = {"max_new_tokens": 12, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a head."""
    print("seed", SEED)
    folder = tmp_path_factory.mktemp("guessing")
    build(
        write_mimo(folder / "c", *agreeing_pair(SEED)), folder / "m", options=BuildOptions(precision="fp32")
    )
    return folder / "m"


@pytest.fixture(scope="module")
def other(folder):
    """The same model without its head."""
    other = folder.parent / "other"
    shutil.copytree(folder, other)
    config = json.loads((other / "genai_config.json").read_text(encoding="utf-8"))
    del config["model"]["mtp"]
    (other / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
    return other


@pytest.fixture(scope="module")
def with_draft(other):
    """A folder that declares a draft decoder of its own, which is the model once more."""
    folder = other.parent / "with_draft"
    shutil.copytree(other, folder)
    config = json.loads((folder / "genai_config.json").read_text(encoding="utf-8"))
    config["model"]["draft"] = config["model"]["decoder"]
    (folder / "genai_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


@pytest.fixture
def loaded(monkeypatch):
    """Names of the graphs that are loaded in this process."""
    names, load = [], backends.load_backend

    def spy(decoder, *given, **more):
        names.append(decoder.path.parent.name + "/" + decoder.path.name)
        return load(decoder, *given, **more)

    monkeypatch.setattr(backends, "load_backend", spy)
    return names


def settings(folder, method="off", **more):
    return {
        "config": RuntimeConfig(threads=1, cache_dir=folder.parent / "cache"),
        "engine": EngineConfig(cache_tokens=256, speculation=Speculation(method, **ALWAYS)),
        **more,
    }


def plain_answers(folder):
    with LLM(folder, **settings(folder)) as llm:
        return [each.token_ids for each in llm.generate(PROMPTS, **GREEDY)]


@pytest.mark.parametrize("method", ["heads", "auto"])
def test_a_head_is_loaded_for_an_engine_that_may_use_it(folder, loaded, method):
    expected = plain_answers(folder)
    assert loaded == ["m/model.onnx"]
    with LLM(folder, **settings(folder, method)) as llm:
        assert sorted(loaded[1:]) == ["m/model.onnx", "m/mtp.onnx"]
        found = llm.generate(PROMPTS, **GREEDY)
        assert [each.token_ids for each in found] == expected
        assert all(each.usage.accepted_draft_tokens > 0 for each in found)
        assert llm.stats().speculation.by_method["heads"].failures == 0
        off = llm.generate(PROMPTS, speculation="off", **GREEDY)
        assert [each.usage.draft_tokens for each in off] == [0, 0]


@pytest.mark.parametrize("kind", ["head", "own draft", "named draft"])
def test_an_engine_in_a_process_of_its_own_guesses_the_same_way(folder, other, with_draft, kind):
    opened, method, draft = {
        "head": (folder, "heads", None),
        "own draft": (with_draft, "draft_model", None),
        "named draft": (folder, "draft_model", other),
    }[kind]

    async def answers(**more):
        async with await AsyncLLM.load(opened, **settings(opened, method, draft_model=draft, **more)) as llm:
            return await asyncio.gather(*[llm.complete(prompt, **GREEDY) for prompt in PROMPTS])

    expected = plain_answers(folder)
    for more in ({}, {"in_process": False}):
        found = asyncio.run(answers(**more))
        assert [each.token_ids for each in found] == expected
        assert all(each.usage.accepted_draft_tokens > 0 for each in found), more


def test_the_draft_of_the_folder_itself_is_loaded_once(with_draft, loaded):
    expected = plain_answers(with_draft)
    loaded.clear()
    for method in ("draft_model", "auto"):
        with LLM(with_draft, **settings(with_draft, method)) as llm:
            found = llm.generate(PROMPTS, **GREEDY)
        assert [each.token_ids for each in found] == expected
        assert all(each.usage.accepted_draft_tokens > 0 for each in found)
    assert len(loaded) == 4


def makers():
    return [LLM, AsyncLLM, lambda *given, **more: AsyncLLM(*given, in_process=False, **more)]


@pytest.mark.parametrize("make", makers(), ids=["LLM", "thread", "process"])
def test_what_cannot_guess_is_refused_before_anything_is_loaded(other, tmp_path, loaded, make):
    with pytest.raises(ConfigError, match="has no head"):
        make(other, **settings(other, "heads"))
    with pytest.raises(ConfigError, match="no draft model of its own"):
        make(other, **settings(other, "draft_model"))
    with pytest.raises((ModelNotFoundError, ModelFileError), match="nowhere"):
        make(other, draft_model=tmp_path / "nowhere", **settings(other))
    stranger = tmp_path / "stranger"
    shutil.copytree(other, stranger)
    file = stranger / "tokenizer.json"
    document = json.loads(file.read_text(encoding="utf-8"))
    vocab = document["model"]["vocab"]
    vocab["the"], vocab["in"] = vocab["in"], vocab["the"]
    file.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ConfigError, match="stranger have different vocabularies"):
        make(other, draft_model=stranger, **settings(other))
    assert loaded == []


def test_a_draft_model_whose_weights_are_cut_is_told_when_it_is_loaded(other, tmp_path):
    broken = tmp_path / "broken"
    shutil.copytree(other, broken)
    for file in broken.glob("*.data"):
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(ModelFileError, match="broken"):
        LLM(other, draft_model=broken, **settings(other))


def test_a_request_cannot_have_what_was_not_loaded(folder):
    with LLM(folder, **settings(folder)) as llm, pytest.raises(CapabilityError, match="heads"):
        llm.generate(PROMPTS[0], speculation="heads", **GREEDY)

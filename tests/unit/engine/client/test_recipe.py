"""An engine on a model folder, made here or in another process."""

import numpy as np
import pytest

from checkpoints import CHECKPOINTS, prompt_ids, write_checkpoint
from folder_runner import FolderRunner
from heard_events import Heard
from onnxgen.builder import BuildOptions, build
from onnxgen.builder.adapters import read_adapter
from onnxgen.engine.client import ModelRecipe, in_process, in_subprocess
from onnxgen.engine.config import EngineConfig
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.request import EngineRequest
from onnxgen.errors import (
    BackendError,
    ContextLengthError,
    GrammarError,
    ModelNotFoundError,
    OptionError,
    StateError,
)
from onnxgen.foundations.runtime_config import RuntimeConfig
from onnxgen.preprocess.tokenizer import Tokenizer
from onnxgen.preprocess.vocabulary import UnusedIds
from peft_by_hand import random_pairs, write_peft
from token_scores import check_prompt_scores, check_score, log_softmax

NEW = 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipe")
    checkpoint = write_checkpoint(CHECKPOINTS["llama"], folder / "checkpoint")
    build(checkpoint, folder / "model", options=BuildOptions(precision="fp32"))
    return folder / "model"


@pytest.fixture(scope="module")
def prompt():
    return prompt_ids(CHECKPOINTS["llama"], 21)


@pytest.fixture(scope="module")
def expected(folder, prompt):
    """Greedy tokens by ONNX Runtime alone."""
    run = FolderRunner(folder)
    tokens = [int(run(prompt)[-1].argmax())]
    while len(tokens) < NEW:
        tokens.append(int(run(tokens[-1:])[-1].argmax()))
    return tokens


def recipe(folder, **engine):
    runtime = RuntimeConfig(backend="ort", threads=1, cache_dir=folder.parent / "cache")
    return ModelRecipe(folder, runtime, EngineConfig(cache_tokens=512, **engine))


@pytest.mark.parametrize("make", [in_process, in_subprocess])
def test_a_folder_is_served_with_its_own_settings(make, folder, prompt, expected):
    with make(recipe(folder)) as client:
        client.start()
        heard = Heard()
        number = client.submit(EngineRequest(prompt, max_new_tokens=NEW, ignore_eos=True), heard)
        heard.end(number)
        assert heard.tokens(number) == expected
        with pytest.raises(ContextLengthError, match="256"):
            client.submit(EngineRequest([5] * 256), heard)


def test_the_end_of_an_answer_is_the_folders(folder, prompt, expected, monkeypatch):
    from onnxgen.metadata import load

    spec = load.load_model_spec(folder)
    object.__setattr__(spec.tokens, "eos", (expected[3],))
    monkeypatch.setattr(load, "load_model_spec", lambda _: spec)
    with recipe(folder)() as core:
        core.submit(EngineRequest(prompt, max_new_tokens=NEW))
        events = []
        while core.has_work:
            events += core.step()
    assert [e.token_id for e in events] == expected[:4]
    assert (events[-1].finish_reason, events[-1].is_eos) == ("eos", True)


def test_a_cache_that_cannot_be_had_closes_the_backend(folder, monkeypatch):
    from onnxgen import backends

    closed = []
    load = backends.load_backend

    def watched(model, config):
        backend = load(model, config)
        close = backend.close
        monkeypatch.setattr(backend, "close", lambda: (closed.append(True), close()))
        monkeypatch.setattr(backend, "create_cache", _refuses)
        return backend

    monkeypatch.setattr(backends, "load_backend", watched)
    with pytest.raises(BackendError, match="no memory"), recipe(folder)():
        raise AssertionError("it has no cache")
    assert closed == [True]


def test_a_folder_that_does_not_exist_is_told_by_start(tmp_path):
    with in_process(recipe(tmp_path / "nothing")) as client, pytest.raises(ModelNotFoundError):
        client.start()


def _refuses(**_):
    raise BackendError("no memory for the cache")


@pytest.mark.parametrize("make", [in_process, in_subprocess])
def test_log_probabilities_arrive_and_rows_that_are_no_token_are_never_chosen(make, folder, prompt, expected):
    runtime = RuntimeConfig(backend="ort", threads=1, cache_dir=folder.parent / "cache")
    run = FolderRunner(folder)
    rows = run(prompt)
    unused = UnusedIds(num_tokens=rows.shape[1] - 9, holes=(expected[0],))
    with make(ModelRecipe(folder, runtime, EngineConfig(cache_tokens=512), unused)) as client:
        client.start()
        heard = Heard()
        request = EngineRequest(
            prompt, max_new_tokens=1, logprobs=2, logprobs_of="processed", prompt_logprobs=1, ignore_eos=True
        )
        number = client.submit(request, heard)
        heard.end(number)
    [event] = heard.events
    allowed = rows[-1].copy()
    allowed[[expected[0], *range(unused.num_tokens, rows.shape[1])]] = -np.inf
    check_score(event.logprobs, log_softmax(allowed), int(allowed.argmax()), 2, tolerance=1e-3)
    check_prompt_scores(event.prompt_logprobs, rows, prompt, start=0, top=1, tolerance=1e-3)


@pytest.mark.parametrize("make", [in_process, in_subprocess])
def test_adapters_are_loaded_where_the_engine_is(make, folder, prompt, expected, tmp_path):
    checkpoint = CHECKPOINTS["llama"]
    adapter = read_adapter(write_peft(tmp_path / "a", random_pairs(checkpoint, seed=3, rank=2)), "a")
    with make(recipe(folder)) as client:
        client.start()
        client.load_adapter(adapter)
        with pytest.raises(StateError, match="'a' is loaded already"):
            client.load_adapter(adapter)
        heard = Heard()
        requests = [
            EngineRequest(prompt, max_new_tokens=NEW, ignore_eos=True, adapter=name) for name in ("a", None)
        ]
        numbers = [client.submit(request, heard) for request in requests]
        for number in numbers:
            heard.end(number)
        under_a, plain = (heard.tokens(number) for number in numbers)
        assert plain == expected
        assert len(under_a) == NEW
        assert under_a != expected
        with pytest.raises(OptionError, match="no adapter 'b'; loaded: a"):
            client.submit(EngineRequest(prompt, adapter="b"), heard)
        client.unload_adapter("a")
        with pytest.raises(OptionError, match="no adapter 'a'; loaded: none"):
            client.unload_adapter("a")


@pytest.mark.parametrize("make", [in_process, in_subprocess])
def test_grammars_are_compiled_where_the_engine_is(make, folder, prompt):
    tokenizer = Tokenizer.from_folder(folder)
    with make(recipe(folder)) as client:
        client.start()
        heard = Heard()
        with pytest.raises(GrammarError):
            client.submit(EngineRequest(prompt, grammar=Grammar.regex("(not closed")), heard)
        request = EngineRequest(prompt, grammar=Grammar.choice(["the thing", "the other thing"]))
        numbers = [client.submit(request, heard) for _ in range(2)]
        for number in numbers:
            assert heard.end(number).finish_reason == "eos"
            assert tokenizer.decode(heard.tokens(number)) in ("the thing", "the other thing")

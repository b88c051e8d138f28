import math

import numpy as np
import pytest

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import ContextLengthError, GrammarError, OptionError
from onnxgen.facade.params import GeneratorParams, sampling_from_search
from onnxgen.metadata.genai_config_run import Speculative
from onnxgen.metadata.model_spec import SearchDefaults
from tiny_model_folder import CONTEXT, fake_backend, open_model, write_model_folder
from tiny_tokenizer import VOCAB_SIZE


@pytest.fixture
def params(tmp_path):
    return GeneratorParams(open_model(write_model_folder(tmp_path / "model", top_k=7), fake_backend()))


def test_options_begin_with_the_folders(params):
    options = params.get_search_options()
    assert options["top_k"] == 7.0
    assert options["early_stopping"] is True
    assert options["do_sample"] is False
    assert options["chunk_size"] == 0.0
    assert options["random_seed"] == -1.0
    assert len(options) == 17


def test_options_are_set_by_name(params):
    params.set_search_options(do_sample=True, top_k=3.0, top_p=np.float32(0.5), max_length=np.int64(9))
    params.set_search_options(chunk_size=16)
    options = params.get_search_options()
    assert (options["do_sample"], options["top_k"], options["top_p"], options["max_length"]) == (
        True,
        3,
        0.5,
        9,
    )
    assert options["chunk_size"] == 16.0
    params.set_search_options(chunk_size=0)
    assert params.search.chunk_size is None


def test_an_unknown_name_is_refused_with_a_hint_and_changes_nothing(params):
    with pytest.raises(OptionError, match="unknown search option 'topk'; did you mean 'top_k'"):
        params.set_search_options(top_p=0.5, topk=4)
    assert params.get_search_options()["top_p"] == 0.0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("top_k", 1.5),
        ("top_k", "5"),
        ("top_k", True),
        ("top_k", -1),
        ("do_sample", 1),
        ("temperature", True),
        ("temperature", -1.0),
        ("temperature", math.nan),
        ("top_p", 1.1),
        ("repetition_penalty", 0.0),
        ("batch_size", 0),
        ("batch_size", 33),
        ("num_beams", 0),
        ("random_seed", -2),
        ("random_seed", 2**64),
        ("random_seed", math.nan),
        ("min_length", -1),
        ("early_stopping", None),
    ],
)
def test_values_of_the_wrong_type_or_range_are_refused_by_name(params, name, value):
    with pytest.raises(OptionError, match=f"^{name} must"):
        params.set_search_options(**{name: value})


@pytest.mark.parametrize(
    ("search", "greedy", "top_k", "top_p"),
    [
        ({}, True, 50, 1.0),
        ({"do_sample": True}, False, 50, 1.0),
        ({"do_sample": True, "top_k": 1}, True, 1, 0.0),
        ({"do_sample": True, "temperature": 0.0}, True, 50, 1.0),
        ({"do_sample": True, "top_k": 5, "top_p": 0.4}, False, 5, 0.4),
        ({"do_sample": True, "top_k": 0, "top_p": 0.4}, False, 0, 0.4),
        ({"do_sample": True, "top_k": 0, "top_p": 0.0}, True, 0, 0.0),
        ({"do_sample": True, "top_k": 5, "top_p": 1.0}, False, 5, 1.0),
    ],
)
def test_what_search_options_mean(search, greedy, top_k, top_p):
    sampling = sampling_from_search(SearchDefaults(**search))
    assert (sampling.greedy, sampling.top_k, sampling.top_p) == (greedy, top_k, top_p)


def test_a_large_seed_arrives_whole(params):
    params.set_search_options(random_seed=2**63 + 5)
    assert sampling_from_search(params.search, stream=3).seed == 2**63 + 5
    assert sampling_from_search(params.search, stream=3).stream == 3


def test_max_length_is_the_context_unless_it_is_set(params):
    assert params.resolve_max_length() == CONTEXT
    params.set_search_options(max_length=20)
    assert params.resolve_max_length() == 20
    params.set_search_options(max_length=CONTEXT + 1)
    with pytest.raises(ContextLengthError, match=f"{CONTEXT + 1}.*{CONTEXT}"):
        params.resolve_max_length()


def test_guidance_is_a_grammar(params):
    assert params.grammar is None
    params.set_guidance("json_schema", '{"type": "integer"}')
    assert params.grammar == Grammar.json_schema({"type": "integer"}).with_fast_forward(False)
    params.set_guidance("regex", "[0-9]+", enable_ff_tokens=True)
    assert params.grammar == Grammar.regex("[0-9]+")
    params.set_guidance("lark_grammar", 'start: "a"')
    assert params.grammar is not None and params.grammar.kind == "lark"
    params.set_guidance("choice", '["yes", "no"]')
    assert params.grammar == Grammar.choice(["yes", "no"]).with_fast_forward(False)
    params.set_guidance("llguidance", '{"grammars": []}')
    assert params.grammar is not None and params.grammar.kind == "llguidance"
    params.set_guidance("", "")
    assert params.grammar is None


@pytest.mark.parametrize(
    ("kind", "data", "error", "message"),
    [
        ("regex", "", OptionError, "both type and data"),
        ("", "a+", OptionError, "both type and data"),
        ("rgex", "a+", OptionError, "did you mean 'regex'"),
        ("regex", 3, OptionError, "two texts"),
        (None, "a+", OptionError, "two texts"),
        ("json_schema", "{", GrammarError, "JSON"),
        ("choice", "yes", GrammarError, "JSON"),
        ("choice", '{"a": 1}', GrammarError, "a JSON list of texts"),
        ("choice", "[1]", GrammarError, "choice 0"),
    ],
)
def test_what_is_no_guidance_is_refused_and_changes_nothing(params, kind, data, error, message):
    params.set_guidance("regex", "b")
    with pytest.raises(error, match=message):
        params.set_guidance(kind, data)
    assert params.grammar == Grammar.regex("b").with_fast_forward(False)


def test_speculative_options_are_kept(params):
    assert params.get_speculative_options() == {
        "max_draft_tokens": 4.0,
        "ngram_size": 0.0,
        "ngram_chained_lookup": False,
        "min_adaptive_k": 0.0,
        "cooldown": False,
    }
    params.set_speculative_options(ngram_size=3.0, max_draft_tokens=np.int64(16), cooldown=True)
    assert params.speculative == Speculative(ngram_size=3, max_draft_tokens=16, cooldown=True)
    params.set_speculative_options(**params.get_speculative_options())
    assert params.speculative == Speculative(ngram_size=3, max_draft_tokens=16, cooldown=True)


@pytest.mark.parametrize(
    "options",
    [
        {"ngram_size": 1},
        {"ngram_size": 17},
        {"ngram_size": 2.5},
        {"ngram_size": True},
        {"max_draft_tokens": 0},
        {"max_draft_tokens": 17},
        {"min_adaptive_k": 17},
        {"min_adaptive_k": -1},
        {"cooldown": 1},
        {"ngram_chained_lookup": 0.0},
        {"ngramsize": 3},
    ],
    ids=str,
)
def test_speculative_options_are_checked_together(params, options):
    with pytest.raises(OptionError, match=next(iter(options))):
        params.set_speculative_options(**{"max_draft_tokens": 7, **options})
    assert params.speculative == Speculative()


def test_an_unknown_speculative_option_is_told_what_it_may_mean(params):
    with pytest.raises(OptionError, match="did you mean 'ngram_size'"):
        params.set_speculative_options(ngramsize=3)


def test_a_top_k_beyond_the_vocabulary_is_refused_where_tokens_are_drawn(params):
    params.set_search_options(top_k=VOCAB_SIZE + 1)
    params.check_sampling()
    params.set_search_options(do_sample=True)
    with pytest.raises(OptionError, match=f"top_k must be between 0 and {VOCAB_SIZE}.*got {VOCAB_SIZE + 1}"):
        params.check_sampling()
    params.set_search_options(top_k=VOCAB_SIZE)
    params.check_sampling()

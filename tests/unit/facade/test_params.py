import math

import numpy as np
import pytest

from onnxgen.errors import CapabilityError, ContextLengthError, OptionError
from onnxgen.facade.params import GeneratorParams, sampling_from_search
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


def test_guidance_is_refused(params):
    with pytest.raises(CapabilityError, match="'json_schema'"):
        params.set_guidance("json_schema", "{}")


def test_only_the_defaults_of_speculation_are_accepted(params):
    params.set_speculative_options(**params.get_speculative_options())
    with pytest.raises(CapabilityError, match="ngram_size=3"):
        params.set_speculative_options(ngram_size=3)
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

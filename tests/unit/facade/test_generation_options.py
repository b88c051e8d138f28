import math
from dataclasses import fields

import numpy as np
import pytest

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import OptionError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.sampling_of import sampling_for
from onnxgen.metadata.model_spec import SearchDefaults
from onnxgen.preprocess.tokenizer import Tokenizer
from tiny_tokenizer import write_tokenizer


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_new_tokens", 0),
        ("max_new_tokens", -1),
        ("max_new_tokens", True),
        ("max_new_tokens", 1.0),
        ("min_new_tokens", -1),
        ("temperature", -0.5),
        ("temperature", math.nan),
        ("temperature", True),
        ("top_k", -1),
        ("top_p", 1.5),
        ("repetition_penalty", 0),
        ("seed", -1),
        ("seed", 2**64),
        ("ignore_eos", 1),
        ("stop", 5),
        ("stop", [""]),
        ("stop", ["a", 1]),
        ("stop", ""),
        ("n", 0),
        ("n", True),
        ("n", 129),
        ("min_p", 1.5),
        ("min_p", -0.1),
        ("top_a", math.inf),
        ("typical_p", 2),
        ("top_n_sigma", -1),
        ("xtc_probability", 1.01),
        ("mirostat", 3),
        ("presence_penalty", 2.5),
        ("frequency_penalty", "1"),
        ("no_repeat_ngram_size", -1),
        ("repetition_window", -1),
        ("dry_multiplier", -1),
        ("dry_base", 0.5),
        ("dry_allowed_length", 0),
        ("dry_breakers", [""]),
        ("bad_words", "word"),
        ("bad_words", [5]),
        ("bad_words", [[-1]]),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", "5"),
        ("stop_token_ids", [True]),
        ("deadline_s", -1),
        ("logprobs", -1),
        ("logprobs", 101),
        ("logprobs", True),
        ("logprobs_of", "cooked"),
        ("prompt_logprobs", 1_000_000),
        ("num_beams", 0),
        ("adapter", ""),
        ("stop", b"END"),
        ("stop_token_ids", b"\x05"),
        ("bad_words", [b"\x05"]),
        ("bad_words", [""]),
        ("bad_words", [[]]),
        ("logit_bias", 5),
        ("logit_bias", [5]),
        ("logit_bias", {True: 1.0}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {"": 1.0}),
        ("logit_bias", {0.5: 1.0}),
        ("forced_tokens", 5),
        ("forced_tokens", False),
        ("forced_tokens", [True]),
        ("forced_tokens", np.array([5])),
        ("logits_processors", None),
        ("logits_processors", 5),
        ("logits_processors", "upper"),
        ("logits_processors", [5]),
        ("logits_processors", print),
        ("sampler", 5),
        ("sampler", print),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(OptionError, match=f"^{name} must"):
        GenerationOptions(**{name: value})


@pytest.mark.parametrize("bias", [100.5, math.nan, math.inf, "1", True, None])
def test_a_bias_out_of_range_is_refused_by_name(bias):
    with pytest.raises(OptionError, match=r"^a bias of logit_bias must"):
        GenerationOptions(logit_bias={5: bias})


@pytest.mark.parametrize("places", [{-1: 5}, {0: -5}, {"0": 5}, {0: True}])
def test_places_of_forced_tokens_are_numbers(places):
    with pytest.raises(OptionError, match="forced_tokens must"):
        GenerationOptions(forced_tokens=places)


def test_one_stop_text_may_be_given_as_it_is():
    assert GenerationOptions(stop="END").stop == ("END",)
    assert GenerationOptions(stop=["a", "b"]).stop == ("a", "b")


def test_a_minimum_above_the_maximum_is_refused():
    with pytest.raises(OptionError, match="min_new_tokens is 5, more than max_new_tokens 4"):
        GenerationOptions(min_new_tokens=5, max_new_tokens=4)


def test_unknown_names_are_refused_with_a_hint():
    with pytest.raises(
        OptionError, match="unknown generation option 'max_tokens'; did you mean 'max_new_tokens'"
    ):
        GenerationOptions().with_changes({"max_tokens": 3})


def test_the_folders_defaults_apply_where_nothing_is_said():
    search = SearchDefaults(
        do_sample=True, temperature=0.7, top_k=40, top_p=0.9, repetition_penalty=1.1, random_seed=5
    )
    sampling = sampling_for(GenerationOptions(), search, prompt_tokens=3)
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.7, 40, 0.9)
    assert (sampling.repetition_penalty, sampling.seed) == (1.1, 5)


def test_a_folder_that_does_not_sample_is_greedy_until_sampling_is_asked_for():
    search = SearchDefaults(do_sample=False, temperature=0.6)
    assert sampling_for(GenerationOptions(), search, prompt_tokens=1).greedy
    assert sampling_for(GenerationOptions(seed=1), search, prompt_tokens=1).greedy
    assert sampling_for(GenerationOptions(temperature=0.5), search, prompt_tokens=1).temperature == 0.5
    assert sampling_for(GenerationOptions(top_p=0.5), search, prompt_tokens=1).temperature == 0.6
    assert sampling_for(GenerationOptions(top_k=3), search, prompt_tokens=1).temperature == 0.6


def test_temperature_zero_is_greedy_whatever_the_folder_says():
    assert sampling_for(
        GenerationOptions(temperature=0), SearchDefaults(do_sample=True), prompt_tokens=1
    ).greedy


def test_the_minimum_counts_new_tokens():
    assert (
        sampling_for(GenerationOptions(min_new_tokens=4), SearchDefaults(), prompt_tokens=10).min_length == 14
    )
    assert sampling_for(GenerationOptions(), SearchDefaults(min_length=7), prompt_tokens=10).min_length == 7


def test_top_p_zero_of_a_folder_with_top_k_is_off_but_a_users_zero_is_not():
    search = SearchDefaults(do_sample=True, top_k=50, top_p=0.0)
    assert sampling_for(GenerationOptions(), search, prompt_tokens=1).top_p == 1.0
    assert sampling_for(GenerationOptions(top_p=0.0), search, prompt_tokens=1).greedy


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return Tokenizer.from_folder(folder)


def read(tokenizer, **options):
    return sampling_for(GenerationOptions(**options), SearchDefaults(), prompt_tokens=1, tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("name", "value"), [("min_p", 0.1), ("typical_p", 0.9), ("mirostat", 2), ("top_a", 0.2)]
)
def test_options_about_drawing_switch_sampling_on(name, value):
    sampling = sampling_for(
        GenerationOptions(**{name: value}), SearchDefaults(temperature=0.6), prompt_tokens=1
    )
    assert (sampling.temperature, getattr(sampling, name)) == (0.6, value)
    assert sampling_for(GenerationOptions(presence_penalty=1.0), SearchDefaults(), prompt_tokens=1).greedy


@pytest.mark.parametrize(
    ("name", "off"),
    [("top_k", 0), ("top_p", 1), ("min_p", 0.0), ("typical_p", 1.0), ("xtc_probability", 0), ("mirostat", 0)],
)
def test_options_that_are_off_neither_switch_sampling_on_nor_contradict_beams(name, off):
    assert sampling_for(GenerationOptions(**{name: off}), SearchDefaults(), prompt_tokens=1).greedy
    assert GenerationOptions(num_beams=3, **{name: off}).beams(SearchDefaults()).num_beams == 3
    assert GenerationOptions(**{name: off}).beams(SearchDefaults(num_beams=2)).num_beams == 2


def test_every_option_of_sampling_can_be_given():
    named = {f.name for f in fields(SamplingOptions)} - {"min_length", "stream"}
    assert named <= {f.name for f in fields(GenerationOptions)}


def test_bad_words_are_banned_at_the_beginning_of_a_line_and_within_one(tokenizer):
    words = read(tokenizer, bad_words=["other", [5, 6]]).bad_words
    assert words == (tuple(tokenizer.encode("other")), tuple(tokenizer.encode(" other")), (5, 6))


def test_biases_name_tokens_by_id_or_text(tokenizer):
    [comma] = tokenizer.encode(",")
    assert dict(read(tokenizer, logit_bias={7: 1.5, ",": -2}).logit_bias) == {7: 1.5, comma: -2.0}
    with pytest.raises(OptionError, match=r"logit_bias names 'a longer text', which is \d+ tokens"):
        read(tokenizer, logit_bias={"a longer text": 1})
    with pytest.raises(OptionError, match="logit_bias was given as text, and there is no tokenizer"):
        read(None, logit_bias={",": 1})


def test_forced_tokens_are_a_text_or_ids(tokenizer):
    ids = tokenizer.encode("the other")
    by_text, by_ids = read(tokenizer, forced_tokens="the other"), read(tokenizer, forced_tokens=ids)
    assert by_text.forced_tokens == by_ids.forced_tokens == tuple(enumerate(ids))


def test_breakers_are_all_tokens_that_hold_one(tokenizer):
    found = read(tokenizer, dry_multiplier=0.8, dry_breakers=["\n", "t"]).dry_breakers
    table = tokenizer.token_bytes_table()
    assert [i for i, text in enumerate(table) if b"\n" in text or b"t" in text] == list(found)
    assert read(tokenizer, dry_breakers=["\n"]).dry_breakers == ()


def test_beams_and_drawing_contradict_each_other():
    with pytest.raises(OptionError, match=r"temperature=0\.7 was given together with num_beams=3"):
        GenerationOptions(num_beams=3, temperature=0.7)
    with pytest.raises(OptionError, match=r"length_penalty=2\.0 is about beams"):
        GenerationOptions(length_penalty=2.0)
    beams = GenerationOptions(num_beams=4, n=2, length_penalty=0.5, early_stopping="never").beams(
        SearchDefaults()
    )
    assert (beams.num_beams, beams.num_return_sequences, beams.length_penalty) == (4, 2, 0.5)
    with pytest.raises(OptionError, match="n=3 answers need as many beams, num_beams is 2"):
        GenerationOptions(num_beams=2, n=3)


def test_a_folders_beams_count_where_nothing_is_drawn():
    search = SearchDefaults(num_beams=4, length_penalty=2.0, early_stopping=True)
    beams = GenerationOptions().beams(search)
    assert (beams.num_beams, beams.length_penalty, beams.early_stopping) == (4, 2.0, True)
    assert GenerationOptions(temperature=0.5).beams(search) is None
    assert GenerationOptions(num_beams=1).beams(search) is None
    assert GenerationOptions().beams(SearchDefaults()) is None

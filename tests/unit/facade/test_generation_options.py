import math

import pytest

from onnxgen.errors import CapabilityError, OptionError
from onnxgen.facade.generation_options import GenerationOptions, sampling_for
from onnxgen.metadata.model_spec import SearchDefaults


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
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(OptionError, match=f"^{name} must"):
        GenerationOptions(**{name: value})


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


def test_beams_of_a_folder_are_refused_by_name():
    with pytest.raises(CapabilityError, match="num_beams=4"):
        sampling_for(GenerationOptions(), SearchDefaults(num_beams=4), prompt_tokens=1)

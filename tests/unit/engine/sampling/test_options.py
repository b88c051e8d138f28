import math
import pickle
from dataclasses import replace

import pytest

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import OptionError, TokenIdError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", -0.1),
        ("temperature", True),
        ("temperature", "1"),
        ("top_p", 1.01),
        ("top_p", -0.01),
        ("top_p", math.nan),
        ("top_k", -1),
        ("top_k", True),
        ("top_k", 1.5),
        ("repetition_penalty", 0),
        ("repetition_penalty", -1.0),
        ("no_repeat_ngram_size", -1),
        ("min_length", -1),
        ("seed", -1),
        ("seed", 2**64),
        ("seed", 1.0),
        ("stream", -1),
    ],
)
def test_values_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(OptionError, match=f"^{name} must be"):
        SamplingOptions(**{name: value})


@pytest.mark.parametrize(
    ("options", "greedy"),
    [
        ({}, True),
        ({"temperature": 1.0}, False),
        ({"temperature": 1.0, "top_k": 1}, True),
        ({"temperature": 1.0, "top_k": 0}, False),
        ({"temperature": 1.0, "top_p": 0.0}, True),
        ({"temperature": 1, "top_k": 10**9, "top_p": 1, "seed": 2**64 - 1}, False),
    ],
)
def test_what_is_greedy(options, greedy):
    assert SamplingOptions(**options).greedy is greedy


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "5", True, None], ids=repr)
@pytest.mark.parametrize(
    "name",
    [
        "top_n_sigma",
        "typical_p",
        "min_p",
        "top_a",
        "xtc_probability",
        "xtc_threshold",
        "mirostat_tau",
        "mirostat_eta",
        "dry_multiplier",
        "dry_base",
    ],
)
def test_numbers_are_refused_by_name(name, value):
    with pytest.raises(OptionError, match=f"^{name} must be"):
        SamplingOptions(**{name: value})


@pytest.mark.parametrize("value", [-1, 1.5, "5", True, None, math.nan], ids=repr)
@pytest.mark.parametrize("name", ["repetition_window", "dry_window", "dry_allowed_length", "mirostat"])
def test_integers_are_refused_by_name(name, value):
    with pytest.raises(OptionError, match=f"^{name} must be"):
        SamplingOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mirostat", 3),
        ("dry_allowed_length", 0),
        ("dry_base", 0.99),
        ("min_p", 1.01),
        ("temperature", 10**400),
    ],
)
def test_the_ends_of_ranges_hold(name, value):
    with pytest.raises(OptionError, match=f"^{name} must be"):
        SamplingOptions(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dry_breakers", 5),
        ("dry_breakers", "56"),
        ("dry_breakers", [-1]),
        ("dry_breakers", [True]),
        ("dry_breakers", ["5"]),
        ("dry_breakers", [1.0]),
        ("dry_breakers", None),
        ("bad_words", [5]),
        ("bad_words", [[]]),
        ("bad_words", [[1], ["a"]]),
        ("bad_words", ["ab"]),
        ("bad_words", 7),
        ("logit_bias", 7),
        ("logit_bias", [1, 2]),
        ("logit_bias", {"5": 1.0}),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {True: 1.0}),
        ("logit_bias", {5: 100.1}),
        ("logit_bias", {5: -101}),
        ("logit_bias", {5: math.inf}),
        ("logit_bias", {5: math.nan}),
        ("logit_bias", {5: "1"}),
        ("logit_bias", {5: None}),
        ("logit_bias", [(5, 1.0, 2)]),
        ("logit_bias", [(5, 1.0), (5, 2.0)]),
        ("forced_tokens", 5),
        ("forced_tokens", "12"),
        ("forced_tokens", [1, [0, 1]]),
        ("forced_tokens", [[0, 1], [0, 2]]),
        ("forced_tokens", {-1: 2}),
        ("forced_tokens", {0: 2.0}),
        ("forced_tokens", [True]),
    ],
)
def test_token_options_of_other_forms_are_refused_by_name(name, value):
    with pytest.raises(OptionError, match=name):
        SamplingOptions(**{name: value})


def test_token_options_have_one_form_however_they_were_written():
    written = SamplingOptions(
        logit_bias={7: 1, 3: -math.inf}, forced_tokens=[4, 5], bad_words=[[1, 2], (3,)], dry_breakers=[9]
    )
    tuples = SamplingOptions(
        logit_bias=((3, -math.inf), (7, 1.0)),
        forced_tokens=((0, 4), (1, 5)),
        bad_words=((1, 2), (3,)),
        dry_breakers=(9,),
    )
    assert written == tuples
    assert hash(written) == hash(tuples)
    assert SamplingOptions(forced_tokens={1: 5, 0: 4}).forced_tokens == tuples.forced_tokens
    assert pickle.loads(pickle.dumps(written)) == written
    assert replace(written, seed=3).logit_bias == written.logit_bias
    assert SamplingOptions(logit_bias={}, forced_tokens=[], bad_words=[]) == SamplingOptions()


@pytest.mark.parametrize(
    "option",
    [
        {"dry_breakers": [1, 10]},
        {"bad_words": [[1], [10, 2]]},
        {"logit_bias": {10: 1.0}},
        {"logit_bias": {2**63: 1.0}},
        {"forced_tokens": [1, 10]},
    ],
)
def test_ids_outside_the_vocabulary_are_refused_where_it_is_known(option):
    options = SamplingOptions(**option)
    (name,) = option
    with pytest.raises(TokenIdError, match=rf"token id \d+ of {name} is outside \[0, 10\)"):
        options.check_ids(10)
    options.check_ids(2**64)

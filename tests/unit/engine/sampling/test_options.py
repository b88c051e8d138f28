import math

import pytest

from onnxgen.engine.sampling.options import SamplingOptions
from onnxgen.errors import OptionError


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

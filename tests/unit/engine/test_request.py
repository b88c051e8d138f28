"""Requests that cannot be done are refused before anything is done for them."""

import numpy as np
import pytest

from onnxgen.engine.request import EngineRequest, prompt_ids
from onnxgen.errors import OptionError, TokenIdError


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 0}, "n must be"),
        ({"priority": 2**40}, f"priority must be between {-(2**31)} and {2**31}, got"),
        ({"priority": "high"}, "priority must be an integer"),
        ({"max_new_tokens": 0}, "max_new_tokens must be"),
        ({"deadline_s": float("nan")}, "deadline_s must be a finite number"),
        ({"ignore_eos": "no"}, "ignore_eos must be True or False, got 'no'"),
        ({"allow_cap": None}, "allow_cap must be True or False"),
        ({"tenant": None}, "tenant must be a text, got None"),
        ({"salt": ["a"]}, r"salt must be a text, got \['a'\]"),
    ],
)
def test_an_option_of_another_kind_is_refused(fields, message):
    with pytest.raises(OptionError, match=message):
        EngineRequest([1], **fields)


@pytest.mark.parametrize("ids", [[1.0], ["1"], [[1], [2, 3]], [[1]], [True], [10], [-1]])
def test_what_is_no_token_is_refused_in_prompts_and_among_those_that_stop(ids):
    with pytest.raises(
        TokenIdError, match=r"prompt must be a list of token ids|of prompt is outside \[0, 10\)"
    ):
        prompt_ids(EngineRequest(ids), vocab_size=10)
    with pytest.raises(TokenIdError, match="stop_token_ids"):
        prompt_ids(EngineRequest([1], stop_token_ids=ids), vocab_size=10)


def test_a_prompt_is_copied():
    given = np.array([1, 2], np.int64)
    prompt_ids(EngineRequest(given), vocab_size=10)[0] = 9
    assert given.tolist() == [1, 2]

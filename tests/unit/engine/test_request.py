"""Requests that cannot be done are refused before anything is done for them."""

import numpy as np
import pytest

from onnxgen.engine.request import EngineRequest, longest, prompt_ids
from onnxgen.errors import ContextLengthError, OptionError, TokenIdError


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
        ({"adapter": 3}, "adapter must be a text, got 3"),
        ({"logprobs": 101}, "logprobs must be between 0 and 100, got 101"),
        ({"logprobs": True}, "logprobs must be an integer"),
        ({"prompt_logprobs": -1}, "prompt_logprobs must be between 0 and 100, got -1"),
        ({"logprobs_of": "cooked"}, "logprobs_of must be 'raw' or 'processed', got 'cooked'"),
        ({"prompt_logprobs": 0, "prompt_logprobs_start": 1}, "prompt_logprobs_start must be between 0 and 0"),
        (
            {"prompt": [1, 2], "prompt_logprobs_start": 1},
            "says where prompt_logprobs begin, and there are none",
        ),
    ],
)
def test_an_option_of_another_kind_is_refused(fields, message):
    with pytest.raises(OptionError, match=message):
        EngineRequest(**({"prompt": [1]} | fields))


@pytest.mark.parametrize("ids", [[1.0], ["1"], [[1], [2, 3]], [[1]], [True], [10], [-1]])
def test_what_is_no_token_is_refused_in_prompts_and_among_those_that_stop(ids):
    with pytest.raises(
        TokenIdError, match=r"prompt must be a list of token ids|of prompt is outside \[0, 10\)"
    ):
        prompt_ids(EngineRequest(ids), vocab_size=10)
    with pytest.raises(TokenIdError, match="stop_token_ids"):
        prompt_ids(EngineRequest([1], stop_token_ids=ids), vocab_size=10)


@pytest.mark.parametrize("name", ["logprobs", "prompt_logprobs"])
def test_no_more_alternatives_than_there_are_tokens(name):
    prompt_ids(EngineRequest([1], **{name: 10}), vocab_size=10)
    with pytest.raises(
        OptionError, match=f"^{name} must be between 0 and 10, the size of the vocabulary, got 11"
    ):
        prompt_ids(EngineRequest([1], **{name: 11}), vocab_size=10)


def test_a_prompt_that_is_only_scored_may_fill_the_context():
    request = EngineRequest([1, 2, 3], max_new_tokens=0, prompt_logprobs=0)
    assert longest(request, context_length=3) == 3
    with pytest.raises(ContextLengthError, match="shorten the prompt"):
        longest(request, context_length=2)


def test_a_prompt_is_copied():
    given = np.array([1, 2], np.int64)
    prompt_ids(EngineRequest(given), vocab_size=10)[0] = 9
    assert given.tolist() == [1, 2]

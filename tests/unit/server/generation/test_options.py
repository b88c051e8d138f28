"""What a request, a model's entry and the operator say about how to answer comes to one set of options."""

import types

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from onnxgen.facade.generation_options import SAMPLING_FIELDS, GenerationOptions
from onnxgen.server.errors import ApiError
from onnxgen.server.generation.options import generation_options
from onnxgen.server.models import ModelEntry
from onnxgen.server.schemas.chat import ChatRequest
from onnxgen.server.settings import ServerSettings


def options(asked, *, defaults=None, **settings):
    fields = ChatRequest.model_validate({"messages": [], **asked})
    model = types.SimpleNamespace(entry=ModelEntry("m", "m", defaults=defaults or {}))
    return generation_options(fields, model=model, settings=ServerSettings(**settings))


def plain(**options):
    return GenerationOptions(**{"allow_cap": True, "num_beams": 1, **options})


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ({}, {}),
        (dict.fromkeys(["n", "temperature", "stop", "seed", "logit_bias", "response_format"]), {}),
        ({"temperature": 0, "top_p": 1}, {"temperature": 0, "top_p": 1}),
        ({"max_tokens": 5}, {"max_new_tokens": 5, "allow_cap": False}),
        ({"max_tokens": 5, "max_completion_tokens": 7}, {"max_new_tokens": 7, "allow_cap": False}),
        ({"max_new_tokens": 5}, {"max_new_tokens": 5, "allow_cap": False}),
        ({"min_tokens": 2}, {"min_new_tokens": 2}),
        ({"stop": "x"}, {"stop": ("x",)}),
        ({"stop": []}, {}),
        ({"seed": -1}, {"seed": None}),
        ({"seed": 2**64 - 1}, {"seed": 2**64 - 1}),
        ({"top_k": -1, "top_n_sigma": -1}, {"top_k": 0, "top_n_sigma": 0}),
        ({"repeat_penalty": 1.5, "repeat_last_n": -1}, {"repetition_penalty": 1.5, "repetition_window": 0}),
        ({"repeat_penalty": 1.5, "repeat_last_n": 0}, {"repetition_penalty": 1.0}),
        (
            {"dry_multiplier": 0.8, "dry_penalty_last_n": 9, "dry_sequence_breakers": ["\n"]},
            {"dry_multiplier": 0.8, "dry_window": 9, "dry_breakers": ("\n",)},
        ),
        ({"dry_multiplier": 0.8, "dry_penalty_last_n": 0}, {"dry_multiplier": 0.0}),
        ({"typical": 0.5}, {"typical_p": 0.5}),
        ({"logit_bias": {"5": -100, "a": 1}}, {"logit_bias": {5: -100, "a": 1}}),
        ({"logprobs": True}, {"logprobs": 0}),
        ({"logprobs": True, "top_logprobs": 3}, {"logprobs": 3}),
        ({"logprobs": False}, {}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": "json_object"}, {"response_format": {"type": "json_object"}}),
        ({"guided_regex": "a+"}, {"response_format": {"type": "regex", "regex": "a+"}}),
        ({"guided_choice": ["a"]}, {"response_format": {"type": "choice", "choice": ["a"]}}),
        (
            {"guided_json": '{"type": "string"}'},
            {"response_format": {"type": "json_schema", "json_schema": {"type": "string"}}},
        ),
        (
            {"json_schema": {"type": "string"}},
            {"response_format": {"type": "json_schema", "json_schema": {"type": "string"}}},
        ),
        (
            {"structured_outputs": {"json": {"type": "string"}, "regex": None}},
            {"response_format": {"type": "json_schema", "json_schema": {"type": "string"}}},
        ),
        ({"guided_grammar": 'start: "a"'}, {"response_format": {"type": "lark", "lark": 'start: "a"'}}),
        ({"speculation": "prompt_lookup"}, {"speculation": "prompt_lookup"}),
    ],
)
def test_fields_are_options(asked, meant):
    assert options(asked) == plain(**meant)


@pytest.mark.parametrize("name", SAMPLING_FIELDS)
def test_every_sampling_option_has_a_field(name):
    value = {"mirostat": 1, "seed": 5}.get(name, 1)
    assert getattr(options({name: value}), name) == value


def test_what_the_entry_says_holds_where_the_request_says_nothing():
    defaults = {"temperature": 0.5, "top_k": 9, "max_new_tokens": 20}
    assert options({"top_k": 3}, defaults=defaults) == plain(temperature=0.5, top_k=3, max_new_tokens=20)
    found = options({"max_tokens": 30}, defaults=defaults)
    assert (found.max_new_tokens, found.allow_cap) == (30, False)


def test_the_operator_says_how_long_prompts_may_be():
    assert options({}, max_prompt_tokens=9) == plain(max_prompt_tokens=9)
    assert options({"max_prompt_tokens": 99}, max_prompt_tokens=9) == plain(max_prompt_tokens=9)
    assert options({}, defaults={"max_prompt_tokens": 7}) == plain(max_prompt_tokens=7)


def test_no_beams_are_searched_but_where_somebody_says_so():
    assert options({}).num_beams == 1  # a folder's own defaults do not count
    assert options({}, defaults={"num_beams": 3}).num_beams == options({"num_beams": 3}).num_beams == 3


def test_the_operator_says_how_long_answers_are():
    assert options({}, max_output_tokens=9) == plain(max_new_tokens=9)
    assert options({}, max_output_tokens=9, defaults={"max_new_tokens": 4}).max_new_tokens == 4
    assert options({}, max_output_tokens=9, defaults={"max_new_tokens": 40}).max_new_tokens == 9
    assert options({"max_tokens": 9}, max_output_tokens=9).max_new_tokens == 9
    assert options({}, request_timeout_s=5).deadline_s == 5
    assert options({"deadline_s": 3}, request_timeout_s=5).deadline_s == 3
    assert options({"deadline_s": 30}, request_timeout_s=5).deadline_s == 5


@pytest.mark.parametrize(
    ("asked", "settings", "param", "said"),
    [
        ({"max_tokens": 10}, {"max_output_tokens": 9}, "max_tokens", "at most 9"),
        ({"max_completion_tokens": 10}, {"max_output_tokens": 9}, "max_completion_tokens", "at most 9"),
        ({"n": 3}, {"max_answers": 2}, "n", "at most 2"),
        ({"logprobs": True, "top_logprobs": 21}, {}, "top_logprobs", "at most 20"),
        ({"max_tokens": 0}, {}, "max_tokens", "max_tokens must be at least 1"),
        ({"max_completion_tokens": -1}, {}, "max_completion_tokens", "max_completion_tokens must be"),
        ({"min_tokens": -1}, {}, "min_tokens", "min_tokens must be"),
        ({"n": 0}, {}, "n", "n must be"),
        ({"temperature": -1}, {}, "temperature", "temperature must be"),
        ({"temperature": float("nan")}, {}, "temperature", "finite"),
        ({"top_p": 1.5}, {}, "top_p", "between"),
        ({"top_k": -2}, {}, "top_k", "top_k must be"),
        ({"seed": -2}, {}, "seed", "seed must be"),
        ({"seed": 2**64}, {}, "seed", "seed must be"),
        ({"presence_penalty": 3}, {}, "presence_penalty", "between"),
        ({"logit_bias": {"5": 101}}, {}, "logit_bias", "logit_bias"),
        ({"stop": ""}, {}, "stop", "not empty"),
        ({"stop": ["ab" * 10_000] * 2}, {}, "stop", "40000 characters or token ids"),
        ({"bad_words": ["x" * 999, [1, 2]] * 33}, {}, "bad_words", "33033 characters"),
        ({"dry_breakers": ["x" * 33_000]}, {}, "dry_breakers", "at most 32768"),
        ({"forced_tokens": [1] * 33_000}, {}, "forced_tokens", "33000 characters"),
        ({"stop_token_ids": [-1]}, {}, "stop_token_ids", "at least 0"),
        ({"deadline_s": -1}, {}, "deadline_s", "deadline_s must be"),
        ({"response_format": {"type": "xml"}}, {}, "response_format", "xml"),
        ({"response_format": {"type": "json_schema"}}, {}, "response_format", "needs an entry"),
        ({"guided_json": "{"}, {}, "guided_json", "no JSON"),
        ({"structured_outputs": {}}, {}, "structured_outputs", "must have one of"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, {}, "guided_choice", "each say"),
        ({"grammar": "root ::= x"}, {}, "grammar", "GBNF"),
        ({"speculation": {"methd": "x"}}, {}, "speculation", "did you mean"),
        ({"num_beam_groups": 2}, {}, "num_beam_groups", "about beams"),
    ],
)
def test_what_is_wrong_is_said_of_the_field(asked, settings, param, said):
    with pytest.raises(ApiError) as caught:
        options(asked, **settings)
    assert (caught.value.status, caught.value.param) == (400, param)
    assert said in caught.value.message


@pytest.mark.parametrize("name", ["n", "max_tokens", "temperature", "top_p", "seed", "top_k", "priority"])
@pytest.mark.parametrize("value", ["5", True, [5], {"a": 5}])
def test_a_number_is_a_number(name, value):
    with pytest.raises(ValidationError, match=name):
        ChatRequest.model_validate({"messages": [], name: value})


NAMES = [name for name in ChatRequest.model_fields if name not in ("messages", "stream_options")]
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.text(max_size=3) | st.integers(), max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "json_schema", "regex", "5", "method"]),
        st.text() | st.integers(),
        max_size=2,
    )
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_whatever_is_asked_is_an_option_or_refused(asked):
    try:
        found = options(asked)
    except ValidationError:
        pass
    except ApiError as error:
        assert error.status == 400
    else:
        assert isinstance(found, GenerationOptions)

"""Messages of all clients come to the one form that templates get, and what is wrong with one is named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.server.errors import ApiError
from onnxgen.server.generation.messages import normalized_messages
from onnxgen.server.media import MediaCheck, MediaPolicy

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


def normalized(*messages, most=8):
    return normalized_messages(messages, max_messages=most, media=MediaCheck(MediaPolicy(), senses=()))


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ({"role": "developer", "content": "x"}, {"role": "system", "content": "x"}),
        ({"role": "user"}, {"role": "user", "content": ""}),
        ({"role": "user", "content": None, "name": None}, {"role": "user", "content": ""}),
        (
            {"role": "user", "content": "x", "name": "Ann"},
            {"role": "user", "content": "x", "name": "Ann"},
        ),
        (
            {"role": "user", "content": [{"type": "input_text", "text": "a", "cache_control": {}}, "b"]},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ),
        ({"role": "user", "content": []}, {"role": "user", "content": []}),
        ({"role": "assistant", "content": ""}, {"role": "assistant", "content": ""}),
        (
            {"role": "assistant", "content": None, "refusal": "no"},
            {"role": "assistant", "content": "no"},
        ),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [CALL],
                "function_call": None,
                "audio": None,
            },
            {"role": "assistant", "tool_calls": [CALL]},
        ),
        (
            {"role": "assistant", "content": "x", "tool_calls": []},
            {"role": "assistant", "content": "x"},
        ),
        (
            {"role": "assistant", "content": "x", "reasoning": "hm"},
            {"role": "assistant", "reasoning_content": "hm", "content": "x"},
        ),
        (
            {"role": "assistant", "content": "x", "reasoning_content": "hm", "reasoning": "hm"},
            {"role": "assistant", "reasoning_content": "hm", "content": "x"},
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": "x"},
            {"role": "tool", "tool_call_id": "c1", "content": "x"},
        ),
    ],
)
def test_what_clients_do_differently_comes_to_one_form(sent, meant):
    assert normalized(sent) == [meant]
    assert normalized(meant) == [meant]


@pytest.mark.parametrize(
    ("message", "param", "said"),
    [
        ({"content": "x"}, "messages[0].role", "None"),
        ({"role": "alien"}, "messages[0].role", "alien"),
        ({"role": "usr"}, "messages[0].role", "did you mean 'user'"),
        ({"role": 5}, "messages[0].role", "5"),
        ("hello", "messages[0]", "expected an object"),
        ({"role": "user", "content": 5}, "messages[0].content", "a number"),
        ({"role": "user", "content": {"text": "x"}}, "messages[0].content", "expected"),
        ({"role": "user", "content": [{"type": "txt"}]}, "messages[0].content[0].type", "'txt'"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text", "expected a text"),
        ({"role": "user", "content": [{"type": ["text"]}]}, "messages[0].content[0].type", "types are"),
        (
            {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "x"}}]},
            "messages[0].content[0].type",
            "'video_url'",
        ),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id", "which call"),
        (
            {"role": "assistant", "tool_calls": [{"type": "custom", "custom": {}}]},
            "messages[0].tool_calls[0]",
            "function",
        ),
        ({"role": "assistant", "tool_calls": {"a": 1}}, "messages[0].tool_calls", "a list"),
        (
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 5}}]},
            "messages[0].tool_calls[0].function.arguments",
            "JSON text",
        ),
        ({"role": "assistant", "function_call": {}}, "messages[0].function_call", "tool_calls"),
        ({"role": "user", "name": 5, "content": "x"}, "messages[0].name", "expected a text"),
    ],
)
def test_what_is_wrong_with_a_message_is_named(message, param, said):
    with pytest.raises(ApiError, match=said.replace("(", r"\(")) as caught:
        normalized(message)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_a_conversation_has_messages_and_not_too_many():
    with pytest.raises(ApiError, match="empty"):
        normalized()
    assert len(normalized(*[{"role": "user"}] * 8)) == 8
    with pytest.raises(ApiError, match="9 entries"):
        normalized(*[{"role": "user"}] * 9)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = ["role", "content", "tool_calls", "tool_call_id", "name", "refusal", "reasoning", "function"]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(NAMES), JSON | st.sampled_from(["user", "assistant", "tool", "system"])
        )
        | JSON
    )
)
def test_whatever_comes_is_normalized_or_refused(messages):
    try:
        found = normalized(*messages)
    except ApiError as error:
        assert error.status == 400
    else:
        assert normalized(*found) == found

"""Anthropic's messages become the conversation that they tell."""

from __future__ import annotations

from typing import Any

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.message_blocks import chat_messages, chat_tool_choice, chat_tools, system_text
from onnxgen.server.media import MediaCheck, MediaPolicy

SEEING = MediaCheck(MediaPolicy(allow_urls=True), senses=("image",))
PNG = "iVBORw0KGgo="  # its first bytes

_USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"city": "Zürich"}}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


def _result(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t1", "content": content, **more}


def _after_use(*blocks: Any) -> list[dict[str, Any]]:
    return chat_messages(
        [{"role": "assistant", "content": [_USE]}, {"role": "user", "content": list(blocks)}], SEEING
    )[1:]


def test_the_system_prompt_is_a_text_or_blocks() -> None:
    assert system_text(None) is None
    assert system_text("") is None
    assert system_text("Be kind.") == "Be kind."
    assert system_text([_text("Be kind."), _text(""), _text("Be brief.")]) == "Be kind.\n\nBe brief."


def test_texts_stay_in_their_order() -> None:
    given = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [_text("Hel"), _text("lo")]},
        {"role": "system", "content": "It is late."},
        {"role": "user", "content": [_text("a"), _text("b")]},
    ]
    assert chat_messages(given, SEEING) == [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "system", "content": "It is late."},
        {"role": "user", "content": "a\n\nb"},
    ]


def test_thoughts_and_uses_are_parts_of_the_answer() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm", "signature": "x"},
        {"type": "redacted_thinking", "data": "x"},
        _text("Look"),
        _USE,
    ]
    assert chat_messages([{"role": "assistant", "content": blocks}], SEEING) == [
        {
            "role": "assistant",
            "content": "Look",
            "reasoning_content": "Hm",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"city": "Zürich"}'}}
            ],
        }
    ]


def test_results_become_messages_and_what_is_said_beside_them_too() -> None:
    assert _after_use(_result([_text("1"), _text("2")]), _text("And now?")) == [
        {"role": "tool", "tool_call_id": "t1", "name": "f", "content": "1\n\n2"},
        {"role": "user", "content": "And now?"},
    ]


@pytest.mark.parametrize("content", [None, "", []])
def test_an_empty_result_is_an_empty_message(content: Any) -> None:
    assert [message["content"] for message in _after_use(_result(content))] == [""]


def test_a_failed_tool_is_said_to_have_failed() -> None:
    assert _after_use(_result("no such city", is_error=True))[0]["content"] == "Error: no such city"


def test_images_become_parts_that_chat_has() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    linked = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    parts = chat_messages([{"role": "user", "content": [image, linked]}], SEEING)[0]["content"]
    assert [part["image_url"]["url"] for part in parts] == [
        f"data:image/png;base64,{PNG}",
        "https://example.org/a.png",
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "a"}},
        {"type": "document", "title": "T", "source": {"type": "content", "content": "a"}},
        {"type": "document", "title": "T", "source": {"type": "content", "content": [_text("a")]}},
        {"type": "search_result", "title": "T", "source": "https://example.org", "content": [_text("a")]},
    ],
)  # fmt: skip
def test_documents_of_text_are_text(block: dict[str, Any]) -> None:
    assert chat_messages([{"role": "user", "content": [block, _text("?")]}], SEEING) == [
        {"role": "user", "content": "T\n\na\n\n?"}
    ]
    assert _after_use(_result([block]))[0]["content"] == "T\n\na"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ([5], "messages[0]"),
        ([{"role": "alien", "content": "?"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": [5]}], "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "container_upload"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "document"}]}], "messages[0].content[0].source"),
        ([{"role": "user", "content": [{"type": "document", "source": {"type": "base64"}}]}], "messages[0].content[0].source.type"),
        ([{"role": "user", "content": [{"type": "search_result", "content": [{"type": "image", "source": {"type": "url", "url": "x"}}]}]}], "messages[0].content[0].content[0].type"),
        ([{"role": "user", "content": [_USE]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [_result("1")]}], "messages[0].content[0].tool_use_id"),
        ([{"role": "assistant", "content": [_result("1")]}], "messages[0].content[0].type"),
        ([{"role": "assistant", "content": [{**_USE, "input": "{}"}]}], "messages[0].content[0].input"),
        ([{"role": "assistant", "content": [{**_USE, "id": ""}]}], "messages[0].content[0].id"),
        ([{"role": "user", "content": [{"type": "image"}]}], "messages[0].content[0].source"),
        ([{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}], "messages[0].content[0].source.type"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused_by_its_place(given: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat_messages(given, SEEING)
    assert (caught.value.status, caught.value.param) == (400, param)


def test_tools_are_functions() -> None:
    schema = {"type": "object", "properties": {}}
    given = [{"name": "f", "description": "d", "input_schema": schema}, {"type": "custom", "name": "g", "input_schema": {}, "strict": True}]  # fmt: skip
    assert chat_tools(given) == [
        {"type": "function", "function": {"name": "f", "parameters": schema, "description": "d"}},
        {"type": "function", "function": {"name": "g", "parameters": {}, "strict": True}},
    ]


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"type": "web_search_20250305", "name": "web_search"}, "tools[0].type"),
        ({"name": "f"}, "tools[0].input_schema"),
        ({"input_schema": {}}, "tools[0].name"),
    ],
)
def test_other_tools_are_refused(tool: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat_tools([tool])
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, ("auto", True)),
        ({"type": "auto"}, ("auto", True)),
        ({"type": "none"}, ("none", True)),
        ({"type": "any", "disable_parallel_tool_use": True}, ("required", False)),
        ({"type": "tool", "name": "f"}, ({"type": "function", "function": {"name": "f"}}, True)),
    ],
)
def test_choices(choice: Any, expected: Any) -> None:
    assert chat_tool_choice(choice) == expected


@pytest.mark.parametrize("choice", [{"type": "required"}, {}, {"type": "tool"}])
def test_other_choices_are_refused(choice: Any) -> None:
    with pytest.raises(ApiError):
        chat_tool_choice(choice)


def test_system_blocks_are_text() -> None:
    with pytest.raises(ApiError) as caught:
        system_text([_text("a"), {"type": "image"}])
    assert caught.value.param == "system[1].type"

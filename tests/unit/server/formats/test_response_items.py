"""Items of the Responses API become the conversation that they tell."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.response_items import chat_messages, read_items


def _read(given: Any, stored: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    numbers = itertools.count()
    return read_items(given, new_id=lambda prefix: f"{prefix}_{next(numbers)}", stored=(stored or {}).get)


def _messages(given: Any) -> list[dict[str, Any]]:
    return chat_messages(_read(given))


def _call(call_id: str = "c1", name: str = "f") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def _output(call_id: str = "c1", output: Any = "42") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def test_a_text_is_a_question() -> None:
    assert _messages("Hi") == [{"role": "user", "content": "Hi"}]


def test_no_items_are_no_messages() -> None:
    assert _messages([]) == []


@pytest.mark.parametrize("role", ["user", "system", "developer"])
@pytest.mark.parametrize("kind", [{}, {"type": "message"}, {"type": None}], ids=["easy", "typed", "null"])
def test_messages_of_others_than_the_assistant_keep_their_role(role: str, kind: dict[str, Any]) -> None:
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert _messages([{**kind, "role": role, "content": parts}]) == [{"role": role, "content": "ab"}]


def test_what_the_assistant_did_in_one_turn_is_one_message() -> None:
    items = [
        {"role": "user", "content": "?"},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm"}],
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look"}]},
        _call("c1"),
        _call("c2", "g"),
        _output("c2", "2"),
        _output("c1", [{"type": "input_text", "text": "1"}]),
        {"role": "assistant", "content": "So."},
    ]
    assert _messages(items) == [
        {"role": "user", "content": "?"},
        {
            "role": "assistant",
            "content": "Look",
            "reasoning_content": "Hm",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "name": "g", "content": "2"},
        {"role": "tool", "tool_call_id": "c1", "name": "f", "content": "1"},
        {"role": "assistant", "content": "So."},
    ]


def test_two_texts_of_the_assistant_stay_two() -> None:
    items = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert [message["content"] for message in _messages(items)] == ["a", "b"]


def test_reasoning_that_only_its_maker_reads_is_left_out() -> None:
    items = [
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"},
        {"role": "assistant", "content": "a"},
    ]
    assert _messages(items) == [{"role": "assistant", "content": "a"}]


def test_a_summary_stands_for_reasoning_that_is_not_there() -> None:
    items = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}, _call()]
    assert _messages(items)[0]["reasoning_content"] == "Hm"


def test_images_become_parts_that_chat_has() -> None:
    content = [
        {"type": "input_text", "text": "What is it?"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"},
    ]
    assert _messages([{"role": "user", "content": content}])[0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}},
    ]


def test_items_have_ids_and_keep_those_that_they_had() -> None:
    items = _read([{"role": "user", "content": "?"}, {**_call(), "id": "fc_mine"}, _output()])
    assert [item["id"] for item in items] == ["msg_0", "fc_mine", "fco_1"]


def test_a_reference_is_the_item_that_is_kept() -> None:
    kept = _read("Hi")[0]
    assert _read([{"type": "item_reference", "id": "msg_7"}], {"msg_7": kept}) == [kept]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        (5, "input"),
        (None, "input"),
        ([5], "input[0]"),
        ([{"role": "alien", "content": "?"}], "input[0].role"),
        ([{"role": ["user"], "content": "?"}], "input[0].role"),
        ([{"content": "?"}], "input[0].role"),
        ([{"type": "funktion_call"}], "input[0].type"),
        ([{"type": {"a": 1}}], "input[0].type"),
        ([{"role": "user", "content": 5}], "input[0].content"),
        ([{"role": "user", "content": [5]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}], "input[0].content[0].image_url"),
        ([{"role": "assistant", "content": [{"type": "input_image", "image_url": "data:"}]}], "input[0].content[0].type"),
        ([{**_call(), "call_id": ""}], "input[0].call_id"),
        ([{**_call(), "arguments": {}}], "input[0].arguments"),
        ([{**_call(), "name": None}], "input[0].name"),
        ([{**_call(), "id": 5}], "input[0].id"),
        ([_call(), _output(output=None)], "input[1].output"),
        ([_call(), _output("c2")], "input"),
        ([{"type": "reasoning", "content": [{"text": 1}]}], "input[0].content[0].text"),
        ([{"type": "item_reference", "id": "msg_7"}], "input[0].id"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "\ud800"}]}], "input[0].content[0].text"),
    ],
)  # fmt: skip
def test_what_is_no_item_is_refused_by_its_place(given: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        _messages(given)
    assert caught.value.param == param
    assert caught.value.status in (400, 404)
    assert len(caught.value.message) < 400


def test_long_words_are_not_echoed() -> None:
    with pytest.raises(ApiError) as caught:
        _messages([{"type": "x" * 100_000}])
    assert len(caught.value.message) < 300

"""Tools, choices and formats of the Responses API, as chat completions has them."""

from __future__ import annotations

from typing import Any

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.response_tools import chat_response_format, chat_tool_choice, chat_tools


def _tools(*names: str) -> list[dict[str, Any]]:
    return chat_tools(
        [{"type": "function", "name": name, "parameters": None, "strict": None} for name in names]
    )


def test_functions_are_wrapped_and_nulls_left_out() -> None:
    schema = {"type": "object", "properties": {}}
    given = {"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": True}
    assert chat_tools([given]) == [
        {
            "type": "function",
            "function": {"name": "f", "description": "d", "parameters": schema, "strict": True},
        }
    ]
    assert _tools("f") == [{"type": "function", "function": {"name": "f"}}]


@pytest.mark.parametrize("kind", ["web_search", "custom", "mcp", "namespace", None, 5])
def test_tools_that_a_server_would_run_are_refused(kind: Any) -> None:
    with pytest.raises(ApiError, match="functions only") as caught:
        chat_tools([{"type": "function", "name": "f"}, {"type": kind}])
    assert caught.value.param == "tools[1].type"


@pytest.mark.parametrize("choice", ["none", "auto", "required"])
def test_words_stay(choice: str) -> None:
    assert chat_tool_choice(choice, _tools("f")) == (choice, _tools("f"))


def test_no_choice_is_auto() -> None:
    assert chat_tool_choice(None, [])[0] == "auto"


def test_a_named_function_is_wrapped() -> None:
    choice, tools = chat_tool_choice({"type": "function", "name": "g"}, _tools("f", "g"))
    assert choice == {"type": "function", "function": {"name": "g"}}
    assert tools == _tools("f", "g")


def test_allowed_tools_are_all_that_the_model_is_told_of() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]}
    assert chat_tool_choice(allowed, _tools("f", "g")) == ("required", _tools("g"))


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ("any", "tool_choice"),
        (5, "tool_choice"),
        ({"type": "web_search"}, "tool_choice"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "function", "name": "h"}, "tool_choice.name"),
        ({"type": "allowed_tools", "mode": "none", "tools": []}, "tool_choice.mode"),
        ({"type": "allowed_tools", "mode": "auto"}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"name": "h"}]}, "tool_choice.tools[0].name"),
    ],
)
def test_other_choices_are_refused(choice: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat_tool_choice(choice, _tools("f", "g"))
    assert caught.value.param == param


def test_formats_of_the_text() -> None:
    assert chat_response_format(None) is None
    assert chat_response_format({"type": "text"}) is None
    assert chat_response_format({"type": "json_object"}) == {"type": "json_object"}
    schema = {"type": "object"}
    assert chat_response_format({"type": "json_schema", "name": "n", "strict": None, "schema": schema}) == {
        "type": "json_schema",
        "json_schema": {"name": "n", "schema": schema},
    }


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("json_object", "text.format"),
        ({"type": "grammar"}, "text.format.type"),
        ({"type": "json_schema", "name": "n"}, "text.format.schema"),
    ],
)
def test_other_formats_are_refused(given: Any, param: str) -> None:
    with pytest.raises(ApiError) as caught:
        chat_response_format(given)
    assert caught.value.param == param

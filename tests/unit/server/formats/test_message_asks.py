"""What is said of thinking and of the form of answers in Anthropic's words."""

from __future__ import annotations

from typing import Any

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.formats.message_asks import (
    output_format,
    reasoning_effort,
    refuse_what_is_not_here,
    thinking_shown,
)
from onnxgen.server.schemas.messages import MessagesRequest


def _asked(**fields: Any) -> MessagesRequest:
    return MessagesRequest.model_validate({"messages": [], "max_tokens": 100, **fields})


@pytest.mark.parametrize(
    ("thinking", "effort", "expected", "shown"),
    [
        (None, None, "none", "none"),
        (None, "high", "none", "none"),
        ({"type": "disabled"}, None, "none", "none"),
        ({"type": "enabled", "budget_tokens": 50}, None, "medium", "shown"),
        ({"type": "enabled", "budget_tokens": 50}, "low", "low", "shown"),
        ({"type": "enabled", "budget_tokens": 50, "display": "omitted"}, "max", "high", "omitted"),
        ({"type": "adaptive"}, None, None, "shown"),
        ({"type": "adaptive", "display": "summarized"}, "xhigh", "high", "shown"),
        ({"type": "between_tools"}, None, None, "shown"),
    ],
)
def test_thinking(thinking: Any, effort: str | None, expected: str | None, shown: str) -> None:
    asked = _asked(thinking=thinking, output_config=None if effort is None else {"effort": effort})
    assert reasoning_effort(asked) == expected
    assert thinking_shown(asked) == shown


@pytest.mark.parametrize("budget", [0, -1, 100, 5000])
def test_a_budget_that_leaves_nothing_is_refused(budget: int) -> None:
    with pytest.raises(ApiError) as caught:
        reasoning_effort(_asked(thinking={"type": "enabled", "budget_tokens": budget}))
    assert caught.value.param == "thinking.budget_tokens"


def test_a_schema_may_be_said_in_two_places() -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    expected = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    assert output_format(_asked(output_config={"format": form})) == expected
    assert output_format(_asked(output_format=form)) == expected
    assert output_format(_asked()) is None
    assert output_format(_asked(response_format={"type": "json_object"})) is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"output_format": {"type": "regex"}}, "output_format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        (
            {"output_format": {"type": "json_schema", "schema": {}}, "response_format": "json_object"},
            "output_format",
        ),
    ],
)
def test_other_forms_are_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        output_format(_asked(**fields))
    assert caught.value.param == param


@pytest.mark.parametrize(("name", "value"), [("container", "c"), ("mcp_servers", [{}]), ("n", 2), ("n", 0)])
def test_what_a_server_would_run_is_refused(name: str, value: Any) -> None:
    refuse_what_is_not_here(_asked(mcp_servers=[], n=1))
    with pytest.raises(ApiError) as caught:
        refuse_what_is_not_here(_asked(**{name: value}))
    assert caught.value.param == name

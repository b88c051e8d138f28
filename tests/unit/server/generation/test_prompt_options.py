"""How a request's conversation becomes a prompt."""

import types

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.generation.prompt_options import prompt_options
from onnxgen.server.models import ModelEntry
from onnxgen.server.settings import ServerSettings


def made(*, entry=None, settings=None, **asked):
    model = types.SimpleNamespace(entry=ModelEntry("m", "m", **(entry or {})))
    return prompt_options(model=model, settings=ServerSettings(**(settings or {})), **asked)


def test_the_usual_prompt_folds_system_messages_and_writes_control_tokens_as_text():
    found = made()
    assert (found.fold_system, found.allow_special_tokens, found.template_variables) == (True, False, {})
    assert (found.choice.kind, found.parallel_tool_calls) == ("auto", True)


def test_the_operator_and_the_entry_are_heard():
    found = made(
        entry={"tool_call_format": "hermes"},
        settings={"allow_special_tokens": True, "default_reasoning_effort": "low"},
    )
    assert (found.tool_call_format, found.allow_special_tokens) == ("hermes", True)
    assert found.template_variables["reasoning_effort"] == "low"


def test_effort_switches_thinking_for_templates_of_several_families():
    assert made(reasoning_effort="none").template_variables == {"enable_thinking": False, "thinking": False}
    high = {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}
    assert (
        made(reasoning_effort="high", settings={"default_reasoning_effort": "low"}).template_variables == high
    )
    own = made(reasoning_effort="high", template_variables={"thinking": "maybe"}).template_variables
    assert own == {**high, "thinking": "maybe"}


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
        ({"template_variables": {"messages": []}}, "chat_template_kwargs"),
    ],
)
def test_what_is_wrong_is_said_of_the_field(asked, param):
    with pytest.raises(ApiError) as caught:
        made(**asked)
    assert (caught.value.status, caught.value.param) == (400, param)

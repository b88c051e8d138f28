import pytest

from onnxgen.errors import OptionError
from onnxgen.facade.prompt_options import PromptOptions
from onnxgen.facade.tool_choice import ToolChoice, read_tool_choice
from onnxgen.preprocess.tool_calls.tools import read_tools

TOOLS = read_tools([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("none", ToolChoice("none")),
        ("required", ToolChoice("required")),
        ({"type": "function", "function": {"name": "weather"}}, ToolChoice("named", "weather")),
        ({"type": "function", "name": "weather"}, ToolChoice("named", "weather")),
        (ToolChoice("named", "weather"), ToolChoice("named", "weather")),
    ],
)
def test_forms_that_callers_know(given, expected):
    assert read_tool_choice(given) == expected
    assert PromptOptions(tool_choice=given).tool_choice == expected
    expected.check(TOOLS)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "weather",
        3,
        {},
        {"type": "function"},
        {"type": "function", "function": {}},
        {"type": "function", "function": {"name": ""}},
        {"type": "tool", "name": "weather"},
        {"type": "function", "function": "weather"},
    ],
)
def test_other_forms_are_refused(given):
    with pytest.raises(OptionError, match="tool_choice must be 'none', 'auto', 'required'"):
        read_tool_choice(given)


def test_a_choice_that_the_tools_do_not_allow_is_refused():
    with pytest.raises(OptionError, match="tool_choice is 'required', and no tools were given"):
        ToolChoice("required").check(())
    with pytest.raises(
        OptionError, match=r"tool_choice names 'whether'.*did you mean 'weather'.*the tools are weather"
    ):
        ToolChoice("named", "whether").check(TOOLS)
    ToolChoice("auto").check(())
    ToolChoice("none").check(())

"""Of the tools of a request, only those that it allows are offered."""

import pytest

from onnxgen.server.errors import ApiError
from onnxgen.server.generation.allowed_tools import allowed_tools
from tool_models import TOOLS

TIME = {"type": "function", "function": {"name": "time"}}


@pytest.mark.parametrize("choice", [None, "auto", "none", "required", TIME])
def test_other_choices_stay_as_they_are(choice):
    assert allowed_tools(TOOLS, choice) == (TOOLS, choice)


@pytest.mark.parametrize("mode", ["auto", "required"])
@pytest.mark.parametrize("named", [TIME, {"type": "function", "name": "time"}])
def test_what_may_not_be_called_is_not_offered(mode, named):
    nested = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [named]}}
    flat = {"type": "allowed_tools", "mode": mode, "tools": [named]}
    assert allowed_tools(TOOLS, nested) == allowed_tools(TOOLS, flat) == ([TOOLS[1]], mode)


@pytest.mark.parametrize(
    ("allowed", "said"),
    [
        ({"mode": "auto", "tools": []}, "needs a mode"),
        ({"mode": "never", "tools": [TIME]}, "needs a mode"),
        ({"mode": "auto", "tools": [{"name": "tim"}]}, "did you mean 'time'"),
        ({"mode": "auto", "tools": [5]}, "None"),
        (5, "needs a mode"),
    ],
)
def test_a_choice_that_names_no_tools_is_refused(allowed, said):
    with pytest.raises(ApiError, match=said) as caught:
        allowed_tools(TOOLS, {"type": "allowed_tools", "allowed_tools": allowed})
    assert (caught.value.status, caught.value.param) == (400, "tool_choice")

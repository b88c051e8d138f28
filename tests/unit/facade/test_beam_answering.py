"""What a search for the likeliest answers does with grammars, tools and reasoning."""

import pytest

from onnxgen.errors import OptionError
from tool_models import TOOLS, tool_llm, user, write_tool_folder


@pytest.fixture
def folder(tmp_path):
    return write_tool_folder(tmp_path / "model")


@pytest.mark.parametrize(
    "asked",
    [
        {"response_format": {"type": "regex", "regex": "[ab]+"}},
        {"tools": TOOLS},
        {"tools": TOOLS, "tool_choice": "required"},
        {"tools": TOOLS, "tool_choice": "none", "response_format": "json_object"},
    ],
)
def test_grammars_are_refused_before_they_are_compiled(folder, asked, monkeypatch):
    llm = tool_llm(folder, [])
    monkeypatch.setattr(llm._text_model.text, "check_grammars", lambda questions: pytest.fail("compiled"))
    with pytest.raises(OptionError, match=r"beams cannot be held to a grammar.*tool_choice='none'"):
        llm.chat([user("hi")], num_beams=2, max_new_tokens=3, **asked)


def test_tools_that_are_not_called_may_be_offered(folder):
    llm = tool_llm(folder, [([user("hi")], "<think>hm</think>ok")])
    done = llm.chat([user("hi")], num_beams=2, max_new_tokens=30, tools=TOOLS, tool_choice="none")
    assert (done.reasoning, done.text, done.tool_calls, done.finish_reason) == ("hm", "ok", (), "eos")

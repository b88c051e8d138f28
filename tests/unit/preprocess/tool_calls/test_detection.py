"""Which format a model writes its calls in."""

import json
import re

import pytest

import chat_templates
from chat_templates import chat_tokenizer
from onnxgen.errors import OptionError
from onnxgen.preprocess.chat_template import ChatTemplate
from onnxgen.preprocess.template_files import TemplateText
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.detection import find_tool_call_format, named_tool_call_format
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from onnxgen.preprocess.tool_calls.tools import read_tools
from tool_call_runs import DATA, PARSED, cases

TEMPLATES = sorted((DATA / "templates").glob("*.jinja"))
WRITING = [path for path in TEMPLATES if not re.match("none|harmony|.*words", path.stem)]
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"properties": {"a": {}, "b": {}}}},
}


def _name(template, tokenizer=None):
    found = find_tool_call_format(template, tokenizer)
    return found.name if found else "none"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_shows_its_format(path):
    assert _name(path.read_text(encoding="utf-8")) == path.stem.partition("--")[0]


def test_every_format_has_a_template_and_golden_answers():
    shown = {path.stem.partition("--")[0] for path in TEMPLATES}
    assert shown - {"none"} == set(FORMATS)
    assert all(len(cases(name)) >= 10 for name in PARSED)


@pytest.mark.parametrize("path", WRITING, ids=lambda path: path.stem)
def test_what_a_template_writes_is_read_back(path):
    name = path.stem.partition("--")[0]
    arguments = {"a": "x < \"y\" & 'z' é", "b": [1, {"c": "d"}]}
    if "gemma" in name:
        arguments["b"] = 1  # those templates are too short to write lists
    function = {"name": "f", "arguments": arguments}
    call = {
        "id": "functions.f:0" if name == "kimi-k2" else "abcdefghi",
        "type": "function",
        "function": function,
    }
    messages = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    template = ChatTemplate({"default": TemplateText(path.read_text(encoding="utf-8"), "T")})
    prompt = template.render(messages[:1], tools=[TOOL])
    whole = template.render(messages, tools=[TOOL], add_generation_prompt=False)
    same = next(n for n in range(len(whole)) if not prompt.startswith(whole[: n + 1]))
    parser = ToolCallParser(bind(FORMATS[name], None), read_tools([TOOL]))
    calls = [*parser.push(whole[same:]).calls, *parser.flush(complete=True).calls]
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("f", arguments)]


@pytest.mark.parametrize(
    ("family", "name"),
    [("QWEN", "hermes"), ("LLAMA", "llama-3-json"), ("MISTRAL", "mistral-v3"), ("PHI", "none"), ("GEMMA", "none"),
     ("GLM", "glm-4.5"), ("DEEPSEEK", "deepseek-v3.1"), ("GRANITE", "none"), ("COMMAND", "none")],
)  # fmt: skip
def test_templates_of_families_show_their_formats(family, name):
    assert _name(getattr(chat_templates, family)) == name


def test_tokens_count_where_there_is_no_template(tmp_path):
    tokenizer = chat_tokenizer(tmp_path, special=["[TOOL_CALLS]", "[ARGS]"], plain=[])
    assert _name(None, tokenizer) == "mistral-v11"
    assert _name("{{ messages[0].content }}", tokenizer) == "none"
    assert _name("{{ tools }}{{ messages[0].content }}", tokenizer) == "mistral-v11"
    assert _name(None) == "none"


def test_a_broken_template_is_read_as_text():
    assert _name("{% if tools %}<tool_call>") == "hermes"


def test_a_format_can_be_named():
    assert named_tool_call_format("hermes") is FORMATS["hermes"]
    with pytest.raises(OptionError, match="did you mean 'hermes'"):
        named_tool_call_format("herms")

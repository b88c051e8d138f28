"""Flags of grammars, tools and speculation."""

import json

import pytest

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.speculation.options import Speculation
from onnxgen.facade.tool_choice import ToolChoice
from onnxgen.preprocess.tool_calls.tools import ToolCall

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "weather"}}]
CALLS = (ToolCall("call_1", "weather", '{"place": "Lima"}'), ToolCall("call_2", "time", "{}"))


@pytest.fixture
def files(tmp_path):
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    (tmp_path / "tools.json").write_text(json.dumps(TOOLS))
    (tmp_path / "broken.json").write_text("{")
    return tmp_path


@pytest.mark.parametrize("command", ["generate", "run"])
def test_a_schema_is_what_the_answer_must_look_like(onnxgen, llm, files, command):
    result = onnxgen(command, "m", "x", "--schema", str(files / "schema.json"))
    assert result.exit_code == 0, result.stderr
    assert llm.options[0].grammar == Grammar.json_schema(SCHEMA)


def test_other_forms_are_settings(onnxgen, llm):
    onnxgen("generate", "m", "x", "--set", 'response_format={"type": "regex", "regex": "[0-9]+"}')
    assert llm.options[0].grammar == Grammar.regex("[0-9]+")


@pytest.mark.parametrize("command", ["generate", "run"])
def test_tools_are_offered_and_their_calls_are_lines_of_json(onnxgen, llm, files, command):
    llm.calls = CALLS
    settings = ("--set", "tool_choice=required", "--set", "parallel_tool_calls=false")
    result = onnxgen(command, "m", "hi you", "--tools", str(files / "tools.json"), *settings)
    assert result.exit_code == 0, result.stderr
    assert llm.tools == TOOLS
    assert llm.prompt_options.choice == ToolChoice("required") and not llm.prompt_options.parallel_tool_calls
    text, *calls = result.stdout.splitlines()
    assert text == "HI YOU"
    assert [json.loads(call)["function"]["name"] for call in calls] == ["weather", "time"]


def test_calls_are_part_of_the_json_of_an_answer(onnxgen, llm, files):
    llm.calls = CALLS
    result = onnxgen("generate", "m", "hi", "--json", "--tools", str(files / "tools.json"))
    told = json.loads(result.stdout)["tool_calls"]
    assert told[0] == {
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"place": "Lima"}'},
    }


def test_results_of_tools_are_sent_when_all_are_there(onnxgen, llm, files):
    llm.calls = CALLS
    lines = "/result early\nhi\n/result sunny and warm\n/result noon\n"
    result = onnxgen("run", "m", "--tools", str(files / "tools.json"), input=lines)
    assert result.exit_code == 0, result.stderr
    assert "called no tool" in result.stderr and "the result of time?" in result.stderr
    assert llm.sessions[0].results == ["sunny and warm", "noon"]
    assert "SUNNY AND WARM NOON" in result.stdout


@pytest.mark.parametrize("command", ["/reset", "/system be kind"])
def test_results_are_not_asked_for_where_the_conversation_begins_anew(onnxgen, llm, files, command):
    llm.calls = CALLS
    lines = f"hi\n/result sunny\n{command}\n/result noon\n"
    result = onnxgen("run", "m", "--tools", str(files / "tools.json"), input=lines)
    assert result.exit_code == 0, result.stderr
    assert "called no tool" in result.stderr and "error" not in result.stderr
    assert not hasattr(llm.sessions[0], "results"), "something was sent"


@pytest.mark.parametrize("flag", ["--schema", "--tools"])
@pytest.mark.parametrize("name", ["broken.json", "missing.json"])
def test_files_that_cannot_be_read_are_refused_by_name(onnxgen, llm, files, flag, name):
    result = onnxgen("generate", "m", "x", flag, str(files / name))
    assert result.exit_code == 2 and flag in result.stderr and name in result.stderr
    assert not llm.options


def test_tools_must_be_a_list_and_need_a_chat_template(onnxgen, llm, files):
    result = onnxgen("generate", "m", "x", "--tools", str(files / "schema.json"))
    assert result.exit_code == 2 and "a JSON list of definitions was expected" in result.stderr
    result = onnxgen("generate", "m", "x", "--raw", "--tools", str(files / "tools.json"))
    assert result.exit_code == 2 and "--tools was given, but --raw" in result.stderr


@pytest.mark.parametrize(
    ("flags", "expected", "draft"),
    [
        ((), None, None),
        (("--speculation", "prompt_lookup"), Speculation("prompt_lookup"), None),
        (("--draft-model", "small"), Speculation("draft_model"), "small"),
        (("--draft-model", "small", "--speculation", "off"), Speculation("off"), "small"),
        (("--set", 'speculation={"method": "auto", "max_draft_tokens": 3}'), Speculation("auto", 3), None),
    ],
)
def test_speculation(onnxgen, llm, flags, expected, draft):
    result = onnxgen("generate", "m", "x", *flags)
    assert result.exit_code == 0, result.stderr
    assert llm.options[0].speculation == expected and llm.opened.draft_model == draft


def test_a_method_that_there_is_not_is_refused(onnxgen, llm):
    result = onnxgen("generate", "m", "x", "--speculation", "prompt_lokup")
    assert result.exit_code == 2 and "prompt_lookup" in result.stderr

"""Calls and answers as messages, and tools told in a conversation's own texts."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat_templates import TEMPLATES, chat_template
from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.tool_calls.messages import answer_message, call_message, definition_message
from onnxgen.preprocess.tool_calls.prompted import PROMPTED_FORMAT, shows_tools, with_tools
from onnxgen.preprocess.tool_calls.tools import ToolCall, ToolDefinition, read_tools
from tool_call_runs import DATA, TOOLS, parse

TEMPLATE_FILES = sorted((DATA / "templates").glob("*.jinja"))
WITHOUT_TOOLS = {
    "functionary-v3.2--names", "hermes--thinking", "hermes--words-only", "nemotron--words-only",
    "none--chatml", "none--drops-calls", "none--gemma",
}  # fmt: skip
QUESTION = {"role": "user", "content": "u5d"}


class TestMessages:
    def test_a_call_is_an_entry_as_clients_know_it(self):
        assert call_message(ToolCall("i", "now", '{"a":  1}')) == {
            "id": "i",
            "type": "function",
            "function": {"name": "now", "arguments": '{"a":  1}'},
        }

    def test_a_definition_reads_back_as_itself(self):
        for tool in (*TOOLS, ToolDefinition("bare", "", {"type": "object"})):
            [again] = read_tools([definition_message(tool)])
            assert again == tool
        assert "description" not in definition_message(ToolDefinition("bare", "", {}))["function"]

    def test_an_answer_has_what_there_is_of_it(self):
        call = ToolCall("i", "now", "{}")
        assert answer_message("a") == {"role": "assistant", "content": "a"}
        assert answer_message("", "b", (call,)) == {
            "role": "assistant",
            "content": "",
            "reasoning_content": "b",
            "tool_calls": [call_message(call)],
        }

    @pytest.mark.parametrize("path", TEMPLATE_FILES, ids=lambda path: path.stem)
    @pytest.mark.parametrize(("text", "reasoning"), [("", ""), ("a4n", "r7g")])
    def test_an_answer_with_a_call_goes_into_the_next_prompt(self, path, text, reasoning):
        template = chat_template(path.read_text(encoding="utf-8"))
        call = ToolCall("functions.get_weather:0", "get_weather", '{"city": "Lima"}')
        messages = [
            QUESTION,
            answer_message(text, reasoning, (call,)),
            {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": "w3t"},
        ]
        if path.stem in WITHOUT_TOOLS:
            prompt = template.render(with_tools(messages, TOOLS))
        else:
            prompt = template.render(messages, tools=[definition_message(tool) for tool in TOOLS])
        assert prompt.count("u5d") == prompt.count("Lima") == 1


class TestShowsTools:
    @pytest.mark.parametrize("path", TEMPLATE_FILES, ids=lambda path: path.stem)
    def test_of_every_template(self, path):
        assert shows_tools(chat_template(path.read_text(encoding="utf-8"))) == (
            path.stem not in WITHOUT_TOOLS
        )

    def test_of_templates_that_are_used_with_and_without(self):
        found = {name for name, text in TEMPLATES.items() if shows_tools(chat_template(text))}
        assert found == {"qwen", "llama", "mistral", "glm"}

    def test_a_template_that_refuses_tools_shows_none(self):
        text = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}{{ messages[0].content }}"
        assert not shows_tools(chat_template(text))


class TestWithTools:
    """Of conversations for templates that have no place for tools."""

    def test_tools_are_told_in_front(self):
        [told, question] = with_tools([QUESTION], TOOLS)
        assert question == QUESTION
        assert told["role"] == "system"
        lines = told["content"].partition("<tools>\n")[2].partition("\n</tools>")[0].splitlines()
        assert [json.loads(line) for line in lines] == [definition_message(tool) for tool in TOOLS]

    @pytest.mark.parametrize(
        "content", ["Be brief.", [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]]
    )
    def test_instructions_stay_and_come_first(self, content):
        messages = [{"role": "system", "content": content}, QUESTION]
        [told, question] = with_tools(messages, TOOLS)
        assert told["content"].startswith("Be brief.\n\nYou may call tools.")
        assert question == QUESTION
        assert messages[0]["content"] == content

    @pytest.mark.parametrize("content", [None, "", []])
    def test_instructions_that_say_nothing_leave_no_gap(self, content):
        [told, _] = with_tools([{"role": "system", "content": content}, QUESTION], TOOLS)
        assert told["content"].startswith("You may call tools.")

    def test_descriptions_are_written_as_they_are(self):
        [told] = with_tools([], [ToolDefinition("wetter", "Wie wird's in {Köln}? 😀", {})])
        assert "Wie wird's in {Köln}? 😀" in told["content"]

    def test_only_what_comes_first_is_taken_for_instructions(self):
        later = {"role": "system", "content": "Now in French."}
        [told, *rest] = with_tools([QUESTION, later], TOOLS)
        assert rest == [QUESTION, later]
        assert "French" not in told["content"]

    @pytest.mark.parametrize("content", ["w", [{"type": "text", "text": "w"}]])
    def test_results_in_a_row_are_one_message(self, content):
        results = [{"role": "tool", "content": text} for text in (content, "", "x\n")]
        [_, question, said, after] = with_tools([QUESTION, *results, QUESTION], TOOLS)
        assert (question, after) == (QUESTION, QUESTION)
        assert said == {
            "role": "user",
            "content": "<tool_response>\nw\n</tool_response>\n<tool_response>\n\n</tool_response>\n"
            "<tool_response>\nx\n\n</tool_response>",
        }

    def test_results_are_not_mixed_with_what_a_user_wrote(self):
        question = {"role": "user", "content": "<tool_response>, what is that?"}
        [_, first, second] = with_tools([question, {"role": "tool", "content": "w"}], TOOLS)
        assert first == question
        assert second["content"] == "<tool_response>\nw\n</tool_response>"

    def test_results_that_are_data_are_json(self):
        [_, said] = with_tools([{"role": "tool", "content": {"grad": 7, "ort": "Köln"}}], TOOLS)
        assert said["content"] == '<tool_response>\n{"grad": 7, "ort": "Köln"}\n</tool_response>'

    @pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}', None, "", " ", "{}", "missing"])
    @pytest.mark.parametrize("flat", [False, True])
    @pytest.mark.parametrize("content", ["Let me see.", None, "missing", [{"type": "text", "text": "So."}]])
    def test_calls_are_written_as_the_format_reads_them(self, arguments, flat, content):
        function = {"name": "now"} | ({} if arguments == "missing" else {"arguments": arguments})
        call = function if flat else {"id": "i", "type": "function", "function": function}
        message = {"role": "assistant", "tool_calls": [call, call]}
        message |= {} if content == "missing" else {"content": content}
        said = with_tools([message], TOOLS)[-1]
        assert said.keys() == {"role", "content"}
        run = parse(PROMPTED_FORMAT, said["content"])
        expected = {"a": 1} if arguments in ({"a": 1}, '{"a": 1}') else {}
        assert [(name, json.loads(text)) for name, text in run.said] == [("now", expected)] * 2
        assert run.content == {"Let me see.": "Let me see."}.get(
            str(content), "So." if isinstance(content, list) else ""
        )

    def test_an_answer_without_calls_stays(self):
        for extra in ({}, {"tool_calls": None}, {"tool_calls": []}):
            answer = {"role": "assistant", "content": "a", **extra}
            assert with_tools([answer], TOOLS)[1:] == [answer]

    @given(
        st.dictionaries(
            st.text(max_size=5),
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.text(),
                st.sampled_from(["</tool_call>", '"}}\n</tool_call>', "<tool_call>\n", "\u2028", "\\"]),
            ),
            max_size=4,
        ),
        st.booleans(),
    )  # fmt: skip
    def test_whatever_the_arguments_are_they_can_be_read_back(self, arguments, as_text):
        given = json.dumps(arguments) if as_text else arguments
        call = {"function": {"name": "write_file", "arguments": given}}
        said = with_tools([{"role": "assistant", "content": "", "tool_calls": [call]}], TOOLS)[-1]
        [(name, text)] = parse(PROMPTED_FORMAT, said["content"]).said
        assert (name, json.loads(text)) == ("write_file", arguments)

    @pytest.mark.parametrize(
        ("messages", "message"),
        [
            (["hi"], "message 0 is"),
            ([QUESTION, {"content": "a"}], "message 1 has no role"),
            ("hi", "messages must be a list"),
        ],
    )
    def test_messages_that_are_none_are_refused_by_their_place(self, messages, message):
        with pytest.raises(ChatTemplateError, match=message):
            with_tools(messages, TOOLS)

"""Conversations with tool calls as prompts; what is expected was rendered by transformers (make_prompt_goldens.py)."""

import json
from pathlib import Path

import pytest

from chat_templates import chat_template
from onnxgen.errors import ChatTemplateError
from onnxgen.preprocess.tool_calls.detection import find_tool_call_format
from onnxgen.preprocess.tool_calls.prompted import with_tools

FOLDER = Path(__file__).parents[3] / "data" / "tool_calls" / "prompts"
FAMILIES = sorted(path.stem for path in FOLDER.glob("*.jinja"))
KIMI_IDS = {"callid001": "functions.get_weather:0", "callid002": "functions.now:1"}


def text_of(family):
    return (FOLDER / f"{family}.jinja").read_text(encoding="utf-8")


@pytest.fixture
def conversation():
    return json.loads((FOLDER / "conversation.json").read_text(encoding="utf-8"))


def expected(family):
    return (FOLDER / f"{family}.txt").read_text(encoding="utf-8")


def with_ids(messages, ids):
    text = json.dumps(messages)
    for old, new in ids.items():
        text = text.replace(f'"{old}"', json.dumps(new))
    return json.loads(text)


@pytest.mark.parametrize("family", FAMILIES)
def test_calls_and_results_are_shown_as_the_template_means_them(family, conversation):
    messages = with_ids(conversation["messages"], KIMI_IDS if family == "kimi-k2" else {})
    rendered = chat_template(text_of(family)).render(messages, tools=conversation["tools"])
    assert rendered == expected(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_it_makes_no_difference_how_a_client_says_it(family, conversation):
    messages = with_ids(conversation["messages"], KIMI_IDS if family == "kimi-k2" else {})
    for message in messages:
        if message["role"] == "assistant" and "tool_calls" in message:
            del message["content"]
            message["refusal"] = None
            for call in message["tool_calls"]:
                call["function"]["arguments"] = json.loads(call["function"]["arguments"] or "{}")
        elif message["role"] == "tool" and isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
    rendered = chat_template(text_of(family)).render(messages, tools=conversation["tools"])
    assert rendered == expected(family)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_format_of_a_family_is_known_by_its_template(family):
    format = find_tool_call_format(text_of(family), None)
    assert format is not None and format.name == family


def test_ids_are_shortened_alike_in_calls_and_results(conversation):
    ids = {"callid001": "call_0123456789", "callid002": "x"}
    messages = with_ids(conversation["messages"], ids)
    rendered = chat_template(text_of("mistral-v3")).render(messages, tools=conversation["tools"])
    calls, results = rendered.split("[TOOL_CALLS]")[1].split("</s>")[:2]
    shown = [call["id"] for call in json.loads(calls)]
    assert all(len(call_id) == 9 and f'"call_id": "{call_id}"' in results for call_id in shown)
    assert len(set(shown)) == 2


@pytest.mark.parametrize("calls", ["abc", [None], {"name": "f"}])
def test_calls_that_are_no_list_of_objects_are_refused_in_told_conversations(calls):
    with pytest.raises(ChatTemplateError, match="must be a list of objects"):
        with_tools([{"role": "assistant", "tool_calls": calls}], ())

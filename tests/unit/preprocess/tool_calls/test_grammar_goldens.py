"""The golden answers of each format under its grammar."""

import json
from pathlib import Path

import pytest

from answer_grammars import Writer, marker_texts
from onnxgen.preprocess.answer_grammar import answer_grammar
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.grammar import ToolRule
from onnxgen.preprocess.tool_calls.layouts import BraceCall
from onnxgen.preprocess.tool_calls.tools import read_tools

DATA = Path(__file__).parents[3] / "data" / "tool_calls"
TOOLS = read_tools(json.loads((DATA / "tools.json").read_text(encoding="utf-8")))
NAMES = [name for name in FORMATS if (DATA / f"{name}.json").exists()]
CALLS = ("one call", "no parameters", "two calls", "nested braces", "other writing systems", "code",
         "numbers and words", "text around", "blanks around", "plain text", "text in front", "no call")  # fmt: skip


@pytest.mark.parametrize("tokens", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("name", NAMES)
def test_what_models_write_is_taken_and_what_is_malformed_is_not(name, tokens, tmp_path):
    format = FORMATS[name]
    writer = Writer(tmp_path, special=marker_texts(format) if tokens else ())
    bound = bind(format, writer.tokenizer)
    auto, single, required = (
        answer_grammar(writer.tokenizer, tools=ToolRule(bound, TOOLS, **rule))
        for rule in ({}, {"parallel": False}, {"choice": "required"})
    )
    for case in json.loads((DATA / f"{name}.json").read_text(encoding="utf-8")):
        what, text, num_calls = case["case"], case["text"], len(case["calls"])
        if what == "numbers and words" and isinstance(format.body, BraceCall):
            continue  # its keys are not in the order of such a format
        if what == "plain text" and format.starts_named:
            continue  # has no name
        if what in CALLS:
            assert writer.taken(auto, text) == (text, True), what
            assert writer.takes(single, text) == (num_calls < 2), what
            only_calls = num_calls > 0 and not case["content"].strip()
            assert writer.takes(required, text) == only_calls, what
        elif what == "a malformed one first" and not format.known_names_only:
            assert not writer.takes(auto, text)

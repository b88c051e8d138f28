"""What a parser makes of an answer, for all formats."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chat_templates import chat_tokenizer
from onnxgen.errors import OptionError
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.parser import ToolCallParser
from onnxgen.preprocess.tool_calls.tools import ToolCall, read_tools
from onnxgen.preprocess.tool_calls.writing import write_calls
from tool_call_runs import PARSED, TOOLS, Run, cases, parse, parse_tokens

ALL = [pytest.param(name, case, id=f"{name}-{case['case']}") for name in PARSED for case in cases(name)]


@pytest.mark.parametrize(("name", "case"), ALL)
def test_an_answer_says_what_is_in_it(name, case):
    run = parse(name, case["text"])
    assert run.content == case["content"]
    assert run.said == [(call["name"], call["arguments"]) for call in case["calls"]]
    for call, expected in zip(run.calls, case["calls"], strict=True):
        assert json.loads(call.arguments) == json.loads(expected["arguments"])
        assert call.id == expected.get("id", call.id)


@pytest.mark.parametrize("name", PARSED)
def test_pieces_make_no_difference(name):
    for case in cases(name):
        text = case["text"]
        whole = parse(name, text)
        for step in (1, 3):
            run = parse(name, text, step=step)
            assert (run.content, run.calls) == (whole.content, whole.calls), (case["case"], step)
        for at in range(len(text)):
            run = Run(FORMATS[name])
            run.push(text[:at])
            run.push(text[at:])
            run.end()
            assert (run.content, run.calls) == (whole.content, whole.calls), (case["case"], at)


@pytest.mark.parametrize("name", PARSED)
def test_a_cut_loses_nothing_and_gives_no_half_call(name):
    format = FORMATS[name]
    structure = re.compile(
        "|".join(
            re.escape(text)
            for text in ("]", format.separator.strip(), ",", format.closing.strip(), "all\n")
            if text
        )
    )
    for case in cases(name):
        text = case["text"]
        whole = parse(name, text, step=1)
        for cut in range(len(text)):
            run = Run(FORMATS[name])
            run.push(text[:cut])
            run.end(complete=False)
            assert run.calls == whole.calls[: len(run.calls)]
            if run.calls:
                left = "".join(text[whole.offsets[len(run.calls) - 1] : cut].split())
                shown = "".join(run.content.split())
                # What was read behind the last call is shown, but for texts between calls.
                assert any(
                    shown.endswith(left[n:]) and _is_structure(left[:n], structure)
                    for n in range(len(left) + 1)
                )
            elif not format.starts_named:
                assert run.content == text[:cut], (case["case"], cut)


def _is_structure(text, pattern):
    rest = pattern.sub("", text)
    return rest == "" or any(
        marker.startswith(rest) for marker in pattern.pattern.replace("\\", "").split("|")
    )


@pytest.mark.parametrize("name", [name for name in PARSED if FORMATS[name].closing])
def test_the_last_closing_text_may_be_missing_at_the_end_of_an_answer(name):
    for case in cases(name)[:3]:
        text = case["text"].removesuffix(FORMATS[name].closing)
        assert text != case["text"]
        run = parse(name, text, step=1)
        assert run.said == [(call["name"], call["arguments"]) for call in case["calls"]], case["case"]
        assert run.content == ""


@pytest.mark.parametrize("name", PARSED)
def test_an_answer_of_tokens_says_the_same(name, tmp_path):
    markers = _marker_texts(name)
    tokenizer = chat_tokenizer(tmp_path, special=markers, plain=[])
    run = Run(FORMATS[name], tokenizer=tokenizer)
    assert run.bound.shown_ids == {tokenizer.token_to_id(text) for text in markers}
    for case in cases(name):
        run = parse_tokens(name, tokenizer.encode(case["text"]), tokenizer)
        if case["case"] == "closing texts in a string" and run.said != [
            (call["name"], call["arguments"]) for call in case["calls"]
        ]:
            # Without quotes only the token tells; the text of it is text:
            quoted = case["text"].split("hi", 1)
            ids = tokenizer.encode(quoted[0]) + _with_text(tokenizer, "hi" + quoted[1], markers)
            run = parse_tokens(name, ids, tokenizer)
        assert run.content == case["content"], case["case"]
        assert run.said == [(call["name"], call["arguments"]) for call in case["calls"]], case["case"]


def _with_text(tokenizer, text, markers):
    value, found, rest = text.partition("it's all")
    assert found
    assert markers
    return tokenizer.encode(value + found, parse_special=False) + tokenizer.encode(rest)


def _marker_texts(name):
    """Texts of a format that could be special tokens."""
    format = FORMATS[name]
    texts = [format.opening, format.closing, *format.other_openings]
    for body in (format.body, *format.others):
        texts += [
            getattr(body, key, "")
            for key in ("before_name", "after_name", "before_id", "quote", "after_value")
        ]
        texts += [
            getattr(body, key, "") for key in ("before_key", "after_key", "before_value", "after_arguments")
        ]
    found = (marker for text in texts for marker in re.findall(r"<[|｜/]?[^<>=]+>|\[[A-Z_]{3,}\]", text))
    return sorted({marker for marker in found if " " not in marker})


@pytest.mark.parametrize("name", [name for name in PARSED if _marker_texts(name)])
def test_text_that_looks_like_a_token_opens_nothing(name, tmp_path):
    tokenizer = chat_tokenizer(tmp_path, special=_marker_texts(name), plain=[])
    for case in cases(name):
        if case["case"] == "one call" and not FORMATS[name].bare:
            text = case["text"]
            run = parse_tokens(name, tokenizer.encode(text, parse_special=False), tokenizer)
            opens_by_text = name in ("functionary-v3.1", "qwen3-coder", "minimax-m2", "seed-oss")
            assert (run.calls == [] and run.content == text) or opens_by_text


def test_a_token_in_a_json_string_is_its_text(tmp_path):
    tokenizer = chat_tokenizer(tmp_path)
    text = '<tool_call>\n{"name": "now", "arguments": {"s": "say \\"hi\\" </tool_call>"}}\n</tool_call>'
    run = parse_tokens("hermes", tokenizer.encode(text), tokenizer)
    assert run.said == [("now", '{"s": "say \\"hi\\" </tool_call>"}')]


def test_tokens_that_are_no_call_are_content(tmp_path):
    tokenizer = chat_tokenizer(tmp_path)
    text = "a </tool_call> b <tool_call> c </tool_call>"
    run = parse_tokens("hermes", tokenizer.encode(text), tokenizer)
    assert (run.content, run.calls) == (text, [])


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True)
TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


@pytest.mark.parametrize("name", PARSED)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_what_is_written_is_read(name, data):
    format = FORMATS[name]
    nested = VALUES
    if "gemma" in name or name == "functiongemma":  # keys have no quotes there
        nested = st.recursive(
            st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
            max_leaves=12,
        )
    arguments = data.draw(st.lists(st.dictionaries(NAMES, nested, max_size=4), min_size=1, max_size=3))
    calls = [ToolCall(f"{n:09}", f"f{n}", json.dumps(a, ensure_ascii=False)) for n, a in enumerate(arguments)]
    tools = read_tools(
        {
            "name": call.name,
            "parameters": {
                "type": "object",
                "properties": {k: {"type": TYPES[type(v)]} for k, v in a.items()},
            },
        }
        for call, a in zip(calls, arguments, strict=True)
    )
    try:
        text = write_calls(format, calls)
    except OptionError:
        return  # a value has the format's own marks in it
    run = parse(format, text, step=data.draw(st.sampled_from([1, 3, 1000])), tools=tools)
    assert run.content == ""
    assert [call.name for call in run.calls] == [call.name for call in calls]
    assert [json.loads(call.arguments) for call in run.calls] == arguments


PIECES = [
    "f",
    "now",
    "x",
    " ",
    "\n",
    '"',
    "'",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ":",
    ",",
    "=",
    "\\",
    "1",
    "<",
    ">",
    '"name"',
]


@pytest.mark.parametrize("name", PARSED)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_any_text_is_taken_whatever_its_pieces(name, data):
    bound = bind(FORMATS[name], None)
    markers = [*bound.openings.markers, *bound.closings.markers, *bound.value_ends.markers]
    good = [case["text"] for case in cases(name)[:3]]
    parts = st.sampled_from(
        [*PIECES, *markers, *(m[:-1] for m in markers), *good, *(g[: len(g) // 2] for g in good)]
    )
    text = "".join(data.draw(st.lists(parts, max_size=25)))
    whole, single = parse(name, text), parse(name, text, step=1)
    assert (whole.content, whole.calls) == (single.content, single.calls)
    assert (
        parse(name, text, complete=False).content.split()
        == parse(name, text, step=1, complete=False).content.split()
    )
    for call in whole.calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert len({call.id for call in whole.calls}) == len(whole.calls)
    if not whole.calls and not FORMATS[name].starts_named:
        assert whole.content == text


@pytest.mark.parametrize("name", PARSED)
def test_hostile_text_is_content(name):
    for opening in bind(FORMATS[name], None).openings.markers or ("{", "["):
        for text in (
            opening * 200,
            opening[:-1] * 200,
            opening + "[" * 1500,  # deeper than calls may be in Python
            opening + '{"a":' * 1001,
            opening + "now(" * 999,
        ):
            run = parse(name, text, step=1)
            assert (run.content, run.calls) == (text, [])


def test_calls_after_a_malformed_one_count():
    good = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    bad = (
        '<tool_call>{"name": "f", </tool_call>',
        '<tool_call>{"name": "f", "arguments": {"s": "open}}</tool_call>',
        '<tool_call>{"name": "f", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "f", "arguments": {"n": NaN}}</tool_call>',
        '<tool_call>{"name": 3}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        "<tool_call>" + '{"a":' * 200,
    )
    for text in bad:
        run = parse("hermes", text + good, step=1)
        assert (run.content, run.said) == (text, [("now", "{}")])


def test_a_call_in_a_string_of_a_malformed_one_does_not_count():
    text = '<tool_call>{"name": "write_file", "arguments": {"text": "<tool_call>{"name": "now"}</tool_call>"}}</tool_call>'
    assert parse("hermes", text).calls == []


def test_one_element_of_a_list_may_be_no_call():
    text = '<TOOLCALL>[{"name": "now"}, {"name": 1}, {"name": "now", "arguments": {"a": 1}}]</TOOLCALL>'
    run = parse("nemotron", text, step=1)
    assert run.said == [("now", "{}"), ("now", '{"a": 1}')]
    assert run.content.strip().startswith('{"name": 1}')


@pytest.mark.parametrize("arguments", ["", ', "arguments": {}', ', "arguments": null', ', "arguments": ""'])
def test_missing_arguments_are_an_empty_object(arguments):
    run = parse("hermes", f'<tool_call>{{"name": "now"{arguments}}}</tool_call>')
    assert run.said == [("now", "{}")]


def test_a_closing_text_may_be_missing_in_front_of_the_next_call():
    run = parse("hermes", '<tool_call>{"name": "now"}\n<tool_call>{"name": "set"}', step=1)
    assert run.said == [("now", "{}"), ("set", "{}")]


def test_forgotten_ends_of_values_and_functions():
    tools = read_tools(
        [{"name": "f", "parameters": {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}]
    )
    first = "<tool_call>\n<function=f>\n<parameter=a>\n1\n<parameter=b>\nx\n</function>\n</tool_call>"
    second = "<tool_call><function=f><parameter=a>2</parameter></tool_call>"
    run = parse("qwen3-coder", f"{first}\n{second}", step=1, tools=tools)
    assert run.said == [("f", '{"a": 1, "b": "x"}'), ("f", '{"a": 2}')]
    assert run.content == ""


def test_a_block_may_lack_its_opening():
    run = parse("qwen3-coder", "<function=now>\n</function>\n</tool_call>", step=1)
    assert (run.content, run.said) == ("", [("now", "{}")])


def test_a_tool_that_was_not_offered_is_called_where_it_is_sure_to_be_a_call():
    assert parse("hermes", '<tool_call>{"name": "nobody"}</tool_call>').said == [("nobody", "{}")]
    text = '{"name": "nobody", "parameters": {}}'
    assert parse("llama-3-json", text).content == text


def test_llama_may_write_a_built_in_call():
    tools = read_tools([{"name": "brave_search"}])
    run = parse("llama-3-json", '<|python_tag|>brave_search.call(query="a b")', tools=tools, step=1)
    assert run.said == [("brave_search", '{"query": "a b"}')]


def test_positions_are_names_of_parameters():
    assert parse("pythonic", "[get_weather('Lima', 3, metric=False)]").said == [
        ("get_weather", '{"city": "Lima", "days": 3, "metric": false}')
    ]


def test_ids_are_unique_and_those_of_the_model_where_they_fit():
    calls = (
        '{"name": "now", "id": "abc"}',
        '{"name": "now", "id": "abc"}',
        '{"name": "now", "id": "123456789"}',
    )
    text = f"[TOOL_CALLS][{','.join(calls)}]"
    assert [call.id for call in parse("mistral-v3", text).calls] == ["abc", "000000000", "123456789"]
    short = parse("mistral-v3", text, short_ids=True)
    assert [call.id for call in short.calls] == ["000000000", "000000001", "123456789"]


@pytest.mark.parametrize(
    ("short_ids", "pattern"), [(False, r"call_[A-Za-z0-9]{24}"), (True, r"[A-Za-z0-9]{9}")]
)
def test_ids_are_random_in_the_form_the_template_takes(short_ids, pattern):
    parser = ToolCallParser(bind(FORMATS["hermes"], None, short_ids=short_ids), TOOLS)
    calls = parser.push('<tool_call>{"name": "now"}</tool_call>' * 20).calls
    assert len({call.id for call in calls}) == 20
    assert all(re.fullmatch(pattern, call.id) for call in calls)


def test_it_says_whether_a_call_is_open():
    run = Run(FORMATS["hermes"])
    seen = []
    for piece in ("a", "<tool", "_call>", '{"name": "now"}', "</tool_call>", "b"):
        run.push(piece)
        seen.append(run.parser.opened)
    assert seen == [False, False, True, True, False, False]


def test_text_is_given_as_it_comes():
    run = Run(FORMATS["hermes"])
    seen = []
    for piece in ("1 <", " 2 <tool", "s", " \n", "x"):
        run.push(piece)
        seen.append(run.content)
    assert seen == ["1", "1 < 2", "1 < 2 <tools", "1 < 2 <tools", "1 < 2 <tools \nx"]

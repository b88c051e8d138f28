import json
import random

import jsonschema
import pytest

from answer_grammars import Writer, marker_texts
from onnxgen.errors import GrammarError, OptionError
from onnxgen.preprocess.answer_grammar import answer_grammar
from onnxgen.preprocess.tool_calls.bound import bind
from onnxgen.preprocess.tool_calls.formats import FORMATS
from onnxgen.preprocess.tool_calls.grammar import ToolRule, banned_openings
from onnxgen.preprocess.tool_calls.tools import ToolCall, ToolDefinition, read_tools
from onnxgen.preprocess.tool_calls.writing import write_calls

NAMES = [name for name, format in FORMATS.items() if not format.has_own_parser]
TOOLS = read_tools(
    [
        {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "days": {"type": "integer"},
                    "unit": {"enum": ["c", "f"]},
                    "near": {"$ref": "#/$defs/place"},
                },
                "required": ["city"],
                "additionalProperties": False,
                "$defs": {
                    "place": {
                        "type": "object",
                        "properties": {"far": {"type": "boolean"}},
                        "required": ["far"],
                        "additionalProperties": False,
                    }
                },
            },
        },
        {"name": "now"},
        {
            "name": "list_all",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
                    "x": {"anyOf": [{"type": "number"}, {"type": "null"}]},
                },
                "required": ["tags", "x"],
                "additionalProperties": False,
            },
        },
    ]
)
BY_NAME = {tool.name: tool for tool in TOOLS}
LIKELY = "\"'{}[]()</>|:,\n`} ab1"


@pytest.fixture(scope="module")
def writers(tmp_path_factory):
    made = {}

    def writer(name, tokens):
        if (name, tokens) not in made:
            folder = tmp_path_factory.mktemp("writer")
            special = marker_texts(FORMATS[name]) if tokens else ()
            made[name, tokens] = Writer(folder, special=special)
        return made[name, tokens]

    return writer


def grammar(writer, format_name, **rule):
    bound = bind(FORMATS[format_name], writer.tokenizer)
    return bound, answer_grammar(writer.tokenizer, tools=ToolRule(bound, TOOLS, **rule))


def check(calls):
    for call in calls:
        jsonschema.validate(json.loads(call.arguments), BY_NAME[call.name].parameters)


@pytest.mark.parametrize("tokens", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("name", NAMES)
def test_random_required_calls_are_read_and_valid(writers, name, tokens):
    writer = writers(name, tokens)
    bound, required = grammar(writer, name, choice="required")
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    answers = [ids for _ in range(4) if (ids := writer.random_answer(required, rng, likely=LIKELY))]
    for ids in answers:
        content, calls = writer.read(bound, TOOLS, ids)
        text = writer.tokenizer.decode(ids, skip_special_tokens=False)
        assert calls and not content.strip(), text
        check(calls)


@pytest.mark.parametrize("tokens", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("name", NAMES)
def test_a_named_tool_is_called_once(writers, name, tokens):
    writer = writers(name, tokens)
    bound, named = grammar(writer, name, name="now")
    rng = random.Random(7)
    for _ in range(3):
        ids = writer.random_answer(named, rng, likely=LIKELY, most=3000)
        content, calls = writer.read(bound, TOOLS, ids)
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [("now", {})]
        assert not content.strip()


@pytest.mark.parametrize("tokens", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("name", NAMES)
def test_text_passes_until_a_call_opens(writers, name, tokens):
    writer = writers(name, tokens)
    _, auto = grammar(writer, name)
    if FORMATS[name].starts_named:
        assert writer.takes(auto, "all\nHello") and not writer.takes(auto, "Hello")
        return
    for text in (
        "",
        "Hello",
        "a <b> [c] {d} >e",
        "  [1] x",
        '{"a": 1}',
        "[link](x)",
        "```python\nx\n```",
        "\N{SNOWMAN}\n",
    ):
        assert writer.takes(auto, text), text


def call(name, **arguments):
    return ToolCall("abcde1234", name, json.dumps(arguments))


GOOD = call("weather", city="Lima", days=3, unit="c")
BAD = {
    "unknown tool": call("climate", city="Lima"),
    "missing argument": call("weather", days=3),
    "argument of another type": call("weather", city="Lima", days="three"),
    "value that is not listed": call("weather", city="Lima", unit="k"),
    "unknown argument": call("weather", city="Lima", when=1),
    "argument that is not taken": call("now", x=1),
    "too few items": call("list_all", tags=[], x=None),
}


@pytest.mark.parametrize("tokens", [False, True], ids=["spelled", "tokens"])
@pytest.mark.parametrize("name", NAMES)
def test_calls_that_break_their_schema_are_not_taken(writers, name, tokens):
    writer = writers(name, tokens)
    format = FORMATS[name]
    _, required = grammar(writer, name, choice="required")
    _, auto = grammar(writer, name)
    assert writer.takes(required, write_calls(format, [GOOD]))
    assert writer.takes(auto, write_calls(format, [GOOD]))
    for what, bad in BAD.items():
        text = write_calls(format, [bad])
        assert not writer.takes(required, text), what
        if not (format.known_names_only and what == "unknown tool"):  # that is text, for the parser as well
            assert not writer.takes(auto, text), what


@pytest.mark.parametrize("name", NAMES)
def test_one_call_is_one_call(writers, name):
    writer = writers(name, True)
    format = FORMATS[name]
    two = write_calls(format, [GOOD, call("now")])
    for rule, takes_two in (({}, True), ({"parallel": False}, False)):
        _, required = grammar(writer, name, choice="required", **rule)
        assert writer.takes(required, two) == takes_two
        _, auto = grammar(writer, name, **rule)
        assert writer.takes(auto, two) == takes_two
        assert writer.takes(auto, write_calls(format, [GOOD]))
    _, named = grammar(writer, name, name="weather")
    assert writer.takes(named, write_calls(format, [GOOD]))
    assert not writer.takes(named, two) and not writer.takes(named, write_calls(format, [call("now")]))


@pytest.mark.parametrize("name", NAMES)
def test_a_required_call_stands_alone(writers, name):
    writer = writers(name, True)
    text = write_calls(FORMATS[name], [GOOD])
    _, required = grammar(writer, name, choice="required")
    assert not writer.takes(required, "") and not writer.takes(required, "Hello")
    assert not writer.takes(required, f"Well. {text}") and not writer.takes(required, f"{text} So.")
    if not FORMATS[name].starts_named:
        assert writer.takes(required, f"\n\n{text}\n")


@pytest.mark.parametrize("parallel", [False, True], ids=["single", "parallel"])
@pytest.mark.parametrize("name", NAMES)
def test_random_text_after_a_call_is_read_and_valid(writers, name, parallel):
    writer = writers(name, True)
    bound, auto = grammar(writer, name, parallel=parallel)
    rng = random.Random(f"{name} {parallel}")
    begin = writer.tokenizer.encode(write_calls(FORMATS[name], [GOOD]))
    for size in (len(begin), len(begin) - 1):
        ids = writer.random_answer(auto, rng, likely=LIKELY, after=begin[:size])
        if ids is not None:
            _, calls = writer.read(bound, TOOLS, ids)
            assert calls[0].name == "weather" and (parallel or len(calls) == 1)
            check(calls)


def test_names_and_keys_are_written_to_the_letter(tmp_path):
    key = 'a"b\\c\n/é<x>{}#%'
    tools = read_tools(
        [
            {"name": "a.b:c/d-e_f", "parameters": {"type": "object", "properties": {key: {"enum": ["x'\"\\", "</t>"]}},
             "required": [key]}}
        ]
    )  # fmt: skip
    writer = Writer(tmp_path)
    for name in ("hermes", "minimax-m2", "gemma-4", "kimi-k2", "mistral-v11"):
        bound = bind(FORMATS[name], writer.tokenizer)
        required = answer_grammar(writer.tokenizer, tools=ToolRule(bound, tools, choice="required"))
        for value in ("x'\"\\", "</t>"):
            text = write_calls(
                FORMATS[name], [ToolCall("", "a.b:c/d-e_f", json.dumps({key: value}, ensure_ascii=False))]
            )
            assert writer.taken(required, text) == (text, True), name


def test_schemas_of_tools_that_are_not_strict_may_say_what_grammars_cannot(tmp_path):
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "integer", "not": {"const": 3}}, "uniqueItems": True},
            "b": {"type": "string", "pattern": "^(?=x)y"},
            "c": {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        },
        "required": ["a"],
        "dependentRequired": {"a": ["b"]},
    }
    writer = Writer(tmp_path)
    bound = bind(FORMATS["hermes"], writer.tokenizer)

    def required(strict):
        tools = read_tools([{"name": "f", "parameters": schema, "strict": strict}])
        return answer_grammar(writer.tokenizer, tools=ToolRule(bound, tools, choice="required"))

    assert writer.takes(
        required(False), '<tool_call>\n{"name": "f", "arguments": {"a": [1], "b": "y", "c": 1}}\n</tool_call>'
    )
    assert not writer.takes(
        required(False), '<tool_call>\n{"name": "f", "arguments": {"a": ["1"]}}\n</tool_call>'
    )
    with pytest.raises(GrammarError, match=r"uniqueItems|not|dependentRequired|look-around|oneOf"):
        writer.state(required(True))


def test_openings_that_are_tokens_can_be_banned(tmp_path):
    writer = Writer(tmp_path, special=["<|tool_calls_section_begin|>", "<|tool_call_begin|>"])
    kimi = bind(FORMATS["kimi-k2"], writer.tokenizer)
    ids = {writer.tokenizer.token_to_id(t) for t in ("<|tool_calls_section_begin|>", "<|tool_call_begin|>")}
    assert set(banned_openings(kimi, writer.tokenizer)) == ids
    assert banned_openings(bind(FORMATS["functionary-v3.1"], writer.tokenizer), writer.tokenizer) == ()


def test_a_tool_that_is_not_there_cannot_be_named(tmp_path):
    bound = bind(FORMATS["hermes"], None)
    with pytest.raises(OptionError, match="tool_choice names 'x', which is none of the tools: weather, now"):
        ToolRule(bound, TOOLS, name="x")
    with pytest.raises(OptionError, match="at least one"):
        ToolRule(bound, ())


CIRCULAR = {
    "type": "object",
    "properties": {"x": {"$ref": "#/$defs/node"}, "y": {"$ref": "#/$defs/loop"}},
    "required": ["x"],
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
                "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["v"],
            "additionalProperties": False,
        },
        "loop": {"anyOf": [*([{"$ref": "#/$defs/loop"}] * 10), {"type": "integer"}]},
    },
}


@pytest.mark.parametrize("name", ["hermes", "qwen3-coder", "deepseek-v3.2", "gemma-4", "pythonic"])
def test_schemas_may_go_in_circles(writers, name):
    writer = writers(name, False)
    bound = bind(FORMATS[name], writer.tokenizer)
    tools = read_tools([{"name": "f", "parameters": CIRCULAR}])
    required = answer_grammar(writer.tokenizer, tools=ToolRule(bound, tools, choice="required"))

    def takes(x):
        return writer.takes(required, write_calls(FORMATS[name], [call("f", x=x, y=3)]))

    assert takes({"v": 1}) and takes(
        {"kids": [{"v": 2}], "v": 1} if name == "gemma-4" else {"v": 1, "kids": [{"v": 2}]}
    )
    assert not takes({"v": 1, "next": {"v": "2"}}) and not takes({"v": 1, "kids": [{}]})


def test_schemas_that_are_nested_too_deeply_are_refused(writers):
    schema = {"type": "object"}
    for _ in range(5000):
        schema = {"type": "object", "properties": {"a": schema}}
    writer = writers("hermes", False)
    tools = (ToolDefinition("f", "", schema),)
    for name in ("hermes", "pythonic", "gemma-4", "qwen3-coder"):
        with pytest.raises(OptionError, match="'f' are nested too deeply"):
            answer_grammar(writer.tokenizer, tools=ToolRule(bind(FORMATS[name], None), tools))

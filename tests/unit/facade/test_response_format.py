import pytest

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError, OptionError
from onnxgen.facade.generation_options import GenerationOptions
from onnxgen.facade.response_format import read_response_format

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


class Answer:
    @classmethod
    def model_json_schema(cls):
        return SCHEMA


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("text", None),
        ({"type": "text"}, None),
        ("json_object", Grammar.json_object()),
        ({"type": "json_object"}, Grammar.json_object()),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}},
            Grammar.json_schema(SCHEMA),
        ),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}},
            Grammar.json_schema(SCHEMA),
        ),
        ({"type": "json_schema", "json_schema": SCHEMA}, Grammar.json_schema(SCHEMA)),
        ({"type": "json_schema", "json_schema": True}, Grammar.json_schema(True)),
        (Answer, Grammar.json_schema(SCHEMA)),
        ({"type": "regex", "regex": "[0-9]+"}, Grammar.regex("[0-9]+")),
        ({"type": "lark", "lark": 'start: "a"'}, Grammar.lark('start: "a"')),
        ({"type": "choice", "choice": ["yes", "no"]}, Grammar.choice(["yes", "no"])),
        ({"type": "llguidance", "llguidance": 'start: "a"'}, Grammar.llguidance('start: "a"')),
        (Grammar.regex("a"), Grammar.regex("a")),
    ],
)
def test_forms_that_callers_know_are_grammars(given, expected):
    assert read_response_format(given) == expected
    assert GenerationOptions(response_format=given).grammar == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "response_format must be a Grammar"),
        (int, "response_format must be a Grammar"),
        ({}, "has the type None; the types are text, json_object"),
        ({"type": "json_shema"}, "did you mean 'json_schema'"),
        ("xml", "has the type 'xml'"),
        ({"type": "json_schema"}, "needs an entry 'json_schema'"),
        ({"type": "regex", "pattern": "a"}, "needs an entry 'regex'"),
    ],
)
def test_other_forms_are_refused_with_what_they_may_be(given, message):
    with pytest.raises(OptionError, match=message):
        read_response_format(given)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "json_schema", "json_schema": 3},
        {"type": "choice", "choice": []},
        {"type": "choice", "choice": "yes"},
        {"type": "json_schema", "json_schema": "{"},
    ],
)
def test_what_is_no_grammar_is_a_grammar_error(given):
    with pytest.raises(GrammarError):
        GenerationOptions(response_format=given)


def test_a_schema_with_a_property_that_is_called_schema_is_no_wrapping():
    schema = {"type": "object", "properties": {"schema": {"type": "string"}}}
    assert read_response_format({"type": "json_schema", "json_schema": schema}) == Grammar.json_schema(schema)

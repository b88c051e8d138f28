"""Values without quotes, and arguments as JSON text."""

import json

import pytest

from onnxgen.preprocess.tool_calls.arguments import object_text, properties_of, typed_value

ROOT = {
    "$defs": {"count": {"type": "integer"}, "self": {"$ref": "#/$defs/self"}, "a/b": {"type": "boolean"}},
    "properties": {"x": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("2026-01-15", {"type": "integer"}, "2026-01-15"),
        ("42", {"type": "integer"}, 42),
        ("42.0", {"type": "integer"}, 42),
        ("42.5", {"type": "integer"}, "42.5"),
        ("-0.5e3", {"type": "number"}, -500.0),
        (" 7\n", {"type": "number"}, 7),
        ("NaN", {"type": "number"}, "NaN"),
        ("Infinity", {"type": "number"}, "Infinity"),
        ("True", {"type": "boolean"}, True),
        ("false", {"type": "boolean"}, False),
        ("yes", {"type": "boolean"}, "yes"),
        ("null", {"type": "string"}, "null"),
        ("123", {"type": "string"}, "123"),
        ("  kept  ", {"type": "string"}, "  kept  "),
        ("None", {"type": "null"}, None),
        ('[{"a":false,"b":null}]', {"type": "array"}, [{"a": False, "b": None}]),
        ("[{'a': False, 'b': None}]", {"type": "array"}, [{"a": False, "b": None}]),
        ("[1, 2", {"type": "array"}, "[1, 2"),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("[1]", {"type": "object"}, "[1]"),
        ("5", {"type": ["string", "integer"]}, 5),
        ("x", {"type": ["integer", "string"]}, "x"),
        ("null", {"type": ["string", "null"]}, None),
        ("null", {"type": "integer", "nullable": True}, None),
        ("3", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3),
        ("3", {"oneOf": [{"type": "null"}, {"type": "number"}]}, 3),
        ("3", {"allOf": [{"type": "integer"}]}, 3),
        ("3", {"$ref": "#/$defs/count"}, 3),
        ("3", {"$ref": "#/properties/x/anyOf/1"}, 3),
        ("true", {"$ref": "#/$defs/a~1b"}, True),
        ("3", {"$ref": "#/$defs/self"}, "3"),
        ("3", {"$ref": "#/nowhere/0"}, "3"),
        ("3", {"$ref": "http://example.com/schema"}, "3"),
        ("3", {"enum": [1, 2, 3]}, 3),
        ("3", {"enum": ["1", "2", "3"]}, "3"),
        ("3", {"const": 3}, 3),
        ("true", {"enum": ["true", "false"], "type": "string"}, "true"),
        ("3", {}, "3"),
        ("true", None, "true"),
        ("[1]", {}, [1]),
        ('{"a": 1}', True, {"a": 1}),
        ("if a < b & c:\n    x", {"type": "string"}, "if a < b & c:\n    x"),
        ("", {"type": "integer"}, ""),
    ],
)
def test_a_value_has_the_type_its_schema_names(text, schema, value):
    assert json.loads(typed_value(text, schema, ROOT)) == value


def test_numbers_stay_as_they_are_written():
    assert (
        typed_value("123456789012345678901234567890", {"type": "integer"}, {})
        == "123456789012345678901234567890"
    )
    assert typed_value("1e-7", {"type": "number"}, {}) == "1e-7"


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        (None, "{}"),
        ("null", "{}"),
        ('""', "{}"),
        ('" "', "{}"),
        ('{"a" : 1e-7}', '{"a" : 1e-7}'),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('"[1]"', None),
        ('"{\\"a\\": NaN}"', None),
        ("[1]", None),
        ("3", None),
    ],
)
def test_arguments_are_an_object(text, arguments):
    assert object_text(text) == arguments


def test_properties_of_alternatives_count():
    schema = {
        "$ref": "#/$defs/base",
        "properties": {"a": {"type": "string"}},
        "allOf": [{"properties": {"b": {"type": "integer"}}}],
        "$defs": {"base": {"properties": {"c": {"type": "null"}, "a": {"type": "number"}}}},
    }
    assert properties_of(schema)["a"] == {"type": "string"}
    assert set(properties_of(schema)) == {"a", "b", "c"}

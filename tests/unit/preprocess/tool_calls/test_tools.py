"""Tools as requests have them."""

import pytest

from onnxgen.errors import OptionError
from onnxgen.preprocess.tool_calls.tools import ToolDefinition, read_tools

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_both_forms_are_read():
    inner = {"name": "f", "description": "Does f.", "parameters": SCHEMA, "strict": True}
    expected = ToolDefinition("f", "Does f.", SCHEMA, True)
    forms = (
        inner,
        {"type": "function", **inner},
        {"type": "function", "function": inner},
        {"function": inner},
        expected,
    )
    for form in forms:
        assert read_tools([form]) == (expected,)


def test_only_the_name_has_to_be_there():
    empty = {"type": "object", "properties": {}}
    assert read_tools([{"name": "f"}]) == (ToolDefinition("f", "", empty, False),)
    nothing = {"name": "f", "description": None, "parameters": None, "strict": None}
    assert read_tools([nothing]) == read_tools([{"name": "f"}])
    assert read_tools([]) == ()


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ("f", r"tools must be a list"),
        ({"name": "f"}, r"tools must be a list"),
        (3, r"tools must be a list"),
        ([3], r"tools\[0\] is a number, expected an object"),
        ([{"name": "f"}, {"type": "function"}], r"tools\[1\].name is missing"),
        ([{"function": {"name": ""}}], r"tools\[0\].function.name is ''"),
        ([{"name": "two words"}], r"tools\[0\].name is 'two words'"),
        ([{"name": "x" * 129}], r"1 to 128"),
        ([{"function": 3}], r"tools\[0\].function is a number"),
        ([{"type": "web_search"}], r"tools\[0\].type is 'web_search'"),
        ([{"name": "f", "description": 3}], r"tools\[0\].description is a number"),
        ([{"name": "f", "strict": "yes"}], r"tools\[0\].strict is a string"),
        ([{"name": "f", "parameters": []}], r"tools\[0\].parameters is an array"),
        ([{"name": "f", "parameters": {"type": "array"}}], r"tools\[0\].parameters.type is 'array'"),
        ([{"name": "f", "parameters": {"properties": []}}], r"tools\[0\].parameters.properties is an array"),
        ([{"name": "f"}, {"name": "g"}, {"name": "f"}], r"tools\[0\] and tools\[2\] are both named 'f'"),
    ],
)
def test_what_is_wrong_is_named(tools, message):
    with pytest.raises(OptionError, match=message):
        read_tools(tools)


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ({"description": "a\ud800"}, r"tools\[1\].description has half a surrogate pair"),
        (
            {"parameters": {"properties": {"a": {"enum": [1, float("nan")]}}}},
            r"tools\[1\].parameters.properties.a.enum\[1\] is nan, which is no JSON number",
        ),
        ({"parameters": {"x": (float("-inf"),)}}, r"tools\[1\].parameters.x\[0\] is -inf"),
        ({"parameters": {"title": "\udfff"}}, r"tools\[1\].parameters.title has half"),
        (
            {"parameters": {"properties": {"\udc00": {}}}},
            r"tools\[1\].parameters.properties has a key with half",
        ),
    ],
)
def test_what_is_no_json_is_named(tool, message):
    with pytest.raises(OptionError, match=message) as raised:
        read_tools([{"name": "f"}, {"name": "g", **tool}])
    assert str(raised.value).isprintable()


def test_a_schema_that_holds_itself_is_refused():
    schema = {"type": "object"}
    schema["properties"] = {"a": schema}
    with pytest.raises(OptionError, match=r"tools\[0\].parameters.*nested more than 100 deep"):
        read_tools([{"name": "f", "parameters": schema}])


def test_whole_pairs_and_large_numbers_pass():
    schema = {"type": "object", "title": "\U0001f600", "properties": {"a": {"const": 1e308}}}
    assert (
        read_tools([{"name": "f", "description": "\U0001f600", "parameters": schema}])[0].parameters == schema
    )

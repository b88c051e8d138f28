"""JSON text: where it breaks, and the usual mistakes by name."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.errors import ConfigError, ModelFileError
from onnxgen.foundations.json_text import json_kind, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(VALUES, st.booleans())
def test_what_json_writes_comes_back(value, strict):
    assert parse_json(json.dumps(value), source="f", strict=strict) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("// note\n{}", "JSON has no comments"),
        ('{"a": 1 // note\n}', "JSON has no comments"),
        ('{"a": /* x */ 1}', "JSON has no comments"),
        ('# note\n{"a": 1}', "JSON has no comments"),
        ('{"a": 1,}', "comma too many"),
        ("[1, 2, ]", "comma too many"),
        ("{'a': 1}", "double quotes"),
        ("", "line 1, column 1"),
        ("{", "line 1, column 2"),
        ('{"a": [1, 2', "cut short"),
        ('{"a": 1,', "cut short"),
        ('{"a": "text', "cut short"),
        ('{"a": 1}, {', "Extra data"),
    ],
)
def test_usual_mistakes_are_named(text, message):
    with pytest.raises(ModelFileError, match=message):
        parse_json(text, source="f.json")


def test_a_url_in_a_string_is_no_comment():
    assert parse_json('{"a": "https://x // y"}', source="f") == {"a": "https://x // y"}


def test_a_key_that_stands_twice_is_refused_when_strict():
    text = '{"a": {"b": 1, "b": 2}}'
    assert parse_json(text, source="f") == {"a": {"b": 2}}
    with pytest.raises(ModelFileError, match=r"f: the key 'b' stands twice"):
        parse_json(text, source="f", strict=True)


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_json_lacks_are_refused_when_strict(constant):
    parse_json(f"[{constant}]", source="f")
    with pytest.raises(ModelFileError, match=f"{constant} is not a JSON number"):
        parse_json(f"[{constant}]", source="f", strict=True)


def test_deep_nesting_is_an_error_not_a_crash():
    with pytest.raises(ModelFileError, match="nested too deeply"):
        parse_json("[" * 200_000, source="f")


def test_the_caller_chooses_the_class():
    with pytest.raises(ConfigError):
        parse_json("", source="f", error=ConfigError)


@pytest.mark.parametrize("hint", ["comma too many", "stand in double quotes", "no comments"])
@pytest.mark.parametrize("end", range(1, 37))
def test_a_text_cut_anywhere_gets_no_other_advice(end, hint):
    text = '{"a": "//", "b": [1, 2, {"c": null}]}'
    with pytest.raises(ModelFileError) as caught:
        parse_json(text[:end], source="f")
    assert hint not in str(caught.value)


def test_kinds_are_named_in_json_words():
    kinds = [json_kind(value) for value in (None, True, 1, 1.5, "x", [], {})]
    assert kinds == ["null", "true", "a number", "a number", "a string", "an array", "an object"]

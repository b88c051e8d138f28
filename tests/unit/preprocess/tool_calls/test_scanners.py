"""Where values end, and Python literals as JSON."""

import ast
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxgen.preprocess.tool_calls.json_scanner import JsonScanner, is_json
from onnxgen.preprocess.tool_calls.literals import arguments_of_call, literal
from onnxgen.preprocess.tool_calls.python_scanner import PythonScanner

JSON_TEXT = st.text(alphabet='{}[]",:\\u0aetrfalsn1-+.E \n\x01', max_size=14)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def _refuse(name):
    raise ValueError(name)


def _python_agrees(text):
    try:
        json.loads(text, parse_constant=_refuse)
    except ValueError:
        return False
    return True


@given(JSON_TEXT)
def test_json_is_what_the_standard_says(text):
    assert is_json(text) == _python_agrees(text)


@given(VALUES, st.text(alphabet="x]}, \n", min_size=1), st.integers(1, 5))
def test_a_json_value_ends_where_it_ends(value, rest, step):
    written = json.dumps(value, ensure_ascii=False)
    text = written + ("\n" + rest if written[-1] not in ']}"' else rest)
    scanner = JsonScanner()
    at = 0
    while not scanner.is_done:
        piece = text[at : at + step]
        scanner.scan(piece, 0)
        at += scanner.stopped
    assert at == len(written)


@pytest.mark.parametrize("kind", "[{")
def test_deep_nesting_is_refused(kind):
    pair = {"[": "[]", "{": '{"a":1}'}[kind]
    opening, closing = pair[:-1].rstrip("1"), pair[-1]
    assert is_json(opening * 127 + pair + closing * 127)
    assert not is_json(opening * 128 + pair + closing * 128)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        ("'''a\n'b' \"c\"'''", "a\n'b' \"c\""),
        (r"'\n\t\\\'\x41\u00e9\101\q'", "\n\t\\'Aé" + "A\\q"),
        (r"r'\n'", "\\n"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\ud83d'", "\ufffd"),
        ("'a' \"b\"", "ab"),
        ("''", ""),
        ("[1, -2.5, +3, 1_000, 0x10, 1e3]", [1, -2.5, 3, 1000, 16, 1000.0]),
        ("(1, 2)", [1, 2]),
        ("(1)", 1),
        ("(1,)", [1]),
        ("()", []),
        ("{'a': {'b': [True, False, None]},}", {"a": {"b": [True, False, None]}}),
        ("{'a': true, 'b': null}", {"a": True, "b": None}),
    ],
)
def test_literals_become_json(text, value):
    assert json.loads(literal(text)) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "f()", "1 + 1", "[1", "[1 2]", "{1: 2}", "{'a' 1}", "{**a}", "'a", "nan", "1_0e999", "1j", "[,]", "a.b",
     "__import__('os')", "f'{x}'", "b'x'", "lambda: 1", "[" * 70 + "]" * 70, "1" * 5000 + ".", "'\\U00110000'"],
)  # fmt: skip
def test_what_is_no_literal_is_refused(text):
    with pytest.raises(ValueError, match=r"\w"):
        literal(text)


@given(VALUES)
def test_literals_are_read_as_python_reads_them(value):
    text = repr(value)
    surrogates = any("\ud800" <= c <= "\udfff" for c in text)
    if not surrogates:
        assert json.loads(literal(text)) == ast.literal_eval(text)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("", {}),
        (" ", {}),
        ("'x', 2", {"a": "x", "b": 2}),
        ("'x', b=2", {"a": "x", "b": 2}),
        ("c=[1],", {"c": [1]}),
        ("a = 'b=1'", {"a": "b=1"}),
    ],
)
def test_arguments_of_a_call(text, arguments):
    assert json.loads(arguments_of_call(text, ("a", "b"))) == arguments


@pytest.mark.parametrize("text", ["1, 2, 3", "a=1, a=2", "1, a=2", "a=b", "a=1 b=2", "*x", "a=", ","])
def test_arguments_that_are_none(text):
    with pytest.raises(ValueError, match=r"\w"):
        arguments_of_call(text, ("a", "b"))


@given(st.lists(VALUES, max_size=3), st.integers(1, 5))
def test_arguments_end_where_they_end(values, step):
    written = ", ".join(f"k{n}={value!r}" for n, value in enumerate(values)) + ")"
    scanner = PythonScanner()
    at = 0
    while not scanner.is_done:
        scanner.scan((written + "; ['x")[at : at + step], 0)
        at += scanner.stopped
    assert at == len(written)


@pytest.mark.parametrize(
    ("text", "stopped"),
    [("a='x\ny')", 4), ("a=b(]", 4), ("a=1; b)", 3), ("'''a\n'b''')", 11), ("'')", 3), ('"\\""', 4)],
)
def test_a_python_scanner_stops_at_what_does_not_fit(text, stopped):
    for step in (1, 2, 50):
        scanner = PythonScanner()
        at = 0
        try:
            while at < len(text) and not scanner.is_done:
                piece_start = at
                scanner.scan(text[at : at + step], 0)
                at += scanner.stopped
        except ValueError:
            at = piece_start + scanner.stopped
        assert at == stopped

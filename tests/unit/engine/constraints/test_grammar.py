import pickle

import pytest

from onnxgen.engine.constraints.grammar import MAX_SOURCE_BYTES, Grammar
from onnxgen.errors import GrammarError, OptionError


def test_the_same_grammar_twice_is_one_key_and_crosses_processes():
    schema = {"type": "object", "properties": {"b": {}, "a": {}}}
    one, other = (
        Grammar.json_schema(schema),
        Grammar.json_schema('{"type": "object", "properties": {"b": {}, "a": {}}}'),
    )
    assert one == other and hash(one) == hash(other)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one.source.index('"b"') < one.source.index('"a"'), "the order of properties is that of writing"


def test_fast_forward_is_part_of_a_grammar():
    grammar = Grammar.regex("a+")
    assert grammar.fast_forward and not grammar.with_fast_forward(False).fast_forward
    assert grammar.with_fast_forward(False) != grammar


def test_a_regular_expression_may_be_empty_a_lark_grammar_may_not():
    assert Grammar.regex("").source == ""
    with pytest.raises(GrammarError, match="lark grammar is empty"):
        Grammar.lark("  \n")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grammar("xml", "<a/>"), "json_object, json_schema.*not 'xml'"),
        (lambda: Grammar("regex", 3), "is text, got int"),
        (lambda: Grammar.json_schema([1]), "an object or a boolean, got list"),
        (lambda: Grammar.json_schema("{"), "is no JSON"),
        (lambda: Grammar.json_schema('{"a": 1, "a": 2}'), "key 'a' twice"),
        (lambda: Grammar.json_schema('{"minimum": NaN}'), "NaN is no JSON number"),
        (lambda: Grammar.json_schema({"minimum": float("inf")}), "cannot be written as JSON"),
        (lambda: Grammar.json_schema({"const": {1, 2}}), "is a set"),
        (lambda: Grammar.json_schema('{"const": "\\ud800"}'), "surrogate"),
        (lambda: Grammar.json_schema('{"items":' * 10_000 + "true" + "}" * 10_000), "more than 100 deep"),
        (lambda: Grammar.json_schema({"enum": ["x" * 100] * 60_000}), f"at most {MAX_SOURCE_BYTES}"),
        (lambda: Grammar.choice([]), "no choices"),
        (lambda: Grammar.choice("yes"), "a list of texts, got 'yes'"),
        (lambda: Grammar.choice({"yes": 1}), "a list of texts, got {'yes': 1}"),
        (lambda: Grammar.choice(5), "a list of texts, got 5"),
        (lambda: Grammar.choice(["yes", None]), "choice 1 is None"),
        (lambda: Grammar.choice(["x" * 10_001]), "choice 0 has 10001 characters"),
    ],
)
def test_what_is_no_grammar_is_refused(make, message):
    with pytest.raises(GrammarError, match=message):
        make()


def test_a_schema_that_holds_itself_is_refused():
    schema = {}
    schema["items"] = schema
    with pytest.raises(GrammarError, match="JSON schema"):
        Grammar.json_schema(schema)


def test_callers_that_know_options_catch_grammars_too():
    assert issubclass(GrammarError, OptionError)

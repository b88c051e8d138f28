"""Grammars made to cost much: refused, or followed within bounds; never the end of the process."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grammar_vocabularies import allowed, byte_level, compiler_for
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.constraints.limits import GrammarLimits
from onnxgen.errors import GrammarError


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    return compiler_for(byte_level(tmp_path_factory.mktemp("vocabulary")))


def chain(count, link, last):
    defs = {f"d{n}": link(f"#/$defs/d{n + 1}") for n in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**defs, f"d{count}": last}}


TEXT = {"type": "string"}
REFUSED = {
    "many schemas": (lambda: chain(12_000, lambda ref: {"$ref": ref}, TEXT), "more than 10000 schemas"),
    "intersections": (
        lambda: {"allOf": [{"anyOf": [{"properties": {f"p{j}_{i}": TEXT}, "type": "object"} for i in range(8)]} for j in range(8)]},
        "schema too large",
    ),
    "items": (lambda: {"type": "array", "minItems": 10**9}, "/minItems"),
    "properties": (lambda: {"properties": {f"p{n}": True for n in range(3001)}}, "/properties: an object has 3001"),
    "patterns": (lambda: {"patternProperties": {f"^{n}": True for n in range(101)}}, "/patternProperties: .*more than 100 patterns"),
    "remainders": (lambda: {"items": {"allOf": [{"multipleOf": 997}, {"multipleOf": 9.91}]}}, "/items/allOf/.*remainders"),
    "options": (
        lambda: {"anyOf": [{"type": "object", "properties": {"k": {"const": n}}, "required": ["k"]} for n in range(2500)]},
        "at most|max is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_schemas_that_cost_too_much_are_refused(compiler, name):
    make, message = REFUSED[name]
    with pytest.raises(GrammarError, match=message):
        compiler.compile(Grammar.json_schema(make()))


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar.lark("start: " + "(" * 9_000 + '"a"' + ")" * 9_000),
        Grammar.lark("\n".join(["start: r0", *(f"r{n}: r{n + 1}" for n in range(12_000)), 'r12000: "a"'])),
        Grammar.lark("\n".join(["start: r0", *(f"r{n}: r{n + 1} r{n + 1}" for n in range(40)), 'r40: "a"'])),
        Grammar.regex("(" * 10_000 + "a" + ")" * 10_000),
        Grammar.regex("a{1000}" * 100_000),
    ],
    ids=["brackets", "rules", "doubling", "groups", "repetitions"],
)
def test_grammars_that_cost_too_much_are_refused(compiler, grammar):
    with pytest.raises(GrammarError):
        compiler.compile(grammar)


@pytest.mark.parametrize(
    "grammar",
    [
        Grammar.json_schema(chain(3_000, lambda ref: {"$ref": ref}, TEXT)),
        Grammar.json_schema(chain(1_500, lambda ref: {"type": "object", "properties": {"x": {"$ref": ref}}}, TEXT)),
        Grammar.json_schema(chain(20, lambda ref: {"allOf": [{"$ref": ref}] * 4}, {"type": "object"})),
        Grammar.lark("\n".join(["start: r0", *(f"r{n}: r{n + 1}" for n in range(4_000)), 'r4000: "a"'])),
        Grammar.json_schema({"type": "string", "maxLength": 1_000_000}),
        Grammar.regex("[ab]*a[ab]{200}c"),
        Grammar.regex("((a{0,1000}){0,1000}){0,1000}b"),
        Grammar.lark('start: e\ne: e e | e "+" e | "a"'),
    ],
    ids=["references", "objects", "laughs", "rules", "length", "states", "powers", "ambiguous"],
)  # fmt: skip
def test_what_is_deep_or_wide_but_cheap_can_be_followed(compiler, grammar):
    state = compiler.compile(grammar).new_state()
    rng = np.random.default_rng(11)
    answer = []
    for _ in range(40):
        tokens = np.setdiff1d(allowed(state, compiler), compiler.eos_ids)
        if not len(tokens):
            break
        answer.append(int(rng.choice(tokens)))
        state.follow(answer)
    assert state.num_tokens == len(answer) > 0


def test_a_limit_that_is_hit_on_the_way_is_an_error_of_the_state(tmp_path):
    tokenizer = byte_level(tmp_path)
    compiler = compiler_for(tokenizer, limits=GrammarLimits(lexer_states=100))
    state = compiler.compile(Grammar.regex("[0-9]{500}")).new_state()
    digits = [tokenizer.token_to_id("7")] * 500
    with pytest.raises(GrammarError, match="cannot be followed any further"):
        for place in range(len(digits)):
            state.follow(digits[:place])
            allowed(state, compiler)


WORDS = st.sampled_from(
    ("type", "properties", "items", "$ref", "$defs", "allOf", "anyOf", "oneOf", "enum", "const", "required", "pattern",
     "format", "minLength", "maxItems", "minimum", "multipleOf", "patternProperties", "additionalProperties",
     "prefixItems", "$schema", "$id", "$anchor", "not", "x-guidance", "whitespace_pattern", "minContains", "if")
)  # fmt: skip
SCRAPS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | WORDS
    | st.sampled_from(
        (
            "string",
            "object",
            "array",
            "integer",
            "date",
            "#",
            "#/$defs/type",
            "#/allOf/0",
            "#/allOf/٣",
            "^a",
            "(",
        )
    )
)


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        SCRAPS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4)
    )
)
def test_whatever_is_sent_as_a_schema_is_compiled_or_refused(compiler, scraps):
    for make in (lambda: Grammar.json_schema(scraps), lambda: Grammar.json_schema(json.dumps(scraps))):
        try:
            compiler.compile(make()).new_state()
        except GrammarError as error:
            assert str(error)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30) | st.text('start:ab\\n"/|()[]{}<>%@json*+?.~&;#0123 ', max_size=40))
def test_whatever_is_sent_as_a_text_is_compiled_or_refused(compiler, text):
    for make in (Grammar.regex, Grammar.lark, Grammar.llguidance, lambda text: Grammar.choice([text, text])):
        try:
            compiler.compile(make(text)).new_state()
        except GrammarError as error:
            assert str(error)

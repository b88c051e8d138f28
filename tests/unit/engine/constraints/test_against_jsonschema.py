"""Schemas at random: what is written under the mask validates, what validates can be written."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from grammar_vocabularies import (
    accepts,
    byte_level,
    bytes_of,
    compiler_for,
    gguf,
    random_walk,
    sentencepiece,
    split_words,
)
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError

VOCABULARIES = (byte_level, split_words, sentencepiece, gguf)
PATTERNS = {
    "^[a-z]{1,4}$": r"[a-z]{1,4}\Z",
    "ab": r"x?ab[0-9]?\Z",
    r"^\d+-\w?$": r"[0-9]{1,3}-[a-zA-Z0-9_]?\Z",
}
# Control characters without a short escape cannot be written where keys are listed.
CHARACTERS = st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t")
TEXTS = st.text(CHARACTERS, max_size=6)
KEYS = st.sampled_from(("a", "b", "name", "née", 'x"y', "\n"))


@pytest.fixture(scope="module")
def compilers(tmp_path_factory):
    made = [(make, make(tmp_path_factory.mktemp(make.__name__))) for make in VOCABULARIES]
    return [(tokenizer, compiler_for(tokenizer)) for _, tokenizer in made]


@st.composite
def texts(draw):
    if draw(st.booleans()):
        pattern = draw(st.sampled_from(sorted(PATTERNS)))
        return {"type": "string", "pattern": pattern}, st.from_regex(PATTERNS[pattern], alphabet=CHARACTERS)
    low, high = sorted(draw(st.tuples(st.integers(0, 4), st.integers(0, 6))))
    wide = TEXTS.filter(lambda text: low <= len(text) <= high)
    return {"type": "string", "minLength": low, "maxLength": high}, wide


@st.composite
def numbers(draw):
    low, high = sorted(draw(st.tuples(st.integers(-200, 2000), st.integers(-200, 2000))))
    schema = {"type": "integer", "minimum": low, "maximum": high}
    if draw(st.booleans()):
        step = draw(st.sampled_from((2, 3, 7, 10)))
        inside = [n for n in range(low, high + 1) if n % step == 0]
        return ({**schema, "multipleOf": step}, st.sampled_from(inside)) if inside else (schema, st.just(low))
    if draw(st.booleans()):
        schema = {"type": "number", "exclusiveMinimum": low, "maximum": high + 1}
        return schema, st.sampled_from([low + 0.5, high + 0.25, high + 1])
    return schema, st.integers(low, high)


CONSTANTS = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def enums(draw):
    values = draw(st.lists(CONSTANTS, min_size=1, max_size=4))
    return ({"const": values[0]} if len(values) == 1 else {"enum": values}), st.sampled_from(values)


@st.composite
def arrays(draw, inner):
    schema, values = draw(inner)
    low, high = sorted(draw(st.tuples(st.integers(0, 3), st.integers(0, 3))))
    written = {"type": "array", "items": schema, "minItems": low, "maxItems": high}
    return written, st.lists(values, min_size=low, max_size=high)


@st.composite
def tuples(draw, inner):
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    schemas, values = zip(*parts, strict=True)
    written = {"type": "array", "prefixItems": list(schemas), "items": False, "minItems": len(parts)}
    return written, st.tuples(*values).map(list)


@st.composite
def objects(draw, inner):
    parts = draw(st.dictionaries(KEYS, inner, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(parts)), unique=True)) if parts else []
    schema = {
        "type": "object",
        "properties": {key: part[0] for key, part in parts.items()},
        "required": required,
    }
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.sampled_from((False, {"type": "null"})))
    needed = {key: part[1] for key, part in parts.items() if key in required}
    others = {key: part[1] for key, part in parts.items() if key not in required}
    found = st.fixed_dictionaries(needed, optional=others)
    # The order of the schema is the order of writing.
    return schema, found.map(lambda value: {key: value[key] for key in parts if key in value})


@st.composite
def unions(draw, inner):
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    schemas, values = zip(*parts, strict=True)
    return {"anyOf": list(schemas)}, st.one_of(*values)


def nested(inner):
    return arrays(inner) | tuples(inner) | objects(inner) | unions(inner)


DESCRIBED = st.recursive(texts() | numbers() | enums(), nested, max_leaves=5)


@st.composite
def documents(draw):
    schema, values = draw(DESCRIBED)
    if draw(st.booleans()):
        schema = {"$ref": "#/$defs/it", "$defs": {"it": schema}}
    return schema, draw(values)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(documents(), st.integers(0, 2**32))
def test_schemas_at_random(compilers, document, seed):
    schema, instance = document
    validator = Draft202012Validator(schema)
    assume(validator.is_valid(instance))
    rng = np.random.default_rng(seed)
    tokenizer, compiler = compilers[seed % len(compilers)]
    compiled = compiler.compile(Grammar.json_schema(schema))
    for layout in ({"separators": (",", ":")}, {}, {"indent": 2}):
        text = json.dumps(instance, ensure_ascii=False, **layout)
        # Empty brackets have no line of their own; one run of blanks is one break and its indentation.
        assert accepts(compiled, tokenizer, text), text
    for _ in range(2):
        answer = random_walk(compiled, compiler, tokenizer, rng)
        if answer is not None:
            written = bytes_of(tokenizer, answer).decode()
            validator.validate(json.loads(written))


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(DESCRIBED, CONSTANTS)
def test_what_does_not_validate_is_not_accepted(compilers, described, instance):
    schema, _ = described
    tokenizer, compiler = compilers[0]
    try:
        compiled = compiler.compile(Grammar.json_schema(schema))
    except GrammarError:
        assume(False)
    text = json.dumps(instance, ensure_ascii=False)
    if accepts(compiled, tokenizer, text):
        Draft202012Validator(schema).validate(instance)


@settings(max_examples=40, deadline=None)
@given(st.recursive(CONSTANTS, lambda inner: st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6))
def test_any_object_can_be_written_as_json_writes_it(compilers, value):
    for tokenizer, compiler in compilers[:3:2]:
        compiled = compiler.compile(Grammar.json_object())
        for ascii_only in (False, True):
            text = json.dumps(value, ensure_ascii=ascii_only)
            assert accepts(compiled, tokenizer, text) == isinstance(value, dict)

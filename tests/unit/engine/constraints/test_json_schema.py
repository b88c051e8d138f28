import json

import pytest

from grammar_vocabularies import accepts, byte_level, compiler_for
from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.errors import GrammarError


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return byte_level(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def compiler(tokenizer):
    with_close = compiler_for(tokenizer)
    yield with_close
    with_close.close()


@pytest.fixture
def check(compiler, tokenizer):
    def follow(schema, text):
        return accepts(compiler.compile(Grammar.json_schema(schema)), tokenizer, text)

    return follow


TEXT = {"type": "string"}
CLOSED = {"type": "object", "additionalProperties": False}

CASES = {
    "a raw tab is no part of a text": (
        {"type": "object", "properties": {"t": TEXT}, "required": ["t"]},
        ['{"t":"a\\tb"}'],
        ['{"t":"a\tb"}', '{"t":"a\nb"}', "{}"],
    ),
    "digits of another script": ({"type": "string", "pattern": "^[٠-٩]*$"}, ['"٣٤"', '""'], ['"34"']),
    "pattern and length": ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ['"abc"'], ['"abcd"', '""']),
    "lengths count characters": (
        {"type": "string", "minLength": 3, "maxLength": 3},
        ['"\\"\\n\\\\"', '"é😀x"'],
        ['"\\"\\n"', '"ab"', '"abcd"'],
    ),
    "escapes within a length": ({"type": "string", "maxLength": 20}, ['"say \\"hi\\"\\n"'], []),
    "an enum behind a reference": (
        {"$ref": "#/$defs/color", "$defs": {"color": {"enum": ["red", "green"]}}},
        ['"red"'],
        ['{"red":1}', '"blue"', "{}"],
    ),
    "a reference into a list": (
        {"type": "object", "properties": {"l": {"anyOf": [TEXT, {"type": "integer"}]},
         "m": {"$ref": "#/properties/l/anyOf/1"}}, "required": ["m"], "additionalProperties": False},
        ['{"m":1}', '{"l":"a","m":1}'],
        ['{"m":"a"}'],
    ),
    "a reference with escapes": (
        {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}}, ["null"], ["1"]
    ),
    "a reference to an anchor": (
        {"$ref": "#here", "$defs": {"a": {"$anchor": "here", "type": "null"}}}, ["null"], ["1"]
    ),
    "an unanchored pattern is contained": ({"type": "string", "pattern": "\\S\\d"}, ['" x1 "', '"11"'], ['"x 1"', '"x"']),
    "negated classes": ({"type": "string", "pattern": "^\\D\\W$"}, ['"a-"'], ['"1-"', '"aa"']),
    "needless escapes": ({"type": "string", "pattern": "^https\\:\\/\\/"}, ['"https://a"'], ['"http://a"']),
    "forbidden keys": (
        {**CLOSED, "properties": {"what": TEXT}, "required": ["what"]},
        ['{"what":"x"}'],
        ['{"!":"x"}', '{"what":"x","y":1}', '{"wha":"x"}'],
    ),
    "a constant with blanks": ({"const": "\n   x"}, ['"\\n   x"'], ['"\\n x"']),
    "whitespace is flexible but bounded": (
        {**CLOSED, "properties": {"a": {"type": "array"}}, "required": ["a"]},
        ['{"a":[]}', '{ "a" : [ ] }', '{\n    "a": [\n    ]\n}', '{\r\n\t"a":[]}'],
        ['{   "a":[]}', '{\n\n"a":[]}', ' {"a":[]}', '{"a":[]} ', "{" + "\n" + " " * 33 + '"a":[]}'],
    ),
    "a listed key has one spelling": (
        {"type": "object", "properties": {"a": {"type": "integer"}}},
        ['{"a":1}', '{"b":"x"}', '{"b":"\\n"}'],
        ['{"\\u0061":"x"}', '{"a":"x"}', '{"a":1,"a":"x"}', '{"b":1,"a":"x"}'],
    ),
    "texts are free where no key could be hidden": (
        {**CLOSED, "properties": {"a": TEXT}}, ['{"a":"\\u00e9\\u0007"}', '{"a":"é"}'], ['{"a":"\\ud800"}']
    ),
    "large limits leave numbers that can be told apart": (
        {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, ["-9007199254740992", "7"], ["9007199254740993"]
    ),
    "counts may be written as floats": ({"type": "array", "maxItems": 1.0}, ["[]", "[1]"], ["[1,2]"]),
    "draft 4 limits": ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, ["4"], ["3"]),
    "keywords that say nothing": (
        {"type": "array", "uniqueItems": False, "minContains": 2, "then": False}, ["[1,1]"], ["1"]
    ),
    "unevaluated is additional where nothing else applies": (
        {"type": "object", "properties": {"a": {}}, "unevaluatedProperties": False}, ['{"a":1}'], ['{"b":1}']
    ),
    "a date is one": ({"type": "string", "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"', '"2023-2-1"', '"1900-02-29"']),
    "a date with a pattern": ({"format": "date", "pattern": "^2", "type": "string"}, ['"2024-02-29"'], ['"2023-02-29"', '"1996-02-29"']),
    "an old dialect": (
        {"$schema": "https://json-schema.org/draft-07/schema", "definitions": {"a": {"type": "array"}},
         "$ref": "#/definitions/a", "maxItems": 1},
        ["[1,2]"],
        ["1"],
    ),
    "recursion that ends": (
        {**CLOSED, "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}, "required": ["next"]},
        ['{"next":{"next":null}}'],
        ["{}", '{"next":1}'],
    ),
    "anything": (True, ["1", "null", '{"a":[1,"\\u00e9"]}'], ["nul", "{a:1}", "[1,]", "01", "tru"]),
    "a long bound": (
        {"type": "array", "items": {"type": "string", "maxLength": 5000, "pattern": "^[a-z]*$"}},
        ['["' + "a" * 5000 + '"]'],
        ['["' + "a" * 5001 + '"]'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_a_schema_describes_is_accepted_and_nothing_else(check, name):
    schema, good, bad = CASES[name]
    for text in good:
        assert check(schema, text), text
    for text in bad:
        assert not check(schema, text), text


REFUSED = {
    "uniqueItems": ({"items": {"uniqueItems": True}}, "/items/uniqueItems: the keyword 'uniqueItems'"),
    "not": ({"properties": {"a/b": {"not": {}}}}, "/properties/a~1b/not: the keyword"),
    "if": ({"if": {}, "then": {}}, "/if: the keyword"),
    "contains": ({"contains": {"type": "null"}}, "/contains: the keyword"),
    "dependentSchemas": ({"dependentSchemas": {"a": {}}}, "/dependentSchemas: the keyword"),
    "dependentRequired": ({"dependentRequired": {"a": ["b"]}}, "/dependentRequired: the keyword"),
    "dependencies": ({"dependencies": {"a": ["b"]}}, "/dependencies: the keyword"),
    "propertyNames": ({"propertyNames": {"maxLength": 3}}, "/propertyNames: the keyword"),
    "unevaluated": ({"allOf": [{}], "unevaluatedProperties": False}, "/unevaluatedProperties: the keyword"),
    "dynamic": ({"$dynamicRef": "#a"}, "/\\$dynamicRef: the keyword"),
    "behind a reference": ({"$ref": "#/x/y", "x": {"y": {"not": {}}}}, "/x/y/not: the keyword"),
    "remote": ({"$ref": "http://example.com/schema"}, "at /\\$ref: 'http://example.com/schema' is.*other documents are not fetched"),
    "remote inside": ({"anyOf": [{"type": "null"}, {"items": {"$ref": "../other.json#/a"}}]}, "at /anyOf/1/items/\\$ref: .*other.json#/a'.*not fetched"),
    "remote by name": ({"$id": "http://example.com/a/b", "properties": {"x": {"$ref": "c"}}}, "at /properties/x/\\$ref: 'c' is not in.*not fetched"),
    "remote and held": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b/items"}, "b": {"items": {"$ref": "urn:x"}}}}, "at /\\$defs/b/items/\\$ref: 'urn:x'"),
    "missing": ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "/properties/a/\\$ref: there is nothing at '#/\\$defs/b'"),
    "look-ahead": ({"properties": {"a": {"pattern": "^(?!x)"}}}, "/properties/a/pattern: look-around"),
    "back-reference": ({"items": {"type": "string", "pattern": "(a)\\1"}}, "/items/pattern: backreferences"),
    "word boundary": ({"pattern": "x\\by"}, "/pattern.*lookarounds not supported"),
    "bad pattern": ({"anyOf": [{"type": "null"}, {"type": "string", "pattern": "["}]}, "/anyOf/1/pattern"),
    "false": (False, "nothing is valid"),
    "impossible": ({"type": "integer", "minimum": 5, "maximum": 3}, "JSON schema, at /"),
    "impossible inside": (
        {"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}}, "required": ["a"]},
        "/properties/a: .*minLength .3. is greater",
    ),
    "required false": ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "'a' is unsatisfiable"),
    "empty enum": ({"enum": []}, "JSON schema, at /"),
    "endless": ({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "requires itself without end"),
    "endless loop": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "without end"),
    "endless list": ({"type": "array", "minItems": 1, "items": {"$ref": "#"}}, "without end"),
    "type": ({"properties": {"a": {"type": "text"}}}, "/properties/a/type: 'text' is no type"),
    "type of types": ({"type": [["string"]]}, "/type: .* is no type"),
    "required": ({"required": "a"}, "/required: required is a list of names"),
    "schema": ({"properties": {"a": 5}}, "/properties/a: a schema is an object or a boolean, not 5"),
    "shape": ({"properties": [1]}, "/properties: properties is an object of schemas"),
    "list": ({"allOf": {}}, "/allOf: allOf is a list of schemas"),
    "count": ({"maxLength": -1}, "/maxLength: maxLength is a whole number"),
    "huge count": ({"items": {"minItems": 10**9}}, "/items/minItems: minItems is 1000000000, at most"),
    "huge constant": ({"enum": [1, [2**53 + 1]]}, "/enum: 9007199254740993 is too large"),
    "multiple": ({"type": "integer", "multipleOf": 999983}, "/multipleOf: .*999983 remainders"),
    "zero multiple": ({"multipleOf": 0}, "/multipleOf: multipleOf is more than 0"),
    "one of": ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, "oneOf"),
    "dialect": ({"$schema": "http://example.com/x"}, "/\\$schema: the dialect"),
    "options": ({"x-guidance": {"lenient": True}}, "/x-guidance/lenient"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_followed_is_refused_with_its_place(compiler, name):
    schema, message = REFUSED[name]
    with pytest.raises(GrammarError, match=message):
        compiler.compile(Grammar.json_schema(schema))


@pytest.mark.parametrize(
    ("schema", "warning"),
    [
        ({"type": "string", "format": "phone"}, "/format: the format 'phone' is not enforced"),
        ({"items": {"nullable": True}}, "/items: the keyword 'nullable' is unknown"),
        ({"type": "object", "minProperties": 2}, "/minProperties: a key written twice counts twice"),
        ({"type": "integer", "maximum": 2**63}, "/maximum: numbers beyond 2**53 are not written"),
        ({"oneOf": [{"type": "integer"}, {"minimum": 2}], "x-guidance": {"coerce_one_of": True}}, "oneOf is followed as anyOf"),
    ],
)  # fmt: skip
def test_what_is_followed_differently_is_said(compiler, schema, warning):
    assert any(warning in found for found in compiler.compile(Grammar.json_schema(schema)).warnings)


def test_annotations_are_no_news(compiler):
    schema = {"title": "x", "description": "y", "examples": [{"not": 1}], "default": {"type": 3}, "$comment": "z",
              "deprecated": True, "readOnly": True, "contentEncoding": "base64", "type": "string"}  # fmt: skip
    assert compiler.compile(Grammar.json_schema(schema)).warnings == ()


def test_compact_json_can_be_asked_for(check):
    schema = {"type": "array", "x-guidance": {"whitespace_flexible": False}}
    assert check(schema, "[1,2]") and not check(schema, "[1, 2]")


def test_an_object_is_any_object(compiler, tokenizer):
    compiled = compiler.compile(Grammar.json_object())
    for text in ("{}", '{"a":{"b":[1,null]},"\\u00e9":"\\n"}'):
        assert accepts(compiled, tokenizer, text)
    for text in ("[]", "1", '{"a"}', '{"a":1,}', '{"a":"\t"}'):
        assert not accepts(compiled, tokenizer, text)


def test_schemas_inside_lark_are_made_ready_too(compiler, tokenizer):
    lark = 'start: "a" arg // %json {\narg: %json {"type": "array", "items": {"type": "integer"}} "!"\n'
    compiled = compiler.compile(Grammar.lark(lark))
    assert accepts(compiled, tokenizer, "a[1, 2]!")
    assert not accepts(compiled, tokenizer, "a[1,   2]!")
    with pytest.raises(GrammarError, match="line 2: /not: the keyword"):
        compiler.compile(Grammar.lark('x: "y"\nstart: x %json {"not": {}}'))
    with pytest.raises(GrammarError, match="follows %json in line 1 is no JSON"):
        compiler.compile(Grammar.lark("start: %json {,}"))


def test_grammars_of_the_library_are_taken_as_text_and_as_documents(compiler, tokenizer):
    document = {
        "grammars": [
            {"name": "top", "lark_grammar": 'start: "a" @args'},
            {"name": "args", "json_schema": {"type": "null"}},
        ]
    }
    for grammar in (
        Grammar.llguidance(document),
        Grammar.llguidance(json.dumps(document)),
        Grammar.llguidance('start: "a" "null"'),
    ):
        assert accepts(compiler.compile(grammar), tokenizer, "anull")
    with pytest.raises(GrammarError, match="/grammars/0/json_schema/not"):
        compiler.compile(Grammar.llguidance({"grammars": [{"json_schema": {"not": {}}}]}))
    with pytest.raises(GrammarError, match="with at least one"):
        compiler.compile(Grammar.llguidance({"grammars": []}))


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (Grammar.regex("(?=a)b"), "look-"),
        (Grammar.regex("a("), "unclosed group"),
        (Grammar.regex("[a&&b]"), "nothing to be written"),
        (Grammar.lark('start: "a'), "lexer error"),
        (Grammar.lark("start: foo"), 'unknown name: "foo"'),
        (Grammar.lark("start: <|nobody|>"), "unknown special token"),
    ],
)
def test_what_is_wrong_in_a_grammar_is_said(compiler, grammar, message):
    with pytest.raises(GrammarError, match=message):
        compiler.compile(grammar)

"""A `Grammar` as the text that llguidance compiles."""

from __future__ import annotations

import json

from onnxgen.engine.constraints.grammar import Grammar

WHITESPACE = r"[ \t]{1,2}|\r?\n[ \t]{0,32}"
"""Blanks between two parts of JSON: at most two, or one line break and the indentation after it."""


def translate(grammar: Grammar) -> str:
    """The grammar in llguidance's own language."""
    match grammar.kind:
        case "json_object":
            return _schema({"type": "object"})
        case "json_schema":
            return _schema(json.loads(grammar.source))
        case "regex":
            from llguidance import LLMatcher

            return LLMatcher.grammar_from_regex(grammar.source)
        case "choice":
            texts = " | ".join(json.dumps(text) for text in json.loads(grammar.source))
            return f"start: CHOICE\nCHOICE: {texts}\n"
        case "lark" | "llguidance":
            return grammar.source


def _schema(schema: dict[str, object] | bool) -> str:
    if schema is True:
        schema = {}
    if isinstance(schema, dict):
        schema = {**schema, "x-guidance": {"whitespace_pattern": WHITESPACE}}
    return json.dumps({"grammars": [{"json_schema": schema}]}, ensure_ascii=False)

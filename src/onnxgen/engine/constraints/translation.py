"""A `Grammar` as the text that llguidance compiles."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from onnxgen.engine.constraints.grammar import Grammar
from onnxgen.engine.constraints.json_schema import SchemaReader
from onnxgen.engine.constraints.json_text import read_json
from onnxgen.engine.constraints.lark_schemas import replace_schemas
from onnxgen.errors import GrammarError


@dataclass(frozen=True, slots=True)
class Translated:
    """What llguidance gets.

    Attributes:
        text: The grammar in its own language.
        warnings: Where it is less strict than what was asked for, or more so.
        schemas: The JSON Schemas of it as they were made ready, with where they stand.
    """

    text: str
    warnings: tuple[str, ...]
    schemas: tuple[tuple[str, dict[str, Any]], ...]


def translate(grammar: Grammar) -> Translated:
    """Write a grammar in llguidance's own language.

    Raises:
        GrammarError: It is wrong, or says what cannot be followed.
    """
    writer = _Writer()
    text = writer.write(grammar)
    return Translated(text, tuple(writer.warnings), tuple(writer.schemas))


class _Writer:
    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.schemas: list[tuple[str, dict[str, Any]]] = []

    def write(self, grammar: Grammar) -> str:
        match grammar.kind:
            case "json_object":
                return _document({"json_schema": self._schema({"type": "object"}, "")})
            case "json_schema":
                schema = read_json(grammar.source, what="JSON schema")
                return _document({"json_schema": self._schema(schema, "")})
            case "regex":
                from llguidance import LLMatcher

                return LLMatcher.grammar_from_regex(grammar.source)
            case "choice":
                texts = read_json(grammar.source, what="list of choices")
                return "start: CHOICE\nCHOICE: " + " | ".join(json.dumps(text) for text in texts) + "\n"
            case "lark":
                return self._lark(grammar.source)
            case "llguidance":
                if grammar.source.lstrip().startswith("{"):
                    return self._document(read_json(grammar.source, what="llguidance grammar"))
                return self._lark(grammar.source)

    def _schema(self, schema: Any, path: str) -> dict[str, Any]:
        reader = SchemaReader(schema, path=path)
        ready = reader.ready()
        self.warnings += reader.warnings
        self.schemas.append((path, ready))
        return ready

    def _lark(self, lark: str) -> str:
        return replace_schemas(lark, lambda schema, line: json.dumps(self._schema(schema, f"line {line}: ")))

    def _document(self, document: Any) -> str:
        grammars = document.get("grammars") if isinstance(document, dict) else None
        if not isinstance(grammars, list) or not grammars:
            raise GrammarError('an llguidance grammar is Lark, or {"grammars": [...]} with at least one')
        for place, held in enumerate(cast("list[Any]", grammars)):
            if not isinstance(held, dict):
                raise GrammarError(f"grammar {place} of the llguidance grammar is {held!r:.60}, no object")
            if held.get("json_schema") is not None:
                held["json_schema"] = self._schema(held["json_schema"], f"/grammars/{place}/json_schema")
            if isinstance(held.get("lark_grammar"), str):
                held["lark_grammar"] = self._lark(held["lark_grammar"])
        return json.dumps(document)


def _document(grammar: dict[str, Any]) -> str:
    # Non-ASCII is escaped: half a surrogate pair then reaches the parser, which refuses it.
    return json.dumps({"grammars": [grammar]})

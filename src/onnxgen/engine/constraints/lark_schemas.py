"""Finds JSON Schemas that stand inside a Lark grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from onnxgen.engine.constraints.json_text import check_nesting
from onnxgen.errors import GrammarError

# Comments, texts and expressions are passed over: what stands in them is no directive.
_PIECES = re.compile(
    r'//[^\n]*+|\#[^\n]*+|"(?:[^"\\\n]|\\.)*+"|/(?:[^/\\\n]|\\.)++/|(?P<json>%json\b\s*)|(?P<deep>[(\[])|[)\]]'
    r"|(?P<rule>^[^\S\n]*[?!]*\w+(?:\.-?\d+)?\s*(?:\[[^\]\n]*\])?\s*:)",
    re.DOTALL | re.MULTILINE,
)
_MAX_BRACKETS = 100
_MAX_PARTS = 10_000
"""Rules and brackets; those that lead one to the next take stack while they are compiled (about 5 KB)."""


def replace_schemas(lark: str, replace: Callable[[object, int], str]) -> str:
    """Write a Lark grammar with each schema after ``%json`` replaced.

    Args:
        lark: The grammar.
        replace: Gives the text for a schema, which it may keep, and the number of its line.

    Raises:
        GrammarError: What follows ``%json`` is no JSON, or brackets are nested too deeply.
    """
    decoder = json.JSONDecoder()
    out: list[str] = []
    place = depth = parts = 0
    while (match := _PIECES.search(lark, place)) is not None:
        out.append(lark[place : match.end()])
        place = match.end()
        if match["deep"] or match["rule"]:
            parts += 1
            if parts > _MAX_PARTS:
                raise GrammarError(f"the lark grammar has more than {_MAX_PARTS} rules and brackets")
        if match["deep"]:
            depth += 1
            if depth > _MAX_BRACKETS:
                raise GrammarError(f"the lark grammar has brackets more than {_MAX_BRACKETS} deep")
        elif match.group() in (")", "]"):
            depth -= 1
        elif match["json"]:
            line = lark.count("\n", 0, match.start()) + 1
            try:
                schema, end = decoder.raw_decode(lark, place)
            except RecursionError:
                raise GrammarError(f"the JSON schema in line {line} is nested too deeply") from None
            except ValueError as error:
                raise GrammarError(f"what follows %json in line {line} is no JSON: {error}") from error
            check_nesting(lark[place:end], what=f"JSON schema in line {line}")
            out.append(replace(schema, line))
            place = end
    return "".join(out) + lark[place:]

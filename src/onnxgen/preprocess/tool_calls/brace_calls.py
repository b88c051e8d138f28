"""Calls whose arguments are like JSON, but for keys without quotes and strings with other ones."""

from __future__ import annotations

import re

from onnxgen.preprocess.tool_calls.arguments import typed_value
from onnxgen.preprocess.tool_calls.json_scanner import MAX_DEPTH, is_json
from onnxgen.preprocess.tool_calls.literals import json_string
from onnxgen.preprocess.tool_calls.scanners import Cursor, MalformedError, MarkerSearch, Step

_BARE = re.compile(r"[^,:{}\[\]\n\ud800-\udfff]*")
_WORDS = {"type": ["boolean", "null"]}


def read_braces(cursor: Cursor, quote: str) -> Step[str]:
    """Read an object; returns its JSON text.

    Args:
        cursor: Where it begins.
        quote: Text on both sides of a string.

    Raises:
        MalformedError: It is none, or nested too deeply.
    """
    quotes = MarkerSearch((quote,))
    pieces: list[str] = []
    closings: list[str] = []
    if (yield from cursor.peek()) != "{":
        raise MalformedError
    wants_value = True
    while True:
        c = yield from cursor.peek()
        if wants_value:
            wants_value = False
            if c and c in "{[":
                closings.append("}" if c == "{" else "]")
                if len(closings) > MAX_DEPTH:
                    raise MalformedError
                pieces.append(c)
                cursor.pos += 1
                # An empty one is closed below; else its first member comes.
                if (yield from cursor.peek()) != closings[-1]:
                    wants_value = yield from _member(cursor, closings[-1], pieces, quotes)
            else:
                pieces.append((yield from _scalar(cursor, quotes)))
        elif c == ",":
            pieces.append(", ")
            cursor.pos += 1
            wants_value = yield from _member(cursor, closings[-1], pieces, quotes)
        elif c == closings[-1]:
            pieces.append(closings.pop())
            cursor.pos += 1
            if not closings:
                return "".join(pieces)
        else:
            raise MalformedError


def _member(cursor: Cursor, closing: str, pieces: list[str], quotes: MarkerSearch) -> Step[bool]:
    """Read what stands in front of the next value; always True, as that comes then."""
    if closing == "}":
        (quote,) = quotes.markers
        if (yield from cursor.accept(quote)):
            key = yield from _string(cursor, quotes)
        else:
            key = (yield from cursor.run(_BARE)).strip()
        yield from cursor.expect(":")
        pieces.append(f"{json_string(key)}: ")
    return True


def _scalar(cursor: Cursor, quotes: MarkerSearch) -> Step[str]:
    (quote,) = quotes.markers
    if (yield from cursor.accept(quote)):
        return json_string((yield from _string(cursor, quotes)))
    text = (yield from cursor.run(_BARE)).strip()
    return text if is_json(text, "-0123456789") else typed_value(text, _WORDS, {})


def _string(cursor: Cursor, quotes: MarkerSearch) -> Step[str]:
    text, quote = yield from cursor.until(quotes)
    if not quote:
        raise MalformedError
    return text

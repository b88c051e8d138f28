"""`JsonDepth`: how deeply a JSON text is nested, told while it comes and before it is parsed."""

from __future__ import annotations

import re

# Strings are left out: whole ones, and one that goes on in the next piece, perhaps after a backslash.
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(?:(")|(\\)?\Z)', re.DOTALL)
_STRING = re.compile(b'"' + _REST_OF_STRING.pattern, re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = frozenset(b"[{")


class JsonDepth:
    """Counts levels of arrays and objects over the pieces of a text; malformed texts are the parser's to refuse.

    Args:
        limit: Levels that are allowed.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._depth = limit, 0
        self._in_string = self._escaped = False

    def is_too_deep(self, piece: bytes) -> bool:
        """Whether the text is nested too deeply, with this next piece of it."""
        skeleton = self._without_strings(piece).translate(None, _NO_BRACKETS)
        depth = self._depth
        for bracket in skeleton:
            if bracket in _OPENING:
                depth += 1
                if depth > self._limit:
                    return True
            elif depth:
                depth -= 1
        self._depth = depth
        return False

    def _without_strings(self, piece: bytes) -> bytes:
        if not piece:
            return b""
        if self._escaped:
            piece, self._escaped = piece[1:], False
        if self._in_string:
            rest = _REST_OF_STRING.match(piece)
            assert rest is not None, "it matches every text"
            self._pass(rest)
            piece = piece[rest.end() :]
        return _STRING.sub(self._pass, piece)

    def _pass(self, string: re.Match[bytes]) -> bytes:
        closing, backslash = string.groups()
        self._in_string, self._escaped = closing is None, backslash is not None
        return b""

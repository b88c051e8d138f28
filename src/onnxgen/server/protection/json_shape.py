"""`JsonShape`: how deep and how intricate a JSON text is, told while it comes and before it is parsed."""

from __future__ import annotations

import re

# Strings are left out: whole ones, and one that goes on in the next piece, perhaps after a backslash.
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+(?:(")|(\\)?\Z)', re.DOTALL)
_STRING = re.compile(b'"' + _REST_OF_STRING.pattern, re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = frozenset(b"[{")


class JsonShape:
    """Counts arrays, objects and values over the pieces of a text; malformed texts are the parser's to refuse.

    Args:
        max_depth: Levels of them that are allowed.
        max_containers: How many of them are allowed in all: parsing stops everything else, and these take longest.
        max_values: How many values are allowed in all, such as token ids.
    """

    def __init__(self, *, max_depth: int, max_containers: int, max_values: int) -> None:
        self._max_depth, self._max_containers, self._max_values = max_depth, max_containers, max_values
        self._depth = self._containers = self._values = 0
        self._in_string = self._escaped = False

    def fault(self, piece: bytes) -> str | None:
        """What is too much, with this next piece of the text; None: nothing yet."""
        rest = self._without_strings(piece)
        self._values += rest.count(b",")  # all but the first of each array and object
        if self._values >= self._max_values:
            return f"has more than {self._max_values} values"
        skeleton = rest.translate(None, _NO_BRACKETS)
        self._containers += skeleton.count(b"[") + skeleton.count(b"{")
        if self._containers > self._max_containers:
            return f"has more than {self._max_containers} arrays and objects"
        depth = self._depth
        for bracket in skeleton:
            if bracket in _OPENING:
                depth += 1
                if depth > self._max_depth:
                    return f"is nested more than {self._max_depth} levels deep"
            elif depth:
                depth -= 1
        self._depth = depth
        return None

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

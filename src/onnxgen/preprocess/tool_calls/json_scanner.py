"""`JsonScanner`: where a JSON value ends, found while its text comes."""

from __future__ import annotations

import re

MAX_DEPTH = 128
"""Objects and arrays may be nested so deeply."""

_BLANKS = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'[^"\\\x00-\x1f]*')
_ATOM = re.compile(r"[-+.0-9A-Za-z]*")
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number as JSON has them (RFC 8259)."""
_WORDS = frozenset({"true", "false", "null"})
_HEX = frozenset("0123456789abcdefABCDEF")

# What may come next:
_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _COLON, _NEXT, _IN_STRING, _ESCAPE, _IN_ATOM = range(9)


class JsonScanner:
    """Follows the text of one JSON value (RFC 8259, to the letter) in pieces of any size.

    Args:
        kinds: Characters that the value may begin with; empty: any.

    Attributes:
        is_done: The value is whole. A number or word is so when something else follows it.
        stopped: Where the last `scan` stopped: at the end of the value or of the text, or at the character
            that does not fit.
    """

    def __init__(self, kinds: str = "") -> None:
        self.is_done = False
        self.stopped = 0
        self._kinds = kinds
        self._state = _VALUE
        self._open: list[str] = []
        self._is_key = False
        self._hex_digits = 0
        self._atom: list[str] = []

    def scan(self, text: str, pos: int) -> None:
        """Follow ``text[pos:]``.

        Raises:
            ValueError: A character does not fit, or there is too much nesting.
        """
        size = len(text)
        try:
            while pos < size and not self.is_done:
                state = self._state
                if state == _IN_STRING:
                    pos = _end(_STRING, text, pos)
                    if pos < size:
                        self._leave_characters(text[pos])
                        pos += 1
                elif state == _ESCAPE:
                    self._escape(text[pos])
                    pos += 1
                elif state == _IN_ATOM:
                    end = _end(_ATOM, text, pos)
                    self._atom.append(text[pos:end])
                    pos = end
                    if pos < size:
                        self._end_atom()
                else:
                    pos = _end(_BLANKS, text, pos)
                    if pos < size:
                        pos += self._structure(text[pos])
        finally:
            self.stopped = pos

    def _leave_characters(self, c: str) -> None:
        if c == "\\":
            self._state = _ESCAPE
        elif c != '"':
            raise ValueError("a control character in a string")
        elif self._is_key:
            self._is_key = False
            self._state = _COLON
        else:
            self._end_value()

    def _escape(self, c: str) -> None:
        if self._hex_digits:
            if c not in _HEX:
                raise ValueError("no hexadecimal digit")
            self._hex_digits -= 1
        elif c == "u":
            self._hex_digits = 4
        elif c not in '"\\/bfnrt':
            raise ValueError("no such escape")
        if not self._hex_digits:
            self._state = _IN_STRING

    def _structure(self, c: str) -> int:
        """Follow a character outside of strings and numbers; returns whether it is used up."""
        state = self._state
        if state in (_VALUE, _FIRST_VALUE):
            if state == _FIRST_VALUE and c == "]":
                self._close(c)
            else:
                self._begin_value(c)
                return self._state != _IN_ATOM
        elif state in (_KEY, _FIRST_KEY):
            if state == _FIRST_KEY and c == "}":
                self._close(c)
            elif c == '"':
                self._is_key = True
                self._state = _IN_STRING
            else:
                raise ValueError("no key")
        elif state == _COLON:
            if c != ":":
                raise ValueError("no colon")
            self._state = _VALUE
        elif c == ",":
            self._state = _KEY if self._open[-1] == "}" else _VALUE
        else:
            self._close(c)
        return True

    def _begin_value(self, c: str) -> None:
        if self._kinds and c not in self._kinds and not self._open:
            raise ValueError("another kind of value")
        if c == '"':
            self._state = _IN_STRING
        elif c in "{[":
            self._open.append("}" if c == "{" else "]")
            if len(self._open) > MAX_DEPTH:
                raise ValueError("nested too deeply")
            self._state = _FIRST_KEY if c == "{" else _FIRST_VALUE
        elif c in "-0123456789tfn":
            self._state = _IN_ATOM
        else:
            raise ValueError("no value")

    def _end_atom(self) -> None:
        atom = "".join(self._atom)
        self._atom.clear()
        if atom not in _WORDS and not NUMBER.fullmatch(atom):
            raise ValueError("no number or word of JSON")
        self._end_value()

    def _close(self, c: str) -> None:
        if c != self._open[-1]:
            raise ValueError("a bracket that closes nothing")
        self._open.pop()
        self._end_value()

    def _end_value(self) -> None:
        self._state = _NEXT
        self.is_done = not self._open


def _end(pattern: re.Pattern[str], text: str, pos: int) -> int:
    match = pattern.match(text, pos)
    assert match is not None
    return match.end()


def is_json(text: str, kinds: str = "") -> bool:
    """Whether a text is one JSON value.

    Args:
        text: The text.
        kinds: Characters that the value may begin with; empty: any.
    """
    scanner = JsonScanner(kinds)
    try:
        # The line end ends a number.
        scanner.scan(text + "\n", 0)
    except ValueError:
        return False
    return scanner.is_done and not text[scanner.stopped :].strip(" \t\n\r")

"""`PythonScanner`: where the arguments of a Python call end, found while their text comes."""

from __future__ import annotations

import re

MAX_DEPTH = 64
"""Brackets may be nested so deeply."""

_CODE = re.compile(r"[\w\s=,.:+\-]*")
_OF_QUOTE = {quote: re.compile(rf"[^\\\n{quote}]*") for quote in "'\""}
_OF_LONG_QUOTE = {quote: re.compile(rf"[^\\{quote}]*") for quote in "'\""}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class PythonScanner:
    """Follows literals between the brackets of a call, in pieces of any size, up to the closing one.

    Attributes:
        is_done: The closing bracket was read.
        stopped: Where the last `scan` stopped: behind that, at the end of the text, or at the character that
            does not fit.
    """

    def __init__(self) -> None:
        self.is_done = False
        self.stopped = 0
        self._open = [")"]
        self._quote = ""
        self._quotes = 0  # that were read where a string begins or, of a long one, may end
        self._begins = self._is_long = self._is_escaped = False

    def scan(self, text: str, pos: int) -> None:
        """Follow ``text[pos:]``.

        Raises:
            ValueError: A character does not fit, or there is too much nesting.
        """
        size = len(text)
        try:
            while pos < size and not self.is_done:
                if self._begins:
                    pos += self._begin_string(text[pos])
                elif self._is_escaped:
                    self._is_escaped = False
                    pos += 1
                else:
                    match = self._characters().match(text, pos)
                    assert match is not None
                    if match[0]:
                        self._quotes = 0
                    pos = match.end()
                    if pos < size:
                        self._leave_characters(text[pos])
                        pos += 1
        finally:
            self.stopped = pos

    def _characters(self) -> re.Pattern[str]:
        if not self._quote:
            return _CODE
        return (_OF_LONG_QUOTE if self._is_long else _OF_QUOTE)[self._quote]

    def _leave_characters(self, c: str) -> None:
        if not self._quote:
            self._code(c)
        elif c == "\\":
            self._is_escaped = True
            self._quotes = 0
        elif c != self._quote:
            raise ValueError("a line end in a string")
        else:
            self._quotes += 1
            if not self._is_long or self._quotes == 3:
                self._quote = ""

    def _code(self, c: str) -> None:
        if c in _CLOSING:
            self._open.append(_CLOSING[c])
            if len(self._open) > MAX_DEPTH:
                raise ValueError("nested too deeply")
        elif c in _OF_QUOTE:
            self._quote, self._quotes = c, 1
            self._begins, self._is_long = True, False
        elif c == self._open[-1]:
            self._open.pop()
            self.is_done = not self._open
        else:
            raise ValueError("not part of a literal")

    def _begin_string(self, c: str) -> int:
        """Tell a long string from an empty one; returns whether the character is used up."""
        if c == self._quote:
            self._quotes += 1
            if self._quotes == 3:
                self._is_long, self._begins, self._quotes = True, False, 0
            return True
        if self._quotes == 2:
            self._quote = ""
        self._begins, self._quotes = False, 0
        return False

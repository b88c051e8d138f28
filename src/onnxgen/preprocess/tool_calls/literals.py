"""Python literals to JSON text. Nothing is evaluated."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence

from onnxgen.preprocess.tool_calls.json_scanner import NUMBER
from onnxgen.preprocess.tool_calls.python_scanner import MAX_DEPTH

_BLANKS = re.compile(r"\s*")
_NAME = re.compile(r"[^\W\d]\w*")
_NUMBER = re.compile(r"[+-]?\.?\d[\w.]*(?:(?<=[eE])[+-]\d+)?")
_STRING = re.compile(
    r"([rR]?)(?:"
    r"'''([^\\']*+(?:(?:\\.|'(?!''))[^\\']*+)*+)'''"
    r'|"""([^\\"]*+(?:(?:\\.|"(?!""))[^\\"]*+)*+)"""'
    r"|'([^\\'\n]*+(?:\\.[^\\'\n]*+)*+)'"
    r'|"([^\\"\n]*+(?:\\.[^\\"\n]*+)*+)")',
    re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {c: c for c in "\\'\""} | dict(
    zip("ntrbfav\n", ("\n", "\t", "\r", "\b", "\f", "\a", "\v", ""), strict=True)
)
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}


def arguments_of_call(text: str, positions: Sequence[str]) -> str:
    """JSON object of the arguments of a Python call.

    Args:
        text: What stands between the brackets of the call.
        positions: Names of the parameters, for arguments without one.

    Raises:
        ValueError: They are no literals, one comes twice, or there are more than parameters.
    """
    reader = _Reader(text)
    members: dict[str, str] = {}
    while not reader.is_at_end():
        name = reader.keyword() or (positions[len(members)] if len(members) < len(positions) else None)
        if name is None or name in members:
            raise ValueError("an argument for no parameter")
        members[name] = reader.value()
        if not reader.accept(",") and not reader.is_at_end():
            raise ValueError("no comma")
    return json_object(members)


def literal(text: str) -> str:
    """JSON text of a Python literal.

    Raises:
        ValueError: It is none.
    """
    reader = _Reader(text)
    value = reader.value()
    if not reader.is_at_end():
        raise ValueError("more than a literal")
    return value


def json_object(members: dict[str, str]) -> str:
    """JSON text of an object whose values are JSON text."""
    return "{" + ", ".join(f"{json_string(key)}: {value}" for key, value in members.items()) + "}"


def json_string(text: str) -> str:
    """JSON text of a string."""
    return json.dumps(text, ensure_ascii=False)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._pos = 0
        self._depth = 0

    def is_at_end(self) -> bool:
        self._skip_blanks()
        return self._pos == len(self._text)

    def accept(self, c: str) -> bool:
        self._skip_blanks()
        found = self._text.startswith(c, self._pos)
        self._pos += found * len(c)
        return found

    def keyword(self) -> str | None:
        self._skip_blanks()
        match = _NAME.match(self._text, self._pos)
        if match is None:
            return None
        start, self._pos = self._pos, match.end()
        if self.accept("="):
            return match[0]
        self._pos = start
        return None

    def value(self) -> str:
        self._skip_blanks()
        c = self._text[self._pos : self._pos + 1]
        if c and c in "([{":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ValueError("nested too deeply")
            self._pos += 1
            value = self._dict() if c == "{" else self._list(")" if c == "(" else "]")
            self._depth -= 1
            return value
        if _STRING.match(self._text, self._pos):
            return json_string(self._string())
        if match := _NUMBER.match(self._text, self._pos):
            self._pos = match.end()
            return _number(match[0])
        if (match := _NAME.match(self._text, self._pos)) and match[0] in _WORDS:
            self._pos = match.end()
            return _WORDS[match[0]]
        raise ValueError("no literal")

    def _list(self, closing: str) -> str:
        values: list[str] = []
        comma = False
        while not self.accept(closing):
            if values and not comma:
                raise ValueError("no comma")
            values.append(self.value())
            comma = self.accept(",")
        if closing == ")" and len(values) == 1 and not comma:
            return values[0]
        return f"[{', '.join(values)}]"

    def _dict(self) -> str:
        members: dict[str, str] = {}
        comma = True
        while not self.accept("}"):
            if not comma:
                raise ValueError("no comma")
            self._skip_blanks()
            if not _STRING.match(self._text, self._pos):
                raise ValueError("a key that is no string")
            key = self._string()
            if not self.accept(":"):
                raise ValueError("no colon")
            members[key] = self.value()
            comma = self.accept(",")
        return json_object(members)

    def _string(self) -> str:
        pieces: list[str] = []
        while match := _STRING.match(self._text, self._pos):
            body = next(group for group in match.groups()[1:] if group is not None)
            pieces.append(body if match[1] else _ESCAPE.sub(_unescape, body))
            self._pos = match.end()
            self._skip_blanks()
        # Two escapes may be the halves of one character; a half alone is none.
        return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _skip_blanks(self) -> None:
        match = _BLANKS.match(self._text, self._pos)
        assert match is not None
        self._pos = match.end()


def _number(text: str) -> str:
    if NUMBER.fullmatch(text):
        return text
    try:
        return json.dumps(int(text, 0))
    except ValueError:
        # NaN and Infinity are names, but a large exponent is infinite, too.
        return json.dumps(float(text), allow_nan=False)


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        point = int(code[1:], 16)
        if point > sys.maxunicode:
            raise ValueError("no such character")
        return chr(point)
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _ESCAPED.get(code, match[0])

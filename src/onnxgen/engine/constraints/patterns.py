"""Patterns of JSON Schema (ECMA-262) as llguidance's engine reads regular expressions (Rust's syntax)."""

from __future__ import annotations

import re

# Inside [...]: blanks as ECMA-262 counts them; Rust counts U+0085 too and leaves U+FEFF out.
_BLANKS = r"\t\n\x0B\x0C\r \xA0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000\uFEFF"
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": _BLANKS}
_ANY = r"[^\n\r\u2028\u2029]"

_PIECE = re.compile(
    r"\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\c(?P<control>[A-Za-z])|\\0(?![0-9])|\\(?P<class>[dDwWsS])|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)

_EMPTY = re.compile(r"\[(?P<negated>\^)?\]")
_CLASS = re.compile(r"\\[dDwWsS]")


def rust_pattern(pattern: str) -> str:
    r"""Write a pattern so that it means to Rust what it means to ECMA-262.

    Classes (``\d``, ``\w``, ``\s``, ``.``), brackets inside ``[...]`` and escapes that differ are written
    out. What the engine cannot do (look-around, back-references, word boundaries) is left for it to refuse.
    """
    out: list[str] = []
    inside = after_class = False
    place = 0
    while place < len(pattern):
        empty = None if inside else _EMPTY.match(pattern, place)
        if empty is not None:
            out.append(r"[\s\S]" if empty["negated"] else r"[^\s\S]")
            place = empty.end()
            continue
        match = _PIECE.match(pattern, place)
        assert match is not None, "one of the alternatives takes any character"
        text, place = match.group(), match.end()
        if match["high"]:
            out.append(_pair(match["high"], match["low"]))
        elif match["control"]:
            out.append(f"\\x{ord(match['control']) % 32:02X}")
        elif match["class"]:
            out.append(_class(match["class"], inside))
        elif match["plain"] is None:
            out.append(_escape(match["escaped"]))
        elif inside:
            # Rust reads && -- ~~ and nested brackets as operations on sets, and wants no class in a range.
            single = text == "-" and (after_class or _CLASS.match(pattern, place))
            out.append("\\" + text if text in "[&~" or single else text)
            inside = text != "]"
        elif text == "[":
            out.append(text)
            if pattern.startswith("^", place):
                out.append("^")
                place += 1
            inside = True
        else:
            out.append(_ANY if text == "." else text)
        after_class = match["class"] is not None
    return "".join(out)


def _class(name: str, inside: bool) -> str:
    members = _CLASSES[name.lower()]
    if name.islower():
        return members if inside else f"[{members}]"
    return f"[^{members}]"


def _escape(escaped: str | None) -> str:
    if escaped is None:
        return r"\x00"
    if escaped == "v":
        return r"\x0B"
    # Rust knows these escapes, the rest of the letters it refuses; other signs stand for themselves.
    return "\\" + escaped if escaped.isalnum() or not escaped.isascii() or escaped in _SIGNS else escaped


_SIGNS = frozenset("\\.+*?()|[]{}^$#&-~")


def _pair(high: str, low: str) -> str:
    code = 0x10000 + (int(high, 16) - 0xD800) * 0x400 + int(low, 16) - 0xDC00
    return f"\\x{{{code:X}}}"

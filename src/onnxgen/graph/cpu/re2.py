r"""Patterns in the syntax of RE2 as patterns of `re`, for matches of a whole string.

Which of several matches is preferred does not matter there, so greediness is of no concern. What differs:

    RE2                                          here
    \d \w \s \b are ASCII                        spelled out
    $ is the end of the text                     \Z; with flag m the end of a line, as in `re`
    (?i) in the middle, until its group ends     a group with flags around the rest
    [[:alpha:]], \pL, \p{Lu}                     spelled out from `unicodedata`
    \Q...\E, \z, \x{10FFFF}, (?<name>...)        escapes that `re` has
    no lookaround, no backreference, no \C       refused, like scripts as \p{Greek}, which Python has no table of

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

_WORD = "0-9A-Za-z_"
_ASCII_CLASSES = {"d": "0-9", "w": _WORD, "s": r"\t\n\f\r "}
_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": _WORD,
    "xdigit": "0-9A-Fa-f",
}
_BOUNDARY = f"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))"
_NO_BOUNDARY = f"(?:(?<![{_WORD}])(?![{_WORD}])|(?<=[{_WORD}])(?=[{_WORD}]))"
_LONGEST_REPEAT = 1000


@cache
def compile_re2(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of RE2; use its ``fullmatch`` only.

    Raises:
        ValueError: when it is not one, or uses what the module's table says is refused.
    """
    translated = _Translator(pattern).translate()
    try:
        return re.compile(translated)
    except re.error as cause:
        raise ValueError(str(cause)) from cause


class _Translator:
    """Reads a pattern from left to right; ``open_flags`` has, for each open group, the flag groups inside it."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.multiline = [False]
        self.open_flags: list[list[str]] = [[]]
        self.out: list[str] = []

    def translate(self) -> str:
        while self.at < len(self.pattern):
            self.out.append(self._next())
        if len(self.open_flags) > 1:
            raise ValueError("a group is not closed")
        return "".join(self.out) + ")" * len(self.open_flags[0])

    def _take(self, prefix: str) -> bool:
        found = self.pattern.startswith(prefix, self.at)
        self.at += len(prefix) * found
        return found

    def _until(self, end: str) -> str:
        stop = self.pattern.find(end, self.at)
        if stop < 0:
            raise ValueError(f"{end!r} is missing")
        text, self.at = self.pattern[self.at : stop], stop + len(end)
        return text

    def _next(self) -> str:
        if self._take("\\"):
            return self._escape()
        if self._take("["):
            return self._char_class()
        if self._take("("):
            return self._group()
        if self._take(")"):
            return self._close()
        if self._take("$"):
            return "$" if self.multiline[-1] else r"\Z"
        if self._take("|"):
            flags = self.open_flags[-1]
            # Flags hold in the next alternative too, the group that stands for them must not enclose the bar.
            return ")" * len(flags) + "|" + "".join(flags)
        repeat = re.compile(r"(?:[*+?]|\{(\d+)(?:,(\d*))?\})").match(self.pattern, self.at)
        if repeat:
            return self._repeat(repeat)
        char = self.pattern[self.at]
        self.at += 1
        return r"\{" if char == "{" else char

    def _repeat(self, found: re.Match[str]) -> str:
        if any(int(count) > _LONGEST_REPEAT for count in found.groups() if count):
            raise ValueError(f"{found[0]} repeats more than {_LONGEST_REPEAT} times")
        self.at = found.end()
        self._take("?")
        if re.compile(r"[*+?]|\{\d+(?:,\d*)?\}").match(self.pattern, self.at):
            raise ValueError(f"two repetitions follow each other at {self.at}")
        return found[0]

    def _group(self) -> str:
        self.open_flags.append([])
        self.multiline.append(self.multiline[-1])
        if not self._take("?"):
            return "(?:"
        if self._take("P<") or (self.pattern[self.at : self.at + 2] not in ("<=", "<!") and self._take("<")):
            self._until(">")
            return "(?:"
        flags = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])").match(self.pattern, self.at)
        if not flags:
            raise ValueError(
                f"a group begins with (?{self.pattern[self.at : self.at + 2]}, which RE2 does not have"
            )
        self.at = flags.end()
        on, off, end = flags[1], flags[2] or "", flags[3]
        if end == ")":
            self.open_flags.pop()
            self.multiline.pop()
        if "m" in on or "m" in off:
            self.multiline[-1] = "m" in on
        on, off = on.replace("U", ""), off.replace("U", "")
        group = f"(?{on}{'-' + off if off else ''}:"
        if end == ")":
            self.open_flags[-1].append(group)
        return group

    def _close(self) -> str:
        if len(self.open_flags) == 1:
            raise ValueError("a group is closed that is not open")
        self.multiline.pop()
        return ")" * (1 + len(self.open_flags.pop()))

    def _escape(self, *, in_class: bool = False) -> str:
        if self.at == len(self.pattern):
            raise ValueError("it ends with a backslash")
        char = self.pattern[self.at]
        self.at += 1
        if char in "pP":
            return self._category(negated=char == "P", in_class=in_class)
        if char.lower() in _ASCII_CLASSES:
            members = _ASCII_CLASSES[char.lower()]
            if in_class:
                return members if char.islower() else _complement(members)
            return f"[{'' if char.islower() else '^'}{members}]"
        if char == "x":
            code = self._until("}") if self._take("{") else self._digits(2)
            return re.escape(chr(int(code, 16)))
        if char in "01234567":
            return self._octal(char)
        if char in "aftnrv":
            return "\\" + char
        if not in_class:
            if char == "Q":
                stop = self.pattern.find("\\E", self.at)
                stop = len(self.pattern) if stop < 0 else stop
                text, self.at = self.pattern[self.at : stop], stop + 2
                return re.escape(text)
            anchors = {"A": r"\A", "z": r"\Z", "b": _BOUNDARY, "B": _NO_BOUNDARY}
            if char in anchors:
                return anchors[char]
        if char.isascii() and (char.isalnum()):
            raise ValueError(f"\\{char} is not supported")
        return re.escape(char)

    def _digits(self, count: int) -> str:
        self.at += count
        return self.pattern[self.at - count : self.at]

    def _octal(self, first: str) -> str:
        found = re.compile(r"[0-7]{0,2}").match(self.pattern, self.at)
        assert found is not None
        if first != "0" and not found[0]:
            raise ValueError(f"\\{first} refers back, which RE2 does not have")
        self.at = found.end()
        return re.escape(chr(int(first + found[0], 8)))

    def _category(self, *, negated: bool, in_class: bool) -> str:
        name = self._until("}") if self._take("{") else self._digits(1)
        if name.startswith("^"):
            name, negated = name[1:], not negated
        members = _members(name)
        if in_class:
            return _complement(members) if negated else members
        return f"[{'^' if negated else ''}{members}]"

    def _char_class(self) -> str:
        parts = ["[^" if self._take("^") else "["]
        if self._take("]"):
            parts.append(r"\]")
        while not self._take("]"):
            if self.at == len(self.pattern):
                raise ValueError("a character class is not closed")
            if self._take("[:"):
                negated = self._take("^")
                name = self._until(":]")
                if name not in _POSIX_CLASSES:
                    raise ValueError(f"[:{name}:] is not a character class")
                members = _POSIX_CLASSES[name]
                parts.append(_complement(members) if negated else members)
            elif self._take("\\"):
                parts.append(self._escape(in_class=True))
            else:
                char = self.pattern[self.at]
                self.at += 1
                parts.append("\\" + char if char in "[&|~" else char)
        return "".join(parts) + "]"


@cache
def _complement(members: str) -> str:
    outside = re.compile(f"[^{members}]")
    return _ranges([code for code in range(sys.maxunicode + 1) if outside.match(chr(code))])


@cache
def _members(category: str) -> str:
    """The characters of a general category (``L``, ``Lu``), as inside of a character class."""
    codes = [
        code
        for code in range(sys.maxunicode + 1)
        if category == "Any" or unicodedata.category(chr(code)).startswith(category)
    ]
    if not codes or len(category) > 3:
        raise ValueError(f"\\p{{{category}}} is not a general category of Unicode")
    return _ranges(codes)


def _ranges(codes: list[int]) -> str:
    starts = [code for code, before in zip(codes, [-2, *codes], strict=False) if code != before + 1]
    ends = [code for code, after in zip(codes, [*codes[1:], -2], strict=True) if code + 1 != after]
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in zip(starts, ends, strict=True))

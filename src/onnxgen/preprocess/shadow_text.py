"""Shadowed text: text of a request that a chat template can work on, and that never reads as a control token.

Each ASCII punctuation character has a shadow, one of the 32 Unicode noncharacters U+FDD0 to U+FDEF.
Content is shadowed before it goes into a template, in the characters that special tokens begin and end
with; what the template writes itself is not. So a special token in the rendered text is the template's
own, even where content has been cut, trimmed, joined or put between a template's texts, and plain text
is what remains when the shadows are taken away.

A shadow is as long as its character, so slices and lengths are right as they are. Operations that look
at characters are done on the plain text; what they cut out of a text keeps its shadows.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

_FIRST = 0xFDD0
_CHARACTERS = string.punctuation
_SHADOWS = re.compile("[\ufdd0-\ufdef]")
_TO_PLAIN = {_FIRST + i: c for i, c in enumerate(_CHARACTERS)}
_TO_SHADOW = {c: chr(code) for code, c in _TO_PLAIN.items()}
_TO_REPLACEMENT = dict.fromkeys(_TO_PLAIN, "�")
# From so many characters on a few fast passes beat looking at each one, which takes a second for a text of 8 MB.
_LONG = 1024

PUNCTUATION = frozenset(_CHARACTERS)
"""Characters that have shadows."""


class Shade:
    """Shadows some characters.

    Args:
        characters: Those to shadow, all of `PUNCTUATION`.
    """

    def __init__(self, characters: Iterable[str]) -> None:
        self._table = {ord(c): _TO_SHADOW[c] for c in characters}

    def text(self, text: str) -> str:
        """Shadow a text that has shadows of its own characters only."""
        return _replaced(text, self._table)

    def data(self, value: Any) -> Any:
        """Shadow all texts and keys of plain data; noncharacters that were there before become U+FFFD."""
        return _mapped(value, lambda text: self.text(without_noncharacters(text)))


def plain(text: str) -> str:
    """A text without shadows."""
    return _replaced(text, _TO_PLAIN) if _has_shadows(text) else text


def plain_data(value: Any) -> Any:
    """Plain data, or any other value, without shadows."""
    return _mapped(value, plain) if shadowed(value) else value


def without_noncharacters(text: str) -> str:
    """A text with U+FFFD in place of what could be taken for a shadow."""
    return _replaced(text, _TO_REPLACEMENT) if _has_shadows(text) else text


def shadowed(value: Any) -> bool:
    """Whether a text has shadows, or plain data has a text that does."""
    if isinstance(value, str):
        return _has_shadows(value)
    if isinstance(value, dict):
        return any(shadowed(k) or shadowed(v) for k, v in cast("dict[Any, Any]", value).items())
    if isinstance(value, list | tuple):
        return any(map(shadowed, cast("Sequence[Any]", value)))
    return False


def on_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of any values work without shadows; in all its texts the same characters get shadows."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not shadowed(args) and not shadowed(kwargs):
            return function(*args, **kwargs)
        again = Shade(_shadowed_characters([args, kwargs]))
        result = function(*map(plain_data, args), **plain_data(kwargs))
        return _mapped(result, again.text)

    return wrapped


def by_place(function: Callable[[str], str]) -> Callable[[str], str]:
    """Let a function of a text work without shadows; where its text is as long, each character stays as it was."""

    @functools.wraps(function)
    def wrapped(text: Any) -> str:
        result = function(_bare(text))
        if not isinstance(text, str) or not shadowed(text):
            return result
        if len(result) != len(text):
            return Shade(_shadowed_characters(text)).text(result)
        return "".join(c if _SHADOWS.match(c) else new for c, new in zip(text, result, strict=True))

    return wrapped


def text_method(text: str, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a method of a text that has shadows, or whose arguments have, as if there were none.

    Texts that it gives are parts of the text, and of the replacement for ``replace``, as they were.
    """
    bare, values = plain(text), tuple(plain_data(list(args)))
    if name in ("find", "rfind", "index", "rindex", "count", "startswith", "endswith"):
        return getattr(bare, name)(*map(_tuple, values))
    separator = values[0] if values else kwargs.get("sep")
    if name in ("split", "rsplit") and separator:
        return _cut(text, getattr(bare, name)(*values, **plain_data(kwargs)), gap=len(separator))
    if name in ("partition", "rpartition"):
        return tuple(_cut(text, getattr(bare, name)(*values), gap=0))
    if name in ("strip", "lstrip", "rstrip") and values and values[0]:
        left = 0 if name == "rstrip" else len(bare) - len(bare.lstrip(*values))
        return text[left : left + len(getattr(bare, name)(*values))]
    if name == "removeprefix":
        return text[len(text) - len(bare.removeprefix(*values)) :]
    if name == "removesuffix":
        return text[: len(bare.removesuffix(*values))]
    if name == "replace" and len(values) >= 2 and values[0]:
        count = values[2] if len(values) > 2 else kwargs.get("count", -1)
        return args[1].join(_cut(text, bare.split(values[0], count), gap=len(values[0])))
    return getattr(text, name)(*args, **kwargs)


def method(text: str, name: str) -> Callable[..., Any]:
    """A method of a text, as `text_method` calls it."""
    return lambda *args, **kwargs: text_method(text, name, args, kwargs)


def same(left: Any, right: Any) -> Any:
    """``==`` of values whose texts may have shadows."""
    return plain_data(left) == plain_data(right)


def contains(container: Any, item: Any) -> bool:
    """``item in container``, whichever has shadows."""
    item = _bare(item)
    if isinstance(container, str):
        return item in plain(container)
    if item in container:
        return True
    if not isinstance(item, str) or not isinstance(container, list | tuple | dict):
        return False
    others = cast("Iterable[Any]", container)
    return any(plain(other) == item for other in others if isinstance(other, str))


def written(value: Any) -> Any:
    """A list or mapping as it is printed; anything else as it is."""
    if isinstance(value, list | tuple | dict) and shadowed(value):
        return on_plain(str)(value)
    return value


def _bare(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value


def _tuple(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def _cut(text: str, parts: Iterable[str], *, gap: int) -> list[str]:
    """Cut a text where its plain form was cut into parts."""
    result: list[str] = []
    at = 0
    for part in parts:
        result.append(text[at : at + len(part)])
        at += len(part) + gap
    return result


def _shadowed_characters(value: Any) -> set[str]:
    found: set[str] = set()

    def note(text: str) -> str:
        found.update(_TO_PLAIN[ord(shadow)] for shadow in _SHADOWS.findall(text))
        return text

    _mapped(value, note)
    return found


def _has_shadows(text: str) -> bool:
    if len(text) < _LONG:
        return _SHADOWS.search(text) is not None
    return not text.isascii() and any(chr(shadow) in text for shadow in _TO_PLAIN)


def _replaced(text: str, table: Mapping[int, str]) -> str:
    """``text.translate(table)``, where none of what it puts in is replaced again."""
    if len(text) < _LONG:
        return text.translate(table)
    for code, instead in table.items():
        text = text.replace(chr(code), instead)
    return text


def _mapped(value: Any, function: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return function(value)
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {_mapped(k, function): _mapped(v, function) for k, v in items}
    if isinstance(value, list):
        return [_mapped(item, function) for item in cast("list[Any]", value)]
    if type(value) is tuple:
        return tuple(_mapped(item, function) for item in cast("tuple[Any, ...]", value))
    return value

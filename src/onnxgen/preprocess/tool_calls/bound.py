"""`BoundFormat`: a format together with the tokens that its texts are for a tokenizer.

A text that is one token is found by the token alone: a model may write about such texts. So that all else can
work on plain text, the text of such a token is replaced by a character of its own while it is looked at: a
lone surrogate, which no decoded text has.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnxgen.preprocess.tool_calls.layouts import (
    Body,
    BraceCall,
    JsonCall,
    NamedCall,
    PythonCall,
    TagCall,
    ToolCallFormat,
)
from onnxgen.preprocess.tool_calls.scanners import MarkerSearch

if TYPE_CHECKING:
    from onnxgen.preprocess.tokenizer import Tokenizer

_FIRST_CHARACTER = 0xDC00
_MIN_CHARS = 5
"""Added tokens that are not special and shorter than this are words and line ends, no markers."""


@dataclass(frozen=True, slots=True)
class BoundFormat:
    """A format for one tokenizer.

    Attributes:
        format: The format.
        marked: The format with characters in place of tokens.
        token_texts: Texts of the tokens that mark calls, by id.
        characters: Those that stand for them, by id.
        shown_ids: Special tokens among them: an `IncrementalDetokenizer` must not skip them, so that a
            `ToolCallParser` sees them.
        short_ids: Ids of calls must have nine letters and digits (see `MessageStyle`).
        openings: Finds what opens a block.
        closings: Finds what closes a call or a block.
        value_ends: Finds what may end a value that has no quotes.
    """

    format: ToolCallFormat
    marked: ToolCallFormat
    token_texts: Mapping[int, str]
    characters: Mapping[int, str]
    shown_ids: frozenset[int]
    short_ids: bool
    openings: MarkerSearch
    closings: MarkerSearch
    value_ends: MarkerSearch

    @property
    def name(self) -> str:
        """Name of the format, for logs."""
        return self.format.name

    def shown(self, text: str) -> str:
        """A text with the texts of tokens where characters stand for them."""
        for token_id, character in self.characters.items():
            if character in text:
                text = text.replace(character, self.token_texts[token_id])
        return text


def bind(format: ToolCallFormat, tokenizer: Tokenizer | None, *, short_ids: bool = False) -> BoundFormat:
    """Find out which texts of a format are tokens.

    Args:
        format: The format.
        tokenizer: The model's; None: all texts are found as text.
        short_ids: Ids of calls must have nine letters and digits.
    """
    tokens = {t.text: t for t in tokenizer.added_tokens if t.text} if tokenizer else {}
    able = {
        text: token
        for text, token in tokens.items()
        if token.special or (len(text) >= _MIN_CHARS and not re.search(r"\s", text))
    }
    found: dict[str, str] = {}
    longest_first = sorted(able, key=lambda text: (-len(text), text))
    pattern = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")

    def replace(match: re.Match[str]) -> str:
        return found.setdefault(match[0], chr(_FIRST_CHARACTER + len(found)))

    def mark(text: str) -> str:
        return pattern.sub(replace, text)

    marked = dataclasses.replace(
        format,
        body=_marked(format.body, mark),
        others=tuple(_marked(body, mark) for body in format.others),
        opening=mark(format.opening),
        closing=mark(format.closing),
        separator=mark(format.separator),
        other_openings=tuple(mark(text) for text in format.other_openings),
    )
    openings = tuple(_openings(marked))
    closings = tuple(_closings(marked))
    tags = (body for body in (marked.body, *marked.others) if isinstance(body, TagCall))
    values = (text.strip() for body in tags for text in (body.after_value, body.before_key, body.before_name))
    return BoundFormat(
        format=format,
        marked=marked,
        token_texts={able[text].id: text for text in found},
        characters={able[text].id: character for text, character in found.items()},
        shown_ids=frozenset(able[text].id for text in found if able[text].special),
        short_ids=short_ids,
        openings=MarkerSearch(openings),
        closings=MarkerSearch(closings),
        value_ends=MarkerSearch((*values, *closings, *openings)),
    )


def first_text(body: Body) -> str:
    """The text that every call of a layout begins with, if there is one."""
    return body.before_name.strip() if isinstance(body, NamedCall | TagCall | BraceCall) else ""


def _openings(format: ToolCallFormat) -> Iterable[str]:
    yield format.opening.strip()
    yield from (text.strip() for text in format.other_openings)
    if not format.opening or format.opening_optional:
        yield first_text(format.body)


def _closings(format: ToolCallFormat) -> Iterable[str]:
    yield format.closing.strip()
    for body in (format.body, *format.others):
        if isinstance(body, NamedCall):
            yield body.after_arguments.strip()
        elif isinstance(body, TagCall):
            yield body.after_parameters.strip()


def _marked(body: Body, mark: Callable[[str], str]) -> Body:
    if isinstance(body, JsonCall | PythonCall):
        return body
    texts = {field.name: getattr(body, field.name) for field in dataclasses.fields(body)}
    return dataclasses.replace(body, **{name: mark(text) for name, text in texts.items()})

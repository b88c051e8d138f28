"""`ReasoningSplitter`: what a model thinks and what it answers, apart while the text comes."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from onnxgen.preprocess.reasoning_markers import PromptState, ReasoningMarkers

_QUOTES = frozenset("`\"'")


class _Place(Enum):
    BEFORE = auto()  # nothing but blanks since the beginning, or since a block was closed
    REASONING = auto()
    CONTENT = auto()


class ReasoningSplitter:
    """Splits an answer into reasoning and content, whatever the pieces it arrives in.

    Where a marker is one token of the vocabulary, that token counts and its text does not: a model may
    write about markers. Otherwise the text counts, an opening only where the answer begins or a block was
    closed before it, a closing unless it stands in quotes. A marker that says what is so already is
    dropped: an opening where the prompt opened the block, and a closing right after a block. A closing where
    nothing was thought since the prompt opened the block ends it if an empty line follows, as after every
    block; else the model lost its place, and what follows is reasoning up to the next closing.

    Line ends between a marker and the text are no part of either; templates add them again.

    Args:
        markers: Those of the model.
        state: What the prompt says at its end.
    """

    def __init__(self, markers: ReasoningMarkers, state: PromptState = PromptState.UNSAID) -> None:
        self._markers = markers
        self._place = _Place.REASONING if state is PromptState.OPEN else _Place.BEFORE
        self._may_be_redundant = state is PromptState.OPEN
        self._after_empty: str | None = None  # line ends after the closing of an empty block
        self._after_block = state is not PromptState.UNSAID
        self._held = ""  # text that may be, or become, part of a marker
        self._last = ""  # the character before what is held
        self._blank = True  # nothing but blanks in this block
        self._line_ends = ""  # at the end of the block so far
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._thought = False

    @property
    def in_reasoning(self) -> bool:
        """Whether what comes now is reasoning."""
        return self._place is _Place.REASONING

    def push(self, text: str, token_id: int | None = None) -> tuple[str, str]:
        """Take the next piece of text.

        Args:
            text: What a token added to the text.
            token_id: The token. A marker that is one token is found by it alone.

        Returns:
            What is now certain of the reasoning, and of the content.
        """
        if token_id is not None and token_id in (self._markers.opening_id, self._markers.closing_id):
            self._take_token(text, token_id)
        else:
            self._take(text)
        return self._given()

    def flush(self) -> tuple[str, str]:
        """What is held back, at the end of the answer."""
        if self._held == self._markers.closing and self._place is _Place.REASONING:
            self._held = ""
            self._close()
        self._settle()
        return self._given()

    def _given(self) -> tuple[str, str]:
        result = "".join(self._reasoning), "".join(self._content)
        self._reasoning, self._content = [], []
        return result

    def _take_token(self, text: str, token_id: int) -> None:
        opens = token_id == self._markers.opening_id
        before, marker, after = text.rpartition(self._markers.opening if opens else self._markers.closing)
        self._take(before if marker else text)
        self._after_empty = None
        if self._held.strip():
            self._settle()
        used_up = self._open() if opens else self._close()
        if not used_up and token_id not in self._markers.shown_ids:
            self._take_as_it_is(marker)
        self._take(after if marker else "")

    def _settle(self) -> None:
        """What is held is no marker."""
        held, self._held = self._held, ""
        self._take_as_it_is(held)

    def _take_as_it_is(self, text: str) -> None:
        if self._place is _Place.REASONING:
            self._think(text)
        else:
            self._answer(text)

    def _take(self, text: str) -> None:
        while text or self._held:
            if self._after_empty is not None:
                text = self._after_empty + text
                self._after_empty = text if text == "\n" else None
                if text == "\n":
                    return
                if text.startswith("\n\n"):
                    self._end_block()
            if self._place is _Place.CONTENT:
                self._answer(text)
                return
            whole, self._held = self._held + text, ""
            rest = self._before(whole) if self._place is _Place.BEFORE else self._inside(whole)
            if rest is None:
                return
            text = rest

    def _before(self, text: str) -> str | None:
        """Look for markers where an answer or a block may begin; returns what comes after one."""
        start = text.lstrip()
        for marker, act in self._candidates():
            if start.startswith(marker):
                act()
                return start[len(marker) :]
        if not start or any(marker.startswith(start) for marker, _ in self._candidates()):
            self._held = text
            return None
        self._answer(text)
        return None

    def _candidates(self) -> list[tuple[str, Callable[[], object]]]:
        markers = self._markers
        result: list[tuple[str, Callable[[], object]]] = [(header, _nothing) for header in markers.headers]
        if markers.opening_id is None:
            result.append((markers.opening, self._open))
        if markers.closing_id is None and self._after_block:
            result.append((markers.closing, self._close))
        return result

    def _inside(self, text: str) -> str | None:
        """Look for the end of a block; returns what comes after a marker."""
        opening, closing = self._markers.opening, self._markers.closing
        if self._markers.opening_id is None and self._blank:
            start = text.lstrip()
            if start.startswith(opening):
                return start[len(opening) :]
            if opening.startswith(start):
                self._held = text
                return None
        if self._markers.closing_id is not None:
            self._think(text)
            return None
        at = text.find(closing)
        if at < 0:
            keep = next(
                n for n in range(min(len(closing) - 1, len(text)), -1, -1) if text.endswith(closing[:n])
            )
            self._think(text[: len(text) - keep])
            self._held = text[len(text) - keep :]
            return None
        end = at + len(closing)
        quote = text[at - 1] if at else self._last
        if quote in _QUOTES and end == len(text):
            self._think(text[:at])
            self._held = closing
            return None
        if quote in _QUOTES and text[end] == quote:
            self._think(text[:end])
            return text[end:]
        self._think(text[:at])
        self._close()
        return text[end:]

    def _open(self) -> bool:
        """Open a block; returns whether the marker is used up."""
        if self._place is _Place.REASONING:
            return self._blank
        self._place = _Place.REASONING
        self._held = self._last = ""
        self._blank = True
        return True

    def _close(self) -> bool:
        """Close the block; returns whether the marker is used up."""
        if self._place is _Place.CONTENT:
            return False
        if self._place is _Place.REASONING:
            redundant = self._may_be_redundant and self._blank
            self._may_be_redundant = False
            self._line_ends = ""
            if redundant:
                self._after_empty = ""
                return True
        self._end_block()
        return True

    def _end_block(self) -> None:
        self._place = _Place.BEFORE
        self._held = ""
        self._after_block = True

    def _think(self, text: str) -> None:
        if not text:
            return
        self._last = text[-1]
        if self._blank:
            # Blanks alone are no thought; of those before one, only line ends go.
            text = self._line_ends + text
            self._line_ends = ""
            if not text.strip():
                self._line_ends = text
                return
            self._blank = False
            text = text.lstrip("\n")
            if self._thought:
                text = "\n\n" + text
            self._thought = True
        text = self._line_ends + text
        shown = text.rstrip("\n")
        self._line_ends = text[len(shown) :]
        self._reasoning.append(shown)

    def _answer(self, text: str) -> None:
        if self._place is _Place.BEFORE:
            if self._after_block:
                text = text.lstrip("\n")
            if text:
                self._place = _Place.CONTENT
        self._content.append(text)


def _nothing() -> None:
    """What a header of an answer does."""


def split_reasoning(
    markers: ReasoningMarkers, text: str, state: PromptState = PromptState.UNSAID
) -> tuple[str, str]:
    """Reasoning and content of a whole answer of which only the text is known."""
    by_text = ReasoningMarkers(markers.opening, markers.closing, headers=markers.headers)
    splitter = ReasoningSplitter(by_text, state)
    (reasoning, content), (more, rest) = splitter.push(text), splitter.flush()
    return reasoning + more, content + rest

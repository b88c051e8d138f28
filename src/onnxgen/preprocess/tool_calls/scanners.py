"""`Cursor`: text that comes in pieces, read by steps that wait for more where it ends.

A step is a generator: it yields None where it needs more text and returns what it read. Steps consume text as
soon as it is certain, so what is kept to be looked at again is never longer than a marker, and reading takes
time in proportion to the text whatever the pieces are. Where a step stops depends on the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import TypeVar

from onnxgen.preprocess.tool_calls.json_scanner import JsonScanner
from onnxgen.preprocess.tool_calls.python_scanner import PythonScanner

_T = TypeVar("_T")
Step = Generator[None, None, _T]
"""Reads something of type T."""

_BLANKS = re.compile(r"\s*")
_MAX_NAME_CHARS = 256


class MalformedError(Exception):
    """What is being read is no call."""


class NoCallError(MalformedError):
    """What was read is whole, and in order, but is no call."""


class MarkerSearch:
    """Finds texts, and ends that may become one of them.

    Args:
        markers: None is the beginning of another.
    """

    def __init__(self, markers: Iterable[str]) -> None:
        self.markers = tuple(dict.fromkeys(marker for marker in markers if marker))
        self._pattern = re.compile("|".join(map(re.escape, self.markers)) or r"(?!)")
        self._beginnings = frozenset(m[:n] for m in self.markers for n in range(1, len(m)))
        self._longest = max(map(len, self.markers), default=1) - 1
        self.first_characters = frozenset(marker[0] for marker in self.markers)

    def find(self, text: str, start: int = 0) -> re.Match[str] | None:
        """The first of the markers in ``text[start:]``."""
        return self._pattern.search(text, start)

    def certain(self, text: str, start: int) -> int:
        """End of that part of ``text[start:]``, in which no marker is, that can not become part of one."""
        for at in range(max(start, len(text) - self._longest), len(text)):
            if text[at] in self.first_characters and text[at:] in self._beginnings:
                return at
        return len(text)


class Cursor:
    """A place in a text that is still coming.

    Attributes:
        text: What is not given away yet.
        pos: The place: index of the next character in ``text``.
        ended: No more text will come.
        between: Since a call was taken nothing was read but what stands between calls.
    """

    def __init__(self) -> None:
        self.text = ""
        self.pos = 0
        self.ended = False
        self.between = False
        self._mark = 0  # text[_mark:pos] and, before it, _past was read since `forget`
        self._past: list[str] = []
        self._offset = 0  # of text[0] in all text

    @property
    def place(self) -> int:
        """The place in all text that ever came."""
        return self._offset + self.pos

    def feed(self, piece: str) -> None:
        """More text has come."""
        if self._mark < self.pos:
            self._past.append(self.text[self._mark : self.pos])
        self._offset += self.pos
        self.text = self.text[self.pos :] + piece
        self.pos = self._mark = 0

    def read(self) -> str:
        """What was read since `forget`."""
        return "".join(self._past) + self.text[self._mark : self.pos]

    def forget(self) -> None:
        """What was read is used up."""
        self._past.clear()
        self._mark = self.pos

    def use_up(self) -> None:
        """What was read was a call, or is content by now."""
        self.forget()
        self.between = True

    def unread(self, count: int) -> None:
        """Go back by so many of the characters that `read` gives."""
        if count > self.pos - self._mark:
            read = self.read()
            self._offset += self.pos - len(read)
            self.text = read + self.text[self.pos :]
            self._past, self._mark, self.pos = [], 0, len(read)
        self.pos -= count

    def begin(self) -> None:
        """A call begins: what stood between it and the last one is used up."""
        if self.between:
            self.forget()
            self.between = False

    def rest(self) -> str:
        """Take all the text there is."""
        rest = self.text[self.pos :]
        self.pos = len(self.text)
        return rest

    def peek(self) -> Step[str]:
        """Skip blanks; returns the next character without reading it, or an empty text at the end."""
        while True:
            match = _BLANKS.match(self.text, self.pos)
            assert match is not None
            self.pos = match.end()
            if self.pos < len(self.text):
                return self.text[self.pos]
            if self.ended:
                return ""
            yield

    def is_at(self, marker: str) -> Step[bool]:
        """Whether a text comes next."""
        while not self.text.startswith(marker, self.pos):
            if self.ended or not marker.startswith(self.text[self.pos :]):
                return False
            yield
        return True

    def accept(self, text: str) -> Step[bool]:
        """Read a text if it is there. Where it has blanks any will do, also in front of it.

        Raises:
            MalformedError: It is there up to a blank, then something else comes.
        """
        for count, part in enumerate(text.split()):
            yield from self.peek()
            if not (yield from self.is_at(part)):
                if count:
                    raise MalformedError
                return False
            self.pos += len(part)
        return True

    def expect(self, text: str) -> Step[None]:
        """Read a text that must be there.

        Raises:
            MalformedError: It is not.
        """
        if not (yield from self.accept(text)):
            raise MalformedError

    def until(self, search: MarkerSearch) -> Step[tuple[str, str]]:
        """Read up to one of some markers; returns the text and the marker, which is empty at the end."""
        pieces: list[str] = []
        while True:
            match = search.find(self.text, self.pos)
            end = match.start() if match else search.certain(self.text, self.pos)
            pieces.append(self.text[self.pos : end])
            self.pos = end
            if match is not None:
                self.pos = match.end()
                return "".join(pieces), match[0]
            if self.ended:
                pieces.append(self.rest())
                return "".join(pieces), ""
            yield

    def run(self, characters: re.Pattern[str]) -> Step[str]:
        """Read characters of a kind, one at least; blanks in front of them are skipped.

        Raises:
            MalformedError: There is none, or there are more than a name may have.
        """
        yield from self.peek()
        pieces: list[str] = []
        size = 0
        while True:
            match = characters.match(self.text, self.pos)
            found = match[0][: _MAX_NAME_CHARS + 1 - size] if match else ""
            pieces.append(found)
            self.pos += len(found)
            size += len(found)
            if size > _MAX_NAME_CHARS:
                raise MalformedError
            if self.pos < len(self.text) or self.ended:
                break
            yield
        if not size:
            raise MalformedError
        return "".join(pieces)

    def scan(self, scanner: JsonScanner | PythonScanner) -> Step[str]:
        """Read the text that a scanner finds the end of.

        Raises:
            MalformedError: The scanner refuses it, or it is not all there.
        """
        pieces: list[str] = []
        while True:
            start = self.pos
            try:
                scanner.scan(self.text, start)
            except ValueError as cause:
                raise MalformedError from cause
            finally:
                self.pos = scanner.stopped
            pieces.append(self.text[start : self.pos])
            if scanner.is_done:
                return "".join(pieces)
            if self.ended:
                raise MalformedError
            yield

"""Decoders of ``tokenizer.json`` that come after tokens were fused into one text, which arrives in pieces; see `decoder_stages`."""

from __future__ import annotations

from collections.abc import Sequence


class StripTextStage:
    """Strips up to ``start`` and ``stop`` characters equal to ``content`` from the ends of the text."""

    def __init__(self, content: str, *, start: int, stop: int) -> None:
        self._content = content
        self._start = start
        self._stop = stop
        self._held = 0  # trailing characters equal to content that may still be the end of the text

    def push(self, piece: str) -> Sequence[str]:
        """Strip the start; hold back what may turn out to be the end."""
        while self._start and piece:
            if piece[0] != self._content:
                self._start = 0
                break
            piece = piece[1:]
            self._start -= 1
        if not self._stop or not piece:
            return (piece,)
        text = self._content * self._held + piece
        trailing = len(text) - len(text.rstrip(self._content))
        self._held = min(trailing, self._stop)
        return (text[: len(text) - self._held],)

    def close(self) -> Sequence[str]:
        """What is held is the end of the text, which is stripped."""
        return ()

    def middle(self, piece: str) -> str | bytes:
        """The token as it is: the ends of the text are elsewhere."""
        return piece

    @property
    def held(self) -> str:
        """What is held is most often the end."""
        return ""

    def without_start(self, text: str) -> str:
        """What will be left of a text that comes next, its end aside."""
        begin = 0
        while begin < min(self._start, len(text)) and text[begin] == self._content:
            begin += 1
        return text[begin:]


class ReplaceTextStage:
    """Replaces a fixed string in the text, also where it arrives in parts."""

    def __init__(self, pattern: str, content: str) -> None:
        self._pattern = pattern
        self._content = content
        self._held = ""

    def push(self, piece: str) -> Sequence[str]:
        """Replace; hold back an end that may be the beginning of the pattern."""
        *whole, rest = (self._held + piece).split(self._pattern)
        hold = next(
            n
            for n in range(min(len(self._pattern) - 1, len(rest)), -1, -1)
            if _ends_as(rest, self._pattern, n)
        )
        self._held = rest[len(rest) - hold :]
        return (self._content.join([*whole, rest[: len(rest) - hold]]),)

    def close(self) -> Sequence[str]:
        """What is held was not the pattern after all."""
        return (self._held,)

    def middle(self, piece: str) -> str | bytes:
        """Replace inside the token."""
        return piece.replace(self._pattern, self._content)

    @property
    def held(self) -> str:
        """What may be the beginning of the pattern counts when it is none."""
        return ""


def _ends_as(text: str, pattern: str, length: int) -> bool:
    return text.endswith(pattern[:length])

"""`StopMatcher`: finds stop texts in text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    """Lets text through up to the first stop text, whatever the pieces it arrives in.

    The first stop text is the one that is complete first; of several that end together, the longest. Text
    that may still become a stop text is held back.

    Args:
        stops: Stop texts, none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""
        self._matched: int | None = None

    @property
    def matched(self) -> int | None:
        """Which stop text was found."""
        return self._matched

    @property
    def stopped(self) -> bool:
        """Whether a stop text was found."""
        return self._matched is not None

    def push(self, piece: str) -> str:
        """Take the next piece of text; returns what may be shown. Nothing is let through after a stop."""
        if self.stopped:
            return ""
        text = self._held + piece
        ends = [(at + len(stop), at, i) for i, stop in enumerate(self._stops) if (at := text.find(stop)) >= 0]
        if ends:
            _, at, self._matched = min(ends)
            self._held = ""
            return text[:at]
        keep = self._open_length(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What is held back, at the end of the text."""
        held, self._held = self._held, ""
        return held

    def _open_length(self, text: str) -> int:
        """Length of the longest end of ``text`` that a stop text begins with."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest

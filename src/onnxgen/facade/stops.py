"""`StopMatcher`: finds stop texts in text that arrives in pieces."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache


class StopMatcher:
    """Lets text through up to the first stop text, whatever the pieces it arrives in.

    The first stop text is the one that is complete first; of several that end together, the longest. Text
    that may still become a stop text is held back, and let through when it no longer can. The time for a
    character does not depend on the number of stop texts, nor on how much is held back.

    Args:
        stops: Stop texts, none of them empty.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._start = self._state = _automaton(self._stops)
        self._held: deque[str] = deque()
        self._begin = 0  # what was let through of the first piece that is held
        self._held_length = 0
        self._matched: int | None = None

    @property
    def matched(self) -> int | None:
        """Which stop text was found: its place in ``stops``."""
        return self._matched

    @property
    def stopped(self) -> bool:
        """Whether a stop text was found."""
        return self._matched is not None

    def push(self, piece: str) -> str:
        """Take the next piece of text; returns what may be shown. Nothing is let through after a stop."""
        if self.stopped or not piece:
            return ""
        if not self._stops:
            return piece
        state = self._state
        for at, character in enumerate(piece, start=1):
            state = state.after(character)
            if state.ends is not None:
                self._matched = state.ends
                self._hold(piece[:at])
                shown = self._release(self._held_length - len(self._stops[state.ends]))
                self._drop()
                return shown
        self._state = state
        self._hold(piece)
        return self._release(self._held_length - state.depth)

    def flush(self) -> str:
        """What is held back, at the end of the text."""
        held = self._release(self._held_length)
        self._drop()
        return held

    def _hold(self, piece: str) -> None:
        self._held.append(piece)
        self._held_length += len(piece)

    def _release(self, length: int) -> str:
        """Take so many characters from the front of what is held."""
        self._held_length -= length
        released: list[str] = []
        while length:
            piece, begin = self._held[0], self._begin
            end = min(begin + length, len(piece))
            released.append(piece[begin:end])
            length -= end - begin
            self._begin = end
            if end == len(piece):
                self._held.popleft()
                self._begin = 0
        return "".join(released)

    def _drop(self) -> None:
        self._held.clear()
        self._begin = self._held_length = 0
        self._state = self._start


@dataclass(slots=True, eq=False)
class _State:
    """A beginning of stop texts: the longest one that the text so far ends with.

    Aho and Corasick, Efficient string matching (1975): https://doi.org/10.1145/360825.360855

    Attributes:
        depth: Its length.
        next: States that are one character longer.
        shorter: The longest other beginning that this one ends with; None for the empty one.
        ends: The stop text to take where the text is here: the longest that this beginning ends with.
    """

    depth: int = 0
    next: dict[str, _State] = field(default_factory=dict[str, "_State"])
    shorter: _State | None = None
    ends: int | None = None

    def after(self, character: str) -> _State:
        """The state after one more character."""
        state = self
        while character not in state.next:
            if state.shorter is None:
                return state
            state = state.shorter
        return state.next[character]


@lru_cache(maxsize=8)  # answers to one request share it, and requests often have the same stop texts
def _automaton(stops: tuple[str, ...]) -> _State:
    start = _State()
    for index, stop in enumerate(stops):
        state = start
        for character in stop:
            state = state.next.setdefault(character, _State(state.depth + 1))
        if state.ends is None:
            state.ends = index
    # Shorter beginnings first: what a state is linked to has been linked before it.
    pending = deque([start])
    while pending:
        state = pending.popleft()
        for character, longer in state.next.items():
            longer.shorter = start if state.shorter is None else state.shorter.after(character)
            if longer.ends is None:
                longer.ends = longer.shorter.ends
            pending.append(longer)
    return start

"""`RowState`: what choosing tokens has to remember of one sequence, beyond its tokens."""

from __future__ import annotations


class RowState:
    """The memory of one sequence's sampler. A new sequence begins with ``RowState()``.

    What is kept belongs to a position of the sequence, so a sequence that is rewound goes on as if it had never
    gone further.
    """

    __slots__ = ("__weakref__", "_bounds")

    def __init__(self) -> None:
        self._bounds: list[tuple[int, float]] = []  # (length of the sequence, mu), by rising length

    def mu(self, length: int, *, first: float) -> float:
        """Mirostat's bound on surprise for the token after the first ``length`` ones, in bits.

        Args:
            length: Length of the sequence. What was noted of longer ones is forgotten.
            first: The bound of a sequence that has drawn nothing.
        """
        self.rewind(length)
        return self._bounds[-1][1] if self._bounds else first

    def note_mu(self, length: int, mu: float) -> None:
        """Keep the bound for the token after the first ``length`` ones; lengths only rise."""
        self._bounds.append((length, mu))

    def rewind(self, length: int) -> None:
        """Forget what belongs to more than ``length`` tokens."""
        while self._bounds and self._bounds[-1][0] > length:
            self._bounds.pop()

"""How many parts the products of a node have, by their rows: asked once for each number of rows."""

from __future__ import annotations

from typing import Protocol

_MOST_KEPT = 1024


class HasParts(Protocol):
    """A packed matrix."""

    def parts(self, rows: int) -> int:
        """Parts of a product with so many rows."""
        ...


class PartsByRows:
    """The parts of products with one packed matrix. May be used from several threads.

    Args:
        packed: The matrix.
    """

    def __init__(self, packed: HasParts) -> None:
        self._packed, self._known = packed, dict[int, int]()

    def __call__(self, rows: int) -> int:
        """Parts of a product with so many rows."""
        known = self._known.get(rows)
        if known is None:
            if len(self._known) >= _MOST_KEPT:
                self._known = {}
            known = self._known[rows] = self._packed.parts(rows)
        return known

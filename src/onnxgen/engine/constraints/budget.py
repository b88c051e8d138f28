"""How large a JSON Schema may be: what llguidance does not bound by itself, because it costs time or stack."""

from __future__ import annotations

import math
from decimal import Decimal

MAX_SCHEMAS = 10_000
"""Schemas in one document; each that refers to the next takes about 7 KB of stack."""

MAX_PROPERTIES = 3_000
"""Properties of one object; those that are optional cost their number squared (1 s here)."""

MAX_PATTERNS = 100
"""Patterns of property names in one document; all pairs are compared."""

MAX_MULTIPLE = 10_000
"""Remainders that all ``multipleOf`` of a document have together, without factors of ten."""


class Budget:
    """Counts what the schemas of one document hold."""

    def __init__(self) -> None:
        self._num_schemas = 0
        self._num_patterns = 0
        self._multiple = 1

    def add_schema(self) -> str | None:
        """One more schema; says why it is one too many, or nothing."""
        self._num_schemas += 1
        return None if self._num_schemas <= MAX_SCHEMAS else f"there are more than {MAX_SCHEMAS} schemas"

    def add_properties(self, count: int) -> str | None:
        """An object with so many properties."""
        return (
            None if count <= MAX_PROPERTIES else f"an object has {count} properties, at most {MAX_PROPERTIES}"
        )

    def add_patterns(self, count: int) -> str | None:
        """An object with so many patterns of names."""
        self._num_patterns += count
        if self._num_patterns <= MAX_PATTERNS:
            return None
        return f"there are more than {MAX_PATTERNS} patterns of property names"

    def add_multiple(self, value: float) -> str | None:
        """A ``multipleOf``, which may be combined with any other of the document."""
        exact = Decimal(repr(value)).normalize()
        _, digits, _ = exact.as_tuple()
        number = int("".join(map(str, digits)))
        self._multiple = math.lcm(self._multiple, number)
        if self._multiple <= MAX_MULTIPLE:
            return None
        return f"numbers would be told apart by {self._multiple} remainders, at most {MAX_MULTIPLE}"

"""`TableLimits`: how much of a table may be in memory, and who makes room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableLimits:
    """How much may be in memory. One model always may, however large.

    Attributes:
        max_loaded: Models at once; None: any number.
        memory_bytes: Of all of them; None: no limit.
        keep_alive_s: A model is unloaded when nobody asked for so many seconds; None: it stays.
    """

    max_loaded: int | None = None
    memory_bytes: int | None = None
    keep_alive_s: float | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A model in memory, as limits see it.

    Attributes:
        id: Which.
        memory_bytes: What it takes, as far as that is known.
        last_used: When it was last asked for, on a clock that only grows.
        is_idle: Nobody uses it now.
    """

    id: str
    memory_bytes: int
    last_used: float
    is_idle: bool


def fits(held: Iterable[Held], limits: TableLimits, *, newcomer_bytes: int | None = None) -> bool:
    """Whether models are within limits, together with a newcomer of so many bytes (None: there is none).

    One model alone always fits.
    """
    sizes = [each.memory_bytes for each in held]
    if newcomer_bytes is not None:
        sizes.append(newcomer_bytes)
    if len(sizes) <= 1:
        return True
    if limits.max_loaded is not None and len(sizes) > limits.max_loaded:
        return False
    return limits.memory_bytes is None or sum(sizes) <= limits.memory_bytes


def least_recently_used(held: Iterable[Held]) -> Held | None:
    """The idle model that nobody asked for the longest; None where all are in use."""
    return min(
        (each for each in held if each.is_idle), key=lambda each: (each.last_used, each.id), default=None
    )

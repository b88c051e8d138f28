"""What a pass did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did to a model.

    Attributes:
        name: The pass.
        changed: Whether the model is another one now.
        did: Counted phrases, as people read them: ``12 nodes folded, 340 bytes of results``; empty if nothing.
    """

    name: str
    changed: bool
    did: str


def counted(counts: Mapping[str, int]) -> str:
    """Counts by phrase as one line: ``{"nodes folded": 12}`` is ``12 nodes folded``."""
    return ", ".join(f"{count} {phrase}" for phrase, count in counts.items() if count)

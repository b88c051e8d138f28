"""What shape inference found, and what it could not find."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class InferenceReport:
    """The outcome for the values that nodes compute, those of inner graphs included.

    Attributes:
        resolved: Values whose element type and rank are known now (for containers: the type).
        unresolved: Names of the other values; what they are is seen when they are computed.
        declared: Names of values that no rule knows, which kept the type that the file declares.
        symbols: Symbols of the shapes as the file spells them, by the name that they have now. A name that is no
            identifier is changed (``batch size``), and every ``?`` and unnamed dimension gets a symbol of its own.
        failures: What rules said that failed, by node, for people.
    """

    resolved: int
    unresolved: tuple[str, ...]
    declared: tuple[str, ...] = ()
    symbols: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    failures: tuple[str, ...] = ()

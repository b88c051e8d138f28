"""The three ways to run a step."""

from __future__ import annotations

import enum


class PlanKind(enum.Enum):
    """How steps become calls."""

    PACKED = "packed"
    BATCHED = "batched"
    DENSE = "dense"

"""How far the optimizer goes."""

from __future__ import annotations

from enum import IntEnum


class OptimizationLevel(IntEnum):
    """Each level does what the ones before it do; the meaning is ONNX Runtime's."""

    DISABLED = 0
    """Nothing: the graph runs as the file has it."""
    BASIC = 1
    """Redundant work on standard operators goes: constants folded, dead and duplicate code, no-ops, merged neighbours."""
    EXTENDED = 2
    """Groups of operators become one operator that some provider claims."""
    ALL = 3
    """Layouts change as well: transposes move to where they cancel."""

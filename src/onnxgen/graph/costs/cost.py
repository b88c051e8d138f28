"""What a node costs, whatever runs it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Work of one node. None where the shapes do not say.

    Attributes:
        bytes_read: Bytes of all inputs, each counted once.
        bytes_written: Bytes of all outputs.
        operations: Arithmetic operations; a multiply-add counts as two.
    """

    bytes_read: int | None
    bytes_written: int | None
    operations: int | None

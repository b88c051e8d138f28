"""How many rows a call has, and into how many parts its work is cut."""

from __future__ import annotations

from collections.abc import Callable

from onnxgen.backends.native.plan import RowKind
from onnxgen.graph.cpu.compiled.header import Header
from onnxgen.graph.cpu.step.table import StepShape


def rows_word(rows: RowKind) -> int:
    """The word of the header that counts such rows."""
    return int(Header.TOKENS if rows is RowKind.TOKENS else Header.ROWS)


def parts(rows: RowKind, cut: Callable[[int], int]) -> Callable[[StepShape], int]:
    """Parts by the number of rows; none where there are none."""
    if rows is RowKind.TOKENS:
        return lambda shape: cut(shape.tokens)
    return lambda shape: cut(shape.rows) if shape.rows else 0

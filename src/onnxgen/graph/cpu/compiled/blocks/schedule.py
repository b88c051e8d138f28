"""How the work of a product is cut: known to the kernel, and to those who lay out a step."""

from __future__ import annotations

from functools import cache

from onnxgen.foundations.cpuinfo import detect_cpu

MOST_ROWS = 1024
"""Rows whose sums wait in scratch memory at once."""

_PARTS_WANTED = 32
_MOST_PARTS_OF_ONE_ROW = 64
_MOST_PARTS = 256
_PART_BYTES = 64 << 10
_ROWS_OF_A_CHUNK, _ROWS_WORTH_UNPACKING = 4, 32
"""The fewest rows that a panel is read for once more, as it is or to be unpacked."""


@cache
def unpack_from() -> int | None:
    """Rows from which on panels are unpacked for all of them, None for never, on this processor.

    Where masks and shifts run beside dot products, as on AMD, unpacking for each few rows is free and nothing is stored.
    """
    return None if detect_cpu().vendor == "AuthenticAMD" else 7


def row_chunks(rows: int, panels: int, parts: int) -> int:
    """In how many chunks the rows of each panel are multiplied. Numba compiles it."""
    return min(max(1, rows), max((parts + panels - 1) // panels, (rows + MOST_ROWS - 1) // MOST_ROWS))


def parts_of_product(rows: int, panels: int, panel_bytes: int, threads: int) -> int:
    """Parts that a product is cut into: enough to share, few enough to be worth claiming.

    Args:
        rows: Rows of activations.
        panels: Panels of the matrix.
        panel_bytes: Bytes of each.
        threads: How many will share the work; any number may.
    """
    if rows == 1:
        # Whole panels are read fastest; the last ones are split where threads would end at different times.
        split = panels % threads if panels < _PARTS_WANTED else 0
        by_size = max(_MOST_PARTS_OF_ONE_ROW, panels * panel_bytes // _PART_BYTES)
        return min(panels + split, _MOST_PARTS, by_size)
    fewest = _ROWS_OF_A_CHUNK if unpack_from() is None else _ROWS_WORTH_UNPACKING
    chunks = max(1, min(-(-_PARTS_WANTED // panels), rows // fewest))
    return min(panels * chunks, _MOST_PARTS)

"""How the work of a product is cut: known to the kernel, and to those who lay out a step."""

from __future__ import annotations

from functools import cache

from onnxgen.foundations.cpuinfo import detect_cpu

MOST_ROWS = 1024
"""Rows whose sums wait in scratch memory at once."""

_FEW_ROWS = 8
_FEWEST_ROWS = 32
_PARTS_WANTED = 32
_PART_BYTES = 32 << 10
_MOST_PARTS = 256


@cache
def unpack_from() -> int | None:
    """Rows from which on panels are unpacked for all of them, None for never, on this processor.

    Where masks and shifts run beside dot products, as on AMD, unpacking for each few rows is free and nothing is stored.
    """
    return None if detect_cpu().vendor == "AuthenticAMD" else 7


def row_chunks(rows: int, panels: int, parts: int) -> int:
    """In how many chunks the rows of each panel are multiplied. Numba compiles it."""
    return min(max(1, rows), max((parts + panels - 1) // panels, (rows + MOST_ROWS - 1) // MOST_ROWS))


def parts_of_product(rows: int, panels: int, panel_bytes: int) -> int:
    """Parts that a product is cut into: enough to share, few enough to be worth claiming.

    Args:
        rows: Rows of activations.
        panels: Panels of the matrix.
        panel_bytes: Bytes of each.
    """
    if rows <= _FEW_ROWS:
        most = 2 * panels if rows == 1 and panels < _PARTS_WANTED // 2 else panels
        return max(1, min(most, _MOST_PARTS, panels * panel_bytes // _PART_BYTES))
    if panels >= _PARTS_WANTED:
        return min(panels, _MOST_PARTS)
    return panels * max(1, min(-(-_PARTS_WANTED // panels), rows // _FEWEST_ROWS))

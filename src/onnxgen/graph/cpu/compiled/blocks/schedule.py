"""How the work of a product is cut: known to the kernel, and to those who lay out a step."""

from __future__ import annotations

DIRECT_ROWS = 6
"""Up to so many rows are multiplied straight from packed panels."""

FEWEST_ROWS = 64
"""Rows that are worth unpacking a panel for once more."""

MOST_ROWS = 1024
"""Rows whose sums wait in scratch memory at once."""

_PARTS_WANTED = 32
_PART_BYTES = 32 << 10
_MOST_PARTS = 256


def row_chunks(rows: int, panels: int, parts: int) -> int:
    """In how many chunks the rows of each panel are multiplied. Numba compiles it."""
    return max(1, (parts + panels - 1) // panels, (rows + MOST_ROWS - 1) // MOST_ROWS)


def parts_of_product(rows: int, panels: int, panel_bytes: int) -> int:
    """Parts that a product is cut into: enough to share, few enough to be worth claiming.

    Args:
        rows: Rows of activations.
        panels: Panels of the matrix.
        panel_bytes: Bytes of each.
    """
    if rows <= DIRECT_ROWS:
        most = 2 * panels if rows == 1 and panels < _PARTS_WANTED // 2 else panels
        return max(1, min(most, _MOST_PARTS, panels * panel_bytes // _PART_BYTES))
    if panels >= _PARTS_WANTED:
        return min(panels, _MOST_PARTS)
    return panels * max(1, min(-(-_PARTS_WANTED // panels), rows // FEWEST_ROWS))

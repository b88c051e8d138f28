"""How matrices of floats lie in memory for products, and how the work is cut.

panels  [panels, depth, 64]    float32, or the bits of float16 or bfloat16; zeros beyond the last column
"""

from __future__ import annotations

PANEL_COLUMNS = 64
"""Columns that lie together."""

DIRECT_ROWS = 6
"""Up to so many rows are multiplied by a panel as it is read; for more it is widened once before."""

CHUNK_ROWS = 256
"""The most rows whose sums wait in scratch memory at once."""

_PART_BYTES = 64 << 10
_MOST_PARTS = 256


def row_chunks(rows: int) -> int:
    """In how many chunks the rows of each panel are multiplied. Numba compiles it."""
    return (rows + CHUNK_ROWS - 1) // CHUNK_ROWS


def parts_of_product(rows: int, panels: int, panel_bytes: int) -> int:
    """Parts that a product is cut into: enough to share, few enough to be worth claiming.

    Args:
        rows: Rows of activations.
        panels: Panels of the matrix.
        panel_bytes: Bytes of each.
    """
    worth = max(1, rows * panels * panel_bytes // _PART_BYTES)
    return max(1, min(panels * row_chunks(rows), worth, _MOST_PARTS))

"""How matrices of bytes lie in memory for products: what packs them and what multiplies them agree on it.

    right operand, int8 [panels, steps, PANEL, STEP]     columns and depth in tiles, 0 beyond the last
    left operand, uint8 [rows, steps * STEP]             bytes beyond the depth are of no matter

Bytes of the other sign are moved by 128, and their zero points with them.
"""

from __future__ import annotations

PANEL = 64
"""Columns that lie together."""

STEP = 4
"""Depth of what one instruction multiplies."""

DEPTH_MULTIPLE = 2 * STEP
"""Depths are padded to a multiple of it."""

SIGN = 128
"""What makes an unsigned byte of a signed one, and the other way around."""


def padded_depth(depth: int) -> int:
    """Bytes along the depth in memory; never 0."""
    return max(1, -(-depth // DEPTH_MULTIPLE)) * DEPTH_MULTIPLE

"""Places in a tile of tokens of one head; `onnxgen.graph.cpu.key_value_pages` draws it."""

from __future__ import annotations

import math

GROUP_TOKENS = 16
"""Tokens whose keys are in one line, a lane each. Blocks have a multiple of it."""

MOST_TILE_TOKENS = 64
"""Tokens of a tile where the blocks allow it: what attention reads before it turns to the next tile."""

SCALES = 3
"""float32 of a token: its keys' scale, its values' log scale and inverse scale."""


def tile_tokens(block_size: int) -> int:
    """Tokens of a tile: 16, 32 or 64."""
    return math.gcd(block_size, MOST_TILE_TOKENS)


def token_bytes(head_dim: int, value_dim: int, bits: int) -> int:
    """Memory of a token whose numbers have 16 or 8 bits."""
    return 4 * SCALES + bits // 8 * (head_dim + value_dim)

"""Places in a tile of 16 tokens of one head; `onnxgen.graph.cpu.key_value_pages` draws it."""

from __future__ import annotations

TILE_TOKENS = 16
"""Tokens whose keys lie side by side."""

VALUE_LOGS = 4 * TILE_TOKENS
"""Where the values' log scales begin; the keys' scales are at 0."""

VALUE_INVERSES = 2 * 4 * TILE_TOKENS
"""Where the values' inverse scales begin."""

KEYS = 3 * 4 * TILE_TOKENS
"""Where the keys begin."""


def values_offset(head_dim: int) -> int:
    """Where the values begin."""
    return KEYS + 2 * TILE_TOKENS * head_dim


def tile_bytes(head_dim: int, value_dim: int) -> int:
    """A tile."""
    return values_offset(head_dim) + 2 * TILE_TOKENS * value_dim

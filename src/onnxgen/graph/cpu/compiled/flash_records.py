"""What compiled attention is told: one record for each sequence, and one for all of them."""

from __future__ import annotations

import numpy as np

KEY_BLOCK = 128
"""Keys whose scores exist together."""

FEW_ROWS = 8
"""Up to so many rows of queries do not pay for transposed keys."""

TILE_ROWS = 8
"""Rows that are computed together, of any tile a divisor or multiple: they reach equally far."""

UNBOUNDED = 1 << 40
"""More keys than there are."""

SEQUENCE = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("queries", "query_row", "query_head", "num_queries"),
            *("output", "output_row", "output_head"),
            *("keys", "key_row", "key_head", "num_keys", "first_position"),
            *("values", "value_row", "value_head"),
            *("blocks", "num_blocks", "block_size"),
            *("bias", "bias_row", "bias_head", "mask", "mask_row", "mask_head"),
        )
    ]
)
"""One sequence: addresses, and bytes from one row (token) or head to the next.

Queries and output are float32 with elements side by side. The bias (float32) is added to scores, the mask (one byte
each) says which keys are seen; 0 for none. With ``blocks``, the int32 ids of its ``num_blocks`` blocks, key ``j`` is row
``id[j // block_size] * block_size + j % block_size``, and keys of blocks without an id (negative) are not seen.
Query ``i`` is at position ``first_position + i`` among the keys.
"""

SETTINGS = np.dtype(
    [
        *(
            (name, np.int64)
            for name in (
                *("heads", "kv_heads", "head_dim", "value_dim", "left", "right", "key_kind", "value_kind"),
                *("key_scale", "value_scale", "sink", "block_rows", "row_blocks", "splits", "split_keys"),
            )
        ),
        ("scale", np.float32),
        ("softcap", np.float32),
    ]
)
"""What all sequences have in common.

A query at position p sees keys from ``p - left`` to ``p + right``. Kinds are those of `widening`. Scales of keys and
values are addresses of float32 ``[kv_heads, dim]``, sinks of float32 ``[heads]``; 0 for none. Parts are counted over
``row_blocks`` blocks of ``block_rows`` rows, sequences, key heads, and ``splits`` ranges of ``split_keys`` keys.
"""

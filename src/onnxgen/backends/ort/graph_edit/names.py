"""Inputs that rewrites add, and what a rewritten head computes: shared with the plans that fill them."""

from __future__ import annotations

import enum

LOGITS_ROWS = "onnxgen.logits_rows"  # int64 [1, rows, 2], pairs (batch, seq)
HEAD_ROWS = "onnxgen.head_rows"  # int64 [1, rows, 2], pairs (0, index in LOGITS_ROWS)
PAD = "onnxgen.pad"  # int64 [slots, longest, 2], pairs (token, 0)
UNPAD = "onnxgen.unpad"  # int64 [tokens, 1, 2], pairs (slot, place)
SEQLENS_K = "onnxgen.seqlens_k"  # int32 [slots], past and new tokens, minus one
CAPACITY = "onnxgen.capacity"  # int32 scalar, positions of a slot
QUERY_SEQLENS = "onnxgen.query_seqlens"  # int32 [slots], new tokens
EMBEDS = "onnxgen.embeds"  # float32 [given, width], in place of what ids look up
EMBED_CELLS = "onnxgen.embed_cells"  # int64 [given, 2], pairs (batch, seq) where
EMBEDDINGS = "onnxgen.embeddings"  # the value that they replace rows of
LORA_A = "onnxgen.lora.a."  # and the name of a product: [in_features, rank], what is added to it
LORA_B = "onnxgen.lora.b."  # likewise: [rank, out_features]


class Rows(enum.Enum):
    """Which positions a graph computes logits of."""

    WANTED = "wanted"
    ALL = "all"
    LAST = "last"

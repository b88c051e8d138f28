"""What every kernel of a step may ask about it: the words of the step's header."""

from __future__ import annotations

from enum import IntEnum


class Header(IntEnum):
    """Indices of int64 words; addresses are of C-contiguous arrays that outlive the step.

    Attributes:
        TOKENS: Packed tokens of this pass.
        SEQS: Sequences that they belong to.
        ROWS: Rows whose logits are wanted.
        TOKEN_IDS: int64 ``[tokens]``.
        POSITIONS: int64 ``[tokens]``.
        CU_SEQLENS: int32 ``[seqs + 1]``: where each sequence's tokens begin.
        CONTEXT_LENS: int32 ``[seqs]``: tokens already in the cache.
        BLOCK_TABLE: int32 ``[seqs, BLOCK_TABLE_WIDTH]``.
        BLOCK_TABLE_WIDTH: Blocks in a row of the table.
        BLOCK_SIZE: Token positions in a block.
        SLOTS: int64 ``[tokens]``: block * BLOCK_SIZE + offset where a token's key and value go.
        LOGITS_ROWS: int64 ``[rows]``: packed tokens whose logits are wanted.
        ITEMS: Work items of attention, as its planning kernel left them.
        NUM_ITEMS: How many there are.
        WINDOW_TABLE: As BLOCK_TABLE, of the layers whose blocks are a group of their own; the same where there is none.
        WINDOW_TABLE_WIDTH: Behind it, as BLOCK_TABLE_WIDTH.
        WINDOW_SLOTS: As SLOTS.
        GIVEN: How many tokens' embeddings are given.
        GIVEN_ROWS: int64 ``[given]``: which packed tokens they are of.
        GIVEN_EMBEDS: float32 ``[given, width]``.
        ADAPTERS: int32 ``[tokens]``: which adapter each token has, -1 for none; 0 where no token has one.
        WANTED_ADAPTERS: int32 ``[rows]``: likewise of the rows whose logits are wanted.
        HIDDEN_STATES: float32 ``[tokens, width]``: hidden states that a graph reads; 0 where they are all zeros.
        AUX_HIDDEN_STATES: float32 ``[tokens, width]``: likewise others of another model.
    """

    TOKENS = 0
    SEQS = 1
    ROWS = 2
    TOKEN_IDS = 3
    POSITIONS = 4
    CU_SEQLENS = 5
    CONTEXT_LENS = 6
    BLOCK_TABLE = 7
    BLOCK_TABLE_WIDTH = 8
    BLOCK_SIZE = 9
    SLOTS = 10
    LOGITS_ROWS = 11
    ITEMS = 12
    NUM_ITEMS = 13
    WINDOW_TABLE = 14
    WINDOW_TABLE_WIDTH = 15
    WINDOW_SLOTS = 16
    GIVEN = 17
    GIVEN_ROWS = 18
    GIVEN_EMBEDS = 19
    ADAPTERS = 20
    WANTED_ADAPTERS = 21
    HIDDEN_STATES = 22
    AUX_HIDDEN_STATES = 23


HEADER_WORDS = 32
"""Words of a header; the rest is free."""

"""Work items of attention: what the planning kernel writes and the attending kernel reads.

    items   [ count | 15 words unused | item 0: 16 words | item 1 | ... | counters, one for each item there may be ]

An item is a range of rows of one sequence and head of keys, over a range of splits. Rows are new tokens times the group's heads.
Items that share rows and differ in splits are a family: their splits' results go to the partial results, and who finishes last
merges them.
"""

from __future__ import annotations

from enum import IntEnum

ITEM_WORDS = 16
ITEM_BYTES = 8 * ITEM_WORDS

MOST_ROWS = 96
"""Rows of an item, at least one token's: as many as keep a tile of keys and values busy while it is in the first cache."""


class Item(IntEnum):
    """Words of an item.

    Attributes:
        SEQ: Sequence of the step.
        KV_HEAD: Head of keys and values.
        FIRST_ROW: Of the sequence's rows.
        NUM_ROWS: From there on.
        FIRST_SPLIT: Splits begin at multiples of `SPLIT_KEYS` tokens.
        END_SPLIT: The one after its last.
        PARTIAL: First row of the family's partial results; -1 where the item is its whole family.
        COUNTER: Address of the family's count of finished items, 0 between calls.
        FAMILY_FIRST: First split of the family.
        FAMILY_END: The split after its last.
        FAMILY_ITEMS: Items of the family.
        COST: Rows times keys.
    """

    SEQ = 0
    KV_HEAD = 1
    FIRST_ROW = 2
    NUM_ROWS = 3
    FIRST_SPLIT = 4
    END_SPLIT = 5
    PARTIAL = 6
    COUNTER = 7
    FAMILY_FIRST = 8
    FAMILY_END = 9
    FAMILY_ITEMS = 10
    COST = 11

"""`PrefixView`: what may be told of a beginning that sequences share."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from onnxgen.kvcache.prefix_entry import Entry


@dataclass(frozen=True, slots=True)
class PrefixView:
    """A beginning of whole blocks that sequences may share. The key tells nothing of its tokens.

    Attributes:
        key: Of everything up to its end, in hexadecimal; see `onnxgen.kvcache.block_keys`.
        num_tokens: Tokens up to its end.
        in_use: Whether a sequence uses it now.
    """

    key: str
    num_tokens: int
    in_use: bool


def latest_prefixes(entries: Iterable[Entry], *, block_size: int, most: int) -> tuple[PrefixView, ...]:
    """The whole blocks that were used last, latest first; of those used together, shorter beginnings first.

    Args:
        entries: Of the index.
        block_size: Tokens of a whole block.
        most: How many at most.
    """
    whole = (entry for entry in entries if entry.num_tokens == block_size)
    latest = heapq.nsmallest(most, whole, key=lambda entry: (-entry.used, entry.start))
    return tuple(PrefixView(e.key.hex(), e.start + e.num_tokens, e.held) for e in latest)

"""Which sequences of a step run in one call on packed tokens.

A call covers the smallest contiguous range of slots that holds its sequences, padded around attention to
its longest query::

    slot        3      4      5      6            longest = 4, range = 4 slots, 6 tokens in 16 cells
    new       a0..a3  idle   b0     c0
    past        10      ?     200    57           past + longest <= capacity must hold for every slot

Attention writes whole padded chunks, hence the last line. One call reads the weights once, which is why
sequences go together; but padding is copied around attention in every layer, so a call whose padding
would cost more than reading the weights once more is split.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence


def split_into_calls(
    slots: Sequence[int],
    past_lens: Sequence[int],
    query_lens: Sequence[int],
    *,
    capacity: int,
    padding_limit: int,
    switch_length: int | None = None,
) -> list[list[int]]:
    """Group the sequences of a step, given by slot, past and new tokens, into calls.

    Args:
        slots: Slot of each sequence, all different.
        past_lens: Tokens already in each slot.
        query_lens: New tokens of each sequence, at least 1, ``past + new <= capacity``.
        capacity: Positions of a slot.
        padding_limit: Padded cells that a call may have beyond its tokens.
        switch_length: Sequences longer than this do not share a call with shorter ones.

    Returns:
        Indices of each call's sequences, in slot order.
    """
    if len(slots) == 1:
        return [[0]]
    order = sorted(range(len(slots)), key=slots.__getitem__)
    groups: list[list[int]] = [order]
    if switch_length is not None:
        short = [i for i in order if past_lens[i] + query_lens[i] <= switch_length]
        long = [i for i in order if past_lens[i] + query_lens[i] > switch_length]
        groups = [group for group in (short, long) if group]
    calls: list[list[int]] = []
    for group in groups:
        calls += _split(group, slots, past_lens, query_lens, capacity=capacity, padding_limit=padding_limit)
    return calls


def _split(
    group: list[int],
    slots: Sequence[int],
    past_lens: Sequence[int],
    query_lens: Sequence[int],
    *,
    capacity: int,
    padding_limit: int,
) -> Iterator[list[int]]:
    if len(group) == 1:
        yield group
        return
    longest = max(query_lens[i] for i in group)
    span = slots[group[-1]] - slots[group[0]] + 1
    padding = span * longest - sum(query_lens[i] for i in group)
    has_idle = span > len(group)
    crowded = {i for i in group if past_lens[i] + longest > capacity}
    short = {i for i in group if query_lens[i] * 2 <= longest}
    if crowded:
        parts = _part(group, crowded)
    elif padding <= padding_limit and not (has_idle and longest + 1 > capacity):
        yield group
        return
    elif short:
        parts = _part(group, short)
    elif has_idle:
        gaps = [slots[b] - slots[a] for a, b in itertools.pairwise(group)]
        cut = gaps.index(max(gaps)) + 1
        parts = [group[:cut], group[cut:]]
    else:
        yield group  # all about equally long and side by side: as little padding as can be
        return
    for part in parts:
        yield from _split(part, slots, past_lens, query_lens, capacity=capacity, padding_limit=padding_limit)


def _part(group: list[int], chosen: set[int]) -> list[list[int]]:
    return [[i for i in group if i not in chosen], [i for i in group if i in chosen]]

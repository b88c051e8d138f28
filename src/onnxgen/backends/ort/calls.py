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

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

IndexArray = npt.NDArray[np.int64]


def split_into_calls(
    slots: npt.NDArray[np.integer],
    past_lens: npt.NDArray[np.integer],
    query_lens: npt.NDArray[np.integer],
    *,
    capacity: int,
    padding_limit: int,
    switch_length: int | None = None,
) -> list[IndexArray]:
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
    if slots.size == 1:
        return [np.zeros(1, np.int64)]
    order = np.argsort(slots, kind="stable")
    if switch_length is None:
        groups = [order]
    else:
        long = (past_lens + query_lens)[order] > switch_length
        groups = [g for g in (order[~long], order[long]) if g.size]
    calls: list[IndexArray] = []
    for group in groups:
        calls += _split(group, slots, past_lens, query_lens, capacity=capacity, padding_limit=padding_limit)
    return calls


def _split(
    group: IndexArray,
    slots: npt.NDArray[np.integer],
    past_lens: npt.NDArray[np.integer],
    query_lens: npt.NDArray[np.integer],
    *,
    capacity: int,
    padding_limit: int,
) -> Iterator[IndexArray]:
    if group.size == 1:
        yield group
        return
    query, slot = query_lens[group], slots[group]
    longest = int(query.max())
    span = int(slot[-1] - slot[0]) + 1
    crowded = past_lens[group] + longest > capacity
    idle = span > group.size
    padding = span * longest - int(query.sum())
    if crowded.any():
        parts = [group[~crowded], group[crowded]]
    elif padding <= padding_limit and not (idle and longest + 1 > capacity):
        yield group
        return
    elif (short := query * 2 <= longest).any():
        parts = [group[~short], group[short]]
    elif idle:
        cut = int(np.argmax(np.diff(slot))) + 1
        parts = [group[:cut], group[cut:]]
    else:
        yield group  # all about equally long and side by side: as little padding as can be
        return
    for part in parts:
        yield from _split(part, slots, past_lens, query_lens, capacity=capacity, padding_limit=padding_limit)

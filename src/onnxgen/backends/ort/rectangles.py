"""A step cut into calls ``[batch, seq]`` without padding, for graphs that cannot run ragged steps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from onnxgen.backends.base import Int64Array, Step
from onnxgen.backends.ort.results import WantedRows


@dataclass(frozen=True, slots=True)
class Rectangle:
    """Some sequences with equally many new tokens each.

    Attributes:
        sequences: Indices into the step, int64 ``[batch]``.
        past_lens: Tokens before these, int64 ``[batch]``.
        tokens: Which of the step's tokens these are, int64 ``[batch, seq]``.
        token_ids: int64 ``[batch, seq]``.
        wanted: Rows whose logits are wanted.
        first: Where these tokens begin in each sequence's new ones.
    """

    sequences: Int64Array
    past_lens: Int64Array
    tokens: Int64Array
    token_ids: Int64Array
    wanted: WantedRows
    first: int

    def place(self, step: Step, rows: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Which of some rows of the step are here, as indices, and where: int64 ``[found, 2]``, pairs (batch, seq)."""
        owner = np.searchsorted(step.cu_seqlens, rows, side="right") - 1
        offset = rows - step.cu_seqlens[owner] - self.first
        here = np.isin(owner, self.sequences) & (offset >= 0) & (offset < self.token_ids.shape[1])
        batch = np.zeros(step.num_seqs, np.int64)
        batch[self.sequences] = np.arange(self.sequences.size)
        found = np.nonzero(here)[0]
        return found, np.stack([batch[owner[found]], offset[found]], axis=-1)

    @property
    def total_lens(self) -> Int64Array:
        """Tokens up to the end of these, int64 ``[batch]``."""
        return self.past_lens + self.token_ids.shape[1]

    @property
    def positions(self) -> Int64Array:
        """int64 ``[batch, seq]``."""
        return self.past_lens[:, None] + np.arange(self.token_ids.shape[1])

    def attention_mask(self) -> Int64Array:
        """Ones up to each sequence's end, int64 ``[batch, longest]``."""
        return (np.arange(int(self.total_lens.max())) < self.total_lens[:, None]).astype(np.int64)


def cut_into_rectangles(
    step: Step, groups: Sequence[Sequence[int]], *, last_row_only: bool
) -> list[Rectangle]:
    """Make the calls for groups of sequences with equally many new tokens.

    Args:
        step: The step.
        groups: Indices of sequences that may share a call.
        last_row_only: The graph gives logits of a call's last position only, so a sequence is cut behind
            each wanted row, and then goes alone.
    """
    owner = np.searchsorted(step.cu_seqlens, step.logits_rows, side="right") - 1
    offset = step.logits_rows - step.cu_seqlens[owner]
    rectangles: list[Rectangle] = []
    for group in groups:
        length = int(step.query_lens[group[0]])
        cuts = [length]
        if last_row_only:
            cuts = sorted({length, *(offset[np.isin(owner, group)] + 1).tolist()})
        parts = [list(group)] if len(cuts) == 1 else [[i] for i in group]
        for part in parts:
            start = 0
            for end in cuts:
                rectangles.append(_rectangle(step, np.array(part, np.int64), start, end, owner, offset))
                start = end
    return rectangles


def _rectangle(
    step: Step, sequences: Int64Array, start: int, end: int, owner: Int64Array, offset: Int64Array
) -> Rectangle:
    tokens = step.cu_seqlens[:-1][sequences][:, None] + np.arange(start, end)
    results = np.nonzero(np.isin(owner, sequences) & (offset >= start) & (offset < end))[0]
    place = np.zeros(step.num_seqs, np.int64)
    place[sequences] = np.arange(sequences.size)
    rows = np.stack([place[owner[results]], offset[results] - start], axis=-1)
    return Rectangle(
        sequences=sequences,
        past_lens=step.context_lens[sequences].astype(np.int64) + start,
        tokens=tokens,
        token_ids=step.token_ids[tokens],
        wanted=WantedRows(rows, results, whole=results.size == owner.size),
        first=start,
    )


def group_by(keys: Sequence[Hashable]) -> list[list[int]]:
    """Indices with equal keys, in order of first appearance."""
    groups: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return list(groups.values())
